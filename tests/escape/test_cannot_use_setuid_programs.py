"""Setuid programs, be they the host's or made in the workspace, give a cell nothing."""
import os
import stat
import subprocess

import pytest

HOSTS = r"""
import stat, subprocess
setuid, became = [], {}
for top in ("/usr/bin", "/usr/sbin", "/bin", "/sbin"):
    for directory, _, files in os.walk(top):
        for name in files:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                setuid.append(path)
for path in setuid:
    # Started with a wrong option, and stopped at its first breath: its ids are what counts.
    try:
        child = subprocess.Popen([path, "--no-such-option"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except PermissionError:
        continue  # not for everybody
    try:
        lines = open(f"/proc/{child.pid}/status").read().splitlines()
        became[path] = [line.split()[1:] for line in lines if line.startswith(("Uid", "CapEff"))]
    except OSError:
        pass
    child.kill()
    child.wait()
tell({"setuid": setuid, "became": became})
"""

OWN = r"""
import shutil, subprocess
said = {}
for place in ("/workspace", "/tmp", "/dev/shm"):
    path = place + "/mine"
    shutil.copy("/usr/bin/id", path)
    os.chmod(path, 0o6755)
    done = attempt(subprocess.run, [path], capture_output=True, text=True)
    said[place] = done if isinstance(done, str) else done.stdout
    said[place + " capability"] = attempt(os.setxattr, path, "security.capability",
        bytes.fromhex("0100000200000020000000000000000000000000"))
    said[place + " chown"] = attempt(os.chown, path, 0, 0)
tell(said)
"""


def test_the_hosts_setuid_programs_are_only_programs(attack):
    said = attack(HOSTS).said
    hosts = subprocess.run(["find", "/usr/bin", "-perm", "-4000"], capture_output=True, text=True).stdout
    assert set(hosts.split()) <= set(said["setuid"]) and hosts, "the host has no setuid program"
    for path, (uid, capabilities) in said["became"].items():
        assert set(uid) == {"1000"} and capabilities == ["0" * 16], path


def test_su_and_mount_fail(attack):
    result = attack(r"""
su -c id root </dev/null
mount -t tmpfs none /tmp
umount /proc
echo end""", language="sh")
    assert result.stdout == "end\n"


def test_a_setuid_file_of_its_own_is_worth_nothing(attack):
    said = attack(OWN).said
    for place in ("/workspace", "/tmp"):
        assert said[place].startswith("uid=1000(cell) gid=1000(cell)") and "euid" not in said[place]
    assert said["/dev/shm"] == "EACCES"
    for place in ("/workspace", "/tmp", "/dev/shm"):
        assert said[place + " capability"] in ("EPERM", "EOPNOTSUPP", "EACCES")
        assert said[place + " chown"] in ("EPERM", "EINVAL")


@pytest.mark.every_isolation
def test_a_setuid_file_comes_out_as_a_plain_one(attack):
    """Copied by root it would be root's, and a way in for everybody on the host."""
    directory = attack.new_directory()
    attack("""
open("shell", "w").write("x")
os.chmod("shell", 0o6777)
os.mkdir("sticky")
os.chmod("sticky", 0o7777)
open("sticky/f", "w")
""", o=directory / "out")
    made = directory / "out/shell"
    assert made.read_text() == "x"
    for path in (made, directory / "out/sticky", directory / "out/sticky/f"):
        assert not os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), path
