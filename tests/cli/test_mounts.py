"""Directories of the host in a cell: `hotcell run --mount`, and the mounts of libhotcell."""
import os
import subprocess
from pathlib import Path

import harness
import pytest

WALLS = ["container", "vm"]


@pytest.fixture
def data(tmp_path_factory):
    """A directory that everybody may read, and may write too: only the mount is read-only."""
    top = Path("/var/tmp" if harness.IS_ROOT else tmp_path_factory.mktemp("data"))
    path = top / f"hotcell-mounts-{harness.token()}"
    path.mkdir()
    path.chmod(0o777)
    (path / "a.txt").write_text("the host's\n")
    (path / "a.txt").chmod(0o666)
    (path / "sub").mkdir()
    (path / "sub").chmod(0o777)
    (path / "sub" / "b.txt").write_text("below\n")
    (path / "sub" / "b.txt").chmod(0o666)
    yield path
    subprocess.run(["rm", "-rf", path], check=True)


@pytest.fixture(params=WALLS)
def isolation(request):
    return request.param


class Mounts:
    """library/mounts, and what it answers."""

    def __init__(self, programs, isolation, *dirs):
        self.process = subprocess.Popen([programs / "mounts", isolation, *dirs], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "it ended"
        return answer.rstrip("\n")

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(harness.PATIENCE_S) == 0
        self.process.stdout.close()


@pytest.fixture
def mounts(programs, isolation):
    started = []

    def start(*dirs, isolation=isolation):
        started.append(Mounts(programs, isolation, *dirs))
        return started[-1]

    yield start
    for one in started:
        one.close()


def sh(anyone, isolation, code, *options):
    result = anyone.run("-l", "sh", "--isolation", isolation, *options, "-c", code)
    assert result.code == 0, result
    return result.out


# ---- what is seen ----


def test_its_files_are_read_and_cannot_be_changed(anyone, isolation, data):
    said = sh(anyone, isolation, """
cat /mnt/data/a.txt /mnt/data/sub/b.txt
cd /mnt/data
for change in 'echo x >a.txt' 'echo x >>a.txt' 'echo x >new' 'rm -f a.txt' 'mv a.txt c.txt' 'mkdir d' 'chmod 600 a.txt' \
    'touch a.txt' 'ln a.txt c' 'ln -s a.txt c' 'echo x >sub/new' 'rmdir sub' 'mkdir /mnt/other' 'rmdir /mnt/data'; do
    (eval "$change") 2>/dev/null && echo "$change was possible"
done
true""", "--mount", f"{data}:data")
    assert said == "the host's\nbelow\n"
    assert (data / "a.txt").read_text() == "the host's\n"
    assert sorted(os.listdir(data)) == ["a.txt", "sub"]


def test_without_a_name_it_has_the_last_one_of_its_path(anyone, isolation, data):
    assert sh(anyone, isolation, "ls /mnt", "--mount", data / "sub") == "sub\n"
    assert sh(anyone, isolation, "ls /mnt", "--mount", f"{data}/sub/") == "sub\n"
    assert sh(anyone, isolation, "ls /mnt", "--mount", f"{data}/sub/.") == "sub\n"


def test_relative_paths_and_symlinks_are_those_of_who_runs_hotcell(hotcell, isolation, data):
    (data / "link").symlink_to("sub")
    result = hotcell.run("-l", "sh", "--isolation", isolation, "--mount", "sub", "--mount", "link", "-c",
                         "cat /mnt/*/b.txt", cwd=data)
    assert (result.out, result.code) == ("below\nbelow\n", 0)


def test_what_is_changed_on_the_host_is_seen(mounts, data):
    m = mounts(data)
    m("mounts", data, "d")
    assert m("make") == "ok"
    assert m("run", "cat /mnt/d/a.txt") == "exited 0 the host's\\n|"
    (data / "a.txt").write_text("new\n")
    assert m("run", "cat /mnt/d/a.txt") == "exited 0 new\\n|"


def test_a_program_in_it_cannot_be_executed_in_a_container(anyone, data):
    (data / "tool").write_text("#!/bin/sh\necho ran\n")
    (data / "tool").chmod(0o755)
    assert sh(anyone, "container", "/mnt/data/tool 2>/dev/null || echo no; sh /mnt/data/tool",
              "--mount", f"{data}:data") == "no\nran\n"


def test_eight_are_shown_and_a_ninth_is_refused(hotcell, mounts, isolation, data):
    words = [word for n in range(8) for word in ("--mount", f"{data / 'sub'}:n{n}")]
    shown = sh(hotcell, isolation, "echo /mnt/*; cat /mnt/*/b.txt | wc -l", *words)
    assert shown.split() == [f"/mnt/n{n}" for n in range(8)] + ["8"]
    result = hotcell.run("-l", "sh", *words, "--mount", f"{data}:n8", "-c", "true")
    assert result.code == 125 and "more than 8 mounts" in result.err
    m = mounts(data)
    m("mounts", *(word for n in range(9) for word in (data, f"n{n}")))
    assert m("run", "true") == "error 6 more than 8 mounts"


def test_without_one_there_is_no_place_for_them(anyone, isolation):
    assert sh(anyone, isolation, "test -e /mnt || echo none") == "none\n"


def test_a_compiler_sees_them_too(hotcell, isolation, data):
    (data / "answer.h").write_text("#define ANSWER 42\n")
    result = hotcell.run("-l", "c", "--isolation", isolation, "--mount", f"{data}:data", "-c", """
#include "/mnt/data/answer.h"
#include <stdio.h>
int main(void) { char t[64]; FILE *f = fopen("/mnt/data/a.txt", "r"); puts(fgets(t, 64, f)); printf("%d", ANSWER); }
""")
    assert (result.out, result.code) == ("the host's\n\n42", 0), result


def test_a_warm_interpreter_sees_them(hotcell, isolation, data):
    for _ in range(2):
        result = hotcell.run("-l", "python", "--isolation", isolation, "--mount", f"{data}:data", "-c",
                             "print(open('/mnt/data/a.txt').read(), end='')")
        assert (result.out, result.code) == ("the host's\n", 0), result


# ---- what is not seen ----


def test_symlinks_in_it_lead_nowhere_on_the_host(anyone, isolation, data):
    secret = data.parent / f"secret-{harness.token()}"
    secret.write_text("a secret\n")
    secret.chmod(0o644)
    try:
        for name, target in (("absolute", secret), ("relative", f"../{secret.name}"), ("root", "/"),
                             ("passwd", "/etc/passwd"), ("up", "..")):
            (data / name).symlink_to(target)
        said = sh(anyone, isolation, f"""
cat /mnt/data/absolute /mnt/data/relative /mnt/data/../{secret.name} /mnt/data/up/{secret.name} 2>/dev/null
ls /mnt/data/.. /mnt/data/up/
cat /mnt/data/passwd | grep -c cell
ls /mnt/data/root{data.parent} 2>/dev/null | grep {secret.name}
true""", "--mount", f"{data}:data")
        assert said == "/mnt/data/..:\ndata\n\n/mnt/data/up/:\ndata\n1\n"
    finally:
        secret.unlink()


@pytest.mark.needs_root("only root can mount something on the host")
def test_what_is_mounted_below_it_is_not_shown(mounts, data):
    before, later = data / "sub", data / "later"
    later.mkdir()
    mounted = []

    def mount(*words):
        subprocess.run(["mount", *words], check=True)
        mounted.append(words[-1])

    try:
        # Shared, as the host's mounts usually are: others are told of what is mounted below.
        mount("--bind", data, data)
        subprocess.run(["mount", "--make-shared", data], check=True)
        mount("-t", "tmpfs", "none", before)
        (before / "mounted").write_text("")
        m = mounts(data)
        m("mounts", data, "d", before, "s")
        assert m("make") == "ok"
        assert m("run", "ls /mnt/d/sub /mnt/s") == "exited 0 /mnt/d/sub:\\nb.txt\\n\\n/mnt/s:\\nb.txt\\n|"
        mount("-t", "tmpfs", "none", later)
        (later / "mounted").write_text("")
        assert m("run", "ls /mnt/d/later") == "exited 0 |"
        assert m("free") == "ok" and m("make") == "ok"
        assert m("run", "ls /mnt/d/later") == "exited 0 |"
    finally:
        for path in reversed(mounted):
            subprocess.run(["umount", path], check=True)


@pytest.mark.needs_root("else the test's own user is the one that reads")
def test_as_root_the_cells_user_reads_what_everybody_may_read(hotcell, mounts, isolation, data):
    (data / "mine").write_text("root's own\n")
    (data / "mine").chmod(0o600)
    (data / "closed").mkdir(0o700)
    (data / "closed" / "inner").mkdir()
    result = hotcell.run("-l", "sh", "--isolation", isolation, "--mount", f"{data}:d", "-c",
                         "cat /mnt/d/mine; ls /mnt/d/closed")
    assert result.out == "" and result.err.count("Permission denied") == 2, result
    m = mounts(data)
    m("mounts", data / "closed" / "inner", "d")
    assert "may not be entered by the cell's user" in m("run", "true")


def test_the_kernels_own_file_systems_are_refused(anyone, isolation):
    for path in ("/proc", "/proc/self", "/sys"):
        result = anyone.run("-l", "sh", "--isolation", isolation, "--mount", f"{path}:p", "-c", "ls /mnt/p")
        assert result.code == 125 and result.out == "", result
        assert "cannot be mounted" in result.err, result


# ---- what is allowed ----


def test_only_what_is_below_an_allowed_directory_can_be_asked_for(mounts, data):
    m = mounts(data / "sub", "/var/lib/misc")
    for source in (data, data.parent, "/etc", "/", f"{data}/sub2", f"{data}/sub/../", f"{data}/sub/..",
                   f"{data}/sub/../../etc", "sub", "."):
        m("mounts", source, "d")
        answer = m("run", "ls /mnt/d")
        assert answer.startswith("error 2 "), (source, answer)
    m("mounts", data / "sub", "d")
    assert m("run", "ls /mnt/d") == "exited 0 b.txt\\n|"


def test_a_warden_that_was_not_given_a_directory_does_not_show_it(mounts, data):
    """Whatever the engine says: it may have been taken over."""
    other = data / "other"
    other.mkdir()
    m = mounts("/", "--", data / "sub")
    for source in (data, other, "/etc", f"{data}/sub2"):
        m("mounts", source, "d")
        assert m("run", "ls /mnt/d") == f"error 2 '{source}' is not below a directory from which mounts are allowed"
    m("mounts", data / "sub", "d")
    assert m("run", "ls /mnt/d") == "exited 0 b.txt\\n|"


def test_a_warden_without_directories_shows_none(mounts, data):
    m = mounts("/", "--")
    m("mounts", data, "d")
    assert m("run", "ls /mnt/d").startswith("error 2 ")


def test_a_source_that_leads_through_a_symlink_is_refused(mounts, data):
    (data / "last").symlink_to("sub")
    (data / "out").symlink_to("/etc")
    (data / "sub" / "inner").mkdir()
    m = mounts(data)
    for source in ("last", "last/inner", "out", "out/alternatives"):
        m("mounts", data / source, "d")
        assert m("run", "ls /mnt/d") == "error 2 mounts: 'd': its source leads through a symlink"
    m("mounts", data / "sub/inner", "d")
    assert m("run", "ls /mnt/d") == "exited 0 |"


def test_a_source_that_is_no_directory_or_not_there_is_refused(hotcell, mounts, data):
    m = mounts(data, data / "never")
    os.mkfifo(data / "fifo")
    for name in ("a.txt", "fifo", "a.txt/x"):
        m("mounts", data / name, "d")
        assert m("run", "ls /mnt") == "error 2 mounts: 'd': its source is not a directory"
    m("mounts", data / "nosuch", "d")
    assert m("run", "ls /mnt") == "error 3 mounts: 'd': its source is not there"
    m("mounts", data / "never", "d")
    assert m("run", "ls /mnt") == f"error 2 '{data}/never' cannot be mounted: No such file or directory"
    for value, why in ((data / "a.txt", "it is not a directory"), (data / "nosuch", "No such file or directory")):
        result = hotcell.run("-l", "sh", "--mount", value, "-c", "true")
        assert result.code == 125 and f"mount = '{value}': {why}" in result.err, result


@pytest.mark.parametrize("name", [".", "..", "a/b", "../x", "a b", "", "a\tb", "\u00e4", "n" * 256])
def test_names_are_plain(hotcell, data, name):
    result = hotcell.run("-l", "sh", "--isolation", "container", "--mount", f"{data}:{name}", "-c", "ls /mnt")
    assert result.code == 125 and result.out == "", result
    assert "mount name" in result.err, result


def test_two_of_one_name_are_refused(hotcell, data):
    result = hotcell.run("-l", "sh", "--mount", f"{data}:d", "--mount", f"{data}/sub:d", "-c", "ls /mnt")
    assert result.code == 125 and "two mounts have the name 'd'" in result.err, result


def test_a_process_cell_has_none(hotcell, data):
    result = hotcell.run("-l", "sh", "--isolation", "process", "--mount", f"{data}:d", "-c", "ls /mnt/d")
    assert result.code == 125 and "process isolation has no mounts" in result.err, result


def test_a_service_is_not_asked_for_them(hotcell, data):
    result = hotcell.run("-l", "sh", "--server", "http://127.0.0.1:1", "--mount", data, "-c", "true")
    assert result.code == 125 and "--mount is for runs on this machine" in result.err, result


def test_a_run_in_a_cell_that_was_made_before_has_that_cells_mounts(mounts, data):
    m = mounts(data)
    both = (data, "d", data / "sub", "-")
    m("mounts", *both)
    assert m("make") == "ok"
    assert m("run", "ls /mnt") == "exited 0 d\\nsub\\n|"
    for other in ((), (data, "d"), (data, "d", data, "sub"), (*both, data, "e"), (data, "D", data / "sub", "sub")):
        m("mounts", *other)
        assert m("run", "ls /mnt") == "error 2 the cell was made with other mounts", other
    m("mounts", data / "sub", "sub", data, "d")
    assert m("run", "ls /mnt") == "exited 0 d\\nsub\\n|"


def test_another_cell_of_the_same_warden_sees_none_of_them(mounts, data):
    m = mounts(data)
    m("mounts", data, "d")
    assert m("run", "ls /mnt") == "exited 0 d\\n|"
    m("mounts")
    assert m("run", "ls /mnt") == "exited 0 |"


# ---- sockets ----

PAIRS = """
import socket, asyncio
a, b = socket.socketpair()
a.send(b"x"); assert b.recv(1) == b"x"
asyncio.run(asyncio.sleep(0))
try:
    socket.socket(socket.AF_UNIX)
except OSError as e:
    print(type(e).__name__)
"""


def test_programs_beside_mounts_have_socket_pairs_but_no_unix_sockets(hotcell, isolation, data):
    result = hotcell.run("-l", "python", "--isolation", isolation, "--mount", f"{data}:d", "-c", PAIRS)
    assert (result.out, result.code) == ("PermissionError\n", 0), result


# ---- nothing is left ----


def test_they_vanish_with_the_cell_and_never_show_on_the_host(mounts, data):
    def on_the_host():
        return [line for line in harness.mounts() if data.name in line or " /mounts/" in line]

    m = mounts(data)
    m("mounts", data, "d")
    m("make")
    assert m("run", "ls /mnt") == "exited 0 d\\n|"
    assert on_the_host() == []
    assert m("free") == "ok"
    m.process.stdin.close()
    assert m.process.wait(harness.PATIENCE_S) == 0
    assert on_the_host() == []
    harness.wait_until(lambda: not harness.pids_with(str(data)), "nothing knows of it any more")
    (data / "a.txt").write_text("the host's own again\n")
    m.close = lambda: None


def test_the_steps_into_a_cell_name_them(hotcell):
    said = hotcell("doctor", "--explain").out
    assert any(line.split()[1:2] == ["mounts"] and "read-only" in line for line in said.splitlines()), said
