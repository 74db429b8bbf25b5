"""The program of the keeper, which is hotcell's own file on the host, cannot be reached through /proc
(as it could be in runc, through /proc/self/exe)."""
import hashlib
import os

ATTACK = r"""
import time
said = {}
for path in ("/proc/1/exe", "/proc/1/root/proc/self/exe", "/proc/self/exe"):
    for name, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY), ("path", os.O_PATH)):
        said[f"{name} {path}"] = attempt(os.open, path, flags)
# By way of a link, of a script whose interpreter it is, and of a program that is it.
os.symlink("/proc/1/exe", "/tmp/link")
said["write link"] = attempt(os.open, "/tmp/link", os.O_WRONLY)
open("/tmp/script", "w").write("#!/proc/1/exe\n")
os.chmod("/tmp/script", 0o755)
for path in ("/tmp/script", "/proc/1/exe", "/tmp/link"):
    pid = os.fork()
    if pid == 0:
        attempt(os.execv, path, ["x"])
        os._exit(111)
    said["run " + path] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
tell(said)
"""


def digest(attack):
    programs = sorted((attack.place / "bin").iterdir())
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in programs]


def test_cannot_overwrite_hotcell(attack):
    before = digest(attack)
    warden = attack.place / "bin/hotcell-warden"
    if attack.who == "nobody":
        # The copy is the attacking user's own: only the cell stands between them.
        assert os.stat(warden).st_uid == 65534 and os.stat(warden).st_mode & 0o200
    said = attack(ATTACK).said
    for name, got in said.items():
        if "/proc/1/" in name or "link" in name:
            assert got in ("EACCES", "EPERM", "ENOENT", 111, 126), (name, got)
    # Its own program it may read, as anybody may.
    assert said["write /proc/self/exe"] in ("EACCES", "EROFS", "ETXTBSY")
    assert said["run /tmp/script"] == said["run /proc/1/exe"] == 111
    assert digest(attack) == before
