"""Results are read by a keeper that follows no symlink and waits for no fifo, and what is copied to
the host stays in the directory that was named for it."""
import os
import stat

import pytest

from escape import ISOLATIONS

pytestmark = pytest.mark.every_isolation


def tree(directory):
    """What there is on the host: {path: kind}."""
    found = {}
    for path in directory.rglob("*"):
        mode = os.lstat(path).st_mode
        found[str(path.relative_to(directory))] = "directory" if stat.S_ISDIR(mode) else \
            "file" if stat.S_ISREG(mode) else "other"
    return found


def kinds(result):
    return {file["path"]: file["kind"] for file in result.files}


def test_symlinks_are_named_and_not_followed(attack, host_secret):
    secret, text = host_secret
    out = attack.new_directory() / "out"
    result = attack(r"""
for name, target in {"file": "/etc/passwd", "secret": %r, "keeper": "/proc/self/environ",
                     "fd": "/proc/self/fd/3", "one": "/proc/1/mem", "etc": "/etc", "up": "..",
                     "loop": "loop", "dev": "/dev/zero", "nowhere": "/no/such"}.items():
    os.symlink(target, name)
os.mkdir("d")
os.symlink("/etc", "d/etc")
open("real", "w").write("real")""" % str(secret), o=out)
    assert result.status == 0
    names = kinds(result)
    assert names.pop("real") == "file" and names.pop("d") == "directory"
    assert set(names.values()) == {"symlink"} and len(names) == 11
    assert {path for path, kind in tree(out).items() if kind == "file"} == {"real"}
    assert "other" not in tree(out).values()


def test_fifos_sockets_and_devices_hold_nothing_up(attack):
    out = attack.new_directory() / "out"
    result = attack(r"""
import socket
os.mkfifo("fifo")
os.mkfifo(".hidden")
socket.socket(socket.AF_UNIX).bind("socket")
attempt(os.mknod, "device", 0o20666, os.makedev(1, 5))
open("file", "w").write("here")""", o=out)
    assert result.status == 0 and result.reason == "exited"
    assert kinds(result) == {"fifo": "other", ".hidden": "other", "socket": "other", "file": "file"}
    assert tree(out) == {"file": "file"}


def test_hard_links_lead_nowhere(attack):
    said = attack(r"""
tell([attempt(os.link, path, "/workspace/linked" if os.path.isdir("/workspace") else "linked")
      for path in ("/etc/passwd", "/usr/bin/env", "/proc/self/environ", "/proc/1/environ")])""").said
    assert None not in said


def test_a_race_against_the_reader_is_lost(attack, host_secret):
    """Files that become symlinks and directories that move, until the very end."""
    secret, text = host_secret
    out = attack.new_directory() / "out"
    result = attack(r"""
import signal
for i in range(6):
    if os.fork() == 0:
        while True:
            for name, target in (("a", %r), ("b", "/etc/passwd"), ("c", "/proc/self/environ")):
                attempt(os.symlink, target, name + "x")
                attempt(os.rename, name + "x", name)
                with open(name + "y", "w") as f:
                    f.write("mine")
                attempt(os.rename, name + "y", name)
            attempt(os.mkdir, "d")
            attempt(os.rename, "d", "e")
            attempt(os.symlink, "/etc", "d")
            attempt(os.unlink, "d")
            attempt(os.rename, "e", "d")
import time
time.sleep(0.3)""" % str(secret), o=out)
    assert result.status == 0, result
    for path in out.rglob("*"):
        assert not path.is_symlink()
        if path.is_file():
            assert path.read_text() in ("mine", "")


def test_names_are_names(attack):
    """Newlines, quotes, dashes, bytes that are no UTF-8, and 255 of them."""
    out = attack.new_directory() / "out"
    names = [b"new\nline", b"-rf", b"\xff\xfe", b"a\\b", b"'; rm -rf ~ #", b"$(id)", b" ", b"\t",
             b"...", b"..x", b"x" * 255, "ü".encode(), b"\x1b[2J", b"%s%n", b"~", b"*"]
    result = attack(r"""
for name in %r:
    open(name, "wb").write(name)""" % names, o=out)
    assert result.status == 0
    assert {bytes(entry): open(os.path.join(os.fsencode(out), entry), "rb").read()
            for entry in os.listdir(os.fsencode(out))} == {name: name for name in names}
    assert kinds(result)["\ufffd\ufffd"] == "file" and kinds(result)["new\nline"] == "file"


def test_ten_thousand_directories_deep(attack):
    # A process cell's disk is the host's own, which takes its time to clear.
    depth = 10_000 if attack.isolation in ISOLATIONS else 2_000
    out = attack.new_directory() / "out"
    result = attack(r"""
open("top", "w").write("here")
# From the bottom up: a path that is checked from its depths to the top would take long to check.
os.mkdir("d")
open("d/bottom", "w").write("too deep")
for i in range(%d):
    os.mkdir("n")
    os.rename("d", "n/d")
    os.rename("n", "d")""" % depth, o=out, timeout="120s")
    assert (result.reason, result.exit_code) == ("exited", 0)
    assert result.files_incomplete
    assert (out / "top").read_text() == "here"


def test_directories_that_forbid_their_reader(attack):
    result = attack(r"""
os.makedirs("locked/in")
open("locked/in/f", "w").write("x")
os.chmod("locked/in", 0)
os.chmod("locked", 0)
open("plain", "w").write("x")
os.chmod(".", 0)""")
    assert result.reason == "exited"
    assert "plain" in kinds(result) or result.files_incomplete


def test_many_files_come_back(attack):
    result = attack(r"""
for i in range(1000):
    open(f"{'n' * 200}{i}", "w").close()""")
    assert result.status == 0
    assert len(result.files) == 1000 or result.files_incomplete
