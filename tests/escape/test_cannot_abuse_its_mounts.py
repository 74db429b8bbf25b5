"""A directory of the host that a cell shows (--mount) stays read-only, shows nothing above or beside it,
and is no way to a server of the host."""
import os
import socket
import subprocess

import pytest

from escape import DENIED


@pytest.fixture
def shared(attack):
    """One directory with two in it, of which a cell is given one: (the one, the other)."""
    top = attack.new_directory()
    top.chmod(0o777)
    for name in ("given", "other"):
        (top / name).mkdir()
        (top / name / "file").write_text(f"{name}'s\n")
        for path in (top / name, top / name / "file"):
            path.chmod(0o777)
            attack.own(path)
    return top / "given", top / "other"


REMOUNT = r"""
MS_REMOUNT, MS_BIND, MS_MOVE, RDONLY = 32, 4096, 8192, 1
AT_RECURSIVE = 0x8000
class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]
said = {}
for path in ("/mnt", "/mnt/d"):
    name = path.encode()
    clear = Attributes(clear=RDONLY | 14)
    said["remount " + path] = call("mount", None, name, None, MS_REMOUNT | MS_BIND, None)
    said["superblock " + path] = call("mount", None, name, None, MS_REMOUNT, None)
    said["bind " + path] = call("mount", name, b"/tmp", None, MS_BIND, None)
    said["move " + path] = call("mount", name, b"/tmp", None, MS_MOVE, None)
    said["setattr " + path] = call("mount_setattr", -100, name, AT_RECURSIVE, ctypes.byref(clear),
        ctypes.sizeof(clear))
    said["open_tree " + path] = call("open_tree", -100, name, 1)
    said["open_tree_attr " + path] = call("open_tree_attr", -100, name, 1, ctypes.byref(clear),
        ctypes.sizeof(clear))
    said["fspick " + path] = call("fspick", -100, name, 0)
    said["umount " + path] = call("umount2", name, 2)
tell(said)
"""


def test_cannot_make_a_mount_writable_or_take_it_away(attack, shared):
    given, _ = shared
    said = attack(REMOUNT, mount=f"{given}:d").said
    assert len(said) == 18 and set(said.values()) <= DENIED, said


WRITE = r"""
import fcntl
top = "/mnt/d"
file = top + "/file"
fd = os.open(file, os.O_RDONLY)
dir_fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
said = {
    "write": attempt(os.open, file, os.O_WRONLY),
    "both": attempt(os.open, file, os.O_RDWR),
    "truncate": attempt(os.truncate, file, 0),
    "create": attempt(os.open, top + "/new", os.O_CREAT | os.O_WRONLY, 0o666),
    "nameless": attempt(os.open, top, os.O_TMPFILE | os.O_WRONLY, 0o666),
    "at": attempt(os.open, "file", os.O_WRONLY, dir_fd=dir_fd),
    "unlink": attempt(os.unlink, file),
    "rename": attempt(os.rename, file, top + "/other"),
    "chmod": attempt(os.chmod, file, 0o600),
    "fchmod": attempt(os.fchmod, fd, 0o600),
    "utime": attempt(os.utime, file),
    "link": attempt(os.link, file, "/tmp/linked"),
    "mkdir": attempt(os.mkdir, top + "/d"),
    "mkfifo": attempt(os.mkfifo, top + "/f"),
    "xattr": attempt(os.setxattr, file, "user.x", b"1"),
    "reopen": attempt(os.open, "/proc/self/fd/%d" % fd, os.O_WRONLY),
    "place": attempt(os.mkdir, "/mnt/new"),
    "gone": attempt(os.rmdir, "/mnt/d"),
}
tell(said)
"""


def test_cannot_write_to_a_mount_that_its_user_may_write_outside(attack, shared):
    given, _ = shared
    outside = attack.outside("tell(attempt(os.open, %r, os.O_WRONLY))" % str(given / "file"))
    assert isinstance(outside, int)
    said = attack(WRITE, mount=f"{given}:d").said
    refusals = {"EROFS", "EACCES", "EPERM", "EXDEV", "EBUSY", "EOPNOTSUPP", *attack.denied("file")}
    assert all(answer in refusals for answer in said.values()), said
    assert (given / "file").read_text() == "given's\n"
    assert os.listdir(given) == ["file"] and (given / "file").stat().st_mode & 0o777 == 0o777


LOOK_AROUND = r"""
RESOLVE_NO_SYMLINKS = 4
up = lambda n: "/".join([".."] * n)
given, other = %r
said = {}
for n in range(1, 12):
    said["up %%d" %% n] = attempt(os.listdir, "/mnt/d/" + up(n))
os.chdir("/mnt/d")
said["cwd"] = attempt(os.listdir, "..")
fd = os.open("/mnt/d", os.O_RDONLY | os.O_DIRECTORY)
said["at"] = attempt(os.open, "../../" + other.split("/")[-1], os.O_RDONLY, dir_fd=fd)
said["by root"] = attempt(os.listdir, "/proc/self/root" + other)
said["by cwd"] = attempt(os.listdir, "/proc/self/cwd/../other")
said["by fd"] = attempt(os.listdir, "/proc/self/fd/%%d/../other" %% fd)
said["by keeper"] = attempt(os.listdir, "/proc/1/root/mounts")
said["by warden"] = attempt(os.listdir, "/mounts")
said["its own path"] = attempt(os.listdir, given)
said["other"] = attempt(os.listdir, other)
said["link"] = attempt(lambda: open("/mnt/d/link/file").read())
said["link up"] = attempt(os.listdir, "/mnt/d/up")
tell(said)
"""


def test_cannot_see_what_lies_above_or_beside_a_mount(attack, shared):
    given, other = shared
    (given / "link").symlink_to(other)
    (given / "up").symlink_to("../other")
    beside = attack.start("print('up', flush=True); input()", mount=f"{other}:d")
    beside.wait_for("up")
    said = attack(LOOK_AROUND % ((str(given), str(other)),), mount=f"{given}:d").said
    beside.end()
    assert said["up 1"] == said["cwd"] == ["d"]
    root = said["up 2"]
    assert "mnt" in root and "mounts" not in root and "host" not in root
    assert all(said[f"up {n}"] == root for n in range(2, 12)), said
    for name in ("at", "by root", "by cwd", "by fd", "by keeper", "by warden", "its own path", "other", "link",
                 "link up"):
        assert said[name] in ("ENOENT", "EACCES", "EPERM", "ENOTDIR"), (name, said[name])


MOVED = r"""
os.chdir("/mnt/d/deep/deeper")
fd = os.open("..", os.O_RDONLY | os.O_DIRECTORY)
print("inside", flush=True)
input()
def climb(start):
    seen, path = [], ""
    for _ in range(8):
        path += "../"
        seen.append(attempt(lambda: sorted(os.listdir(start + path))))
    return seen
said = {"cwd": climb("")}
os.fchdir(fd)
said["fd"] = climb("")
said["at"] = [attempt(os.open, "../" * n + "other/file", os.O_RDONLY, dir_fd=fd) for n in range(1, 8)]
tell(said)
"""


def test_cannot_climb_out_of_a_directory_that_the_host_moves_elsewhere(attack, shared):
    """A directory in which a cell stands is moved out of the mount: `..` is then the host's."""
    given, other = shared
    (given / "deep" / "deeper").mkdir(parents=True)
    for path in (given / "deep", given / "deep" / "deeper"):
        path.chmod(0o777)
    running = attack.start(MOVED, mount=f"{given}:d")
    running.wait_for("inside")
    (given / "deep").rename(other.parent / "moved")
    running.send("\n")
    line = running.wait_for("cwd")
    running.wait()
    assert "other" not in line.replace("others", ""), line
    assert "file" not in line and "moved" not in line, line


CONNECT = r"""
import socket
path = %r
def by_pair(kind, path):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.connect(path)
def to(path):
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return a.sendto(b"x", path)
said = {"to datagram": attempt(to, path + "datagram")}
for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM), ("packet", socket.SOCK_SEQPACKET)):
    said[name] = attempt(lambda: socket.socket(socket.AF_UNIX, kind).connect(path + name))
    said["pair " + name] = attempt(by_pair, kind, path + name)
tell(said)
"""


def hears(server):
    """What has reached a server that does not wait."""
    heard = 0
    while True:
        try:
            server.recv(1) if server.type == socket.SOCK_DGRAM else server.accept()[0].close()
            heard += 1
        except BlockingIOError:
            return heard


def test_cannot_reach_a_server_that_listens_in_a_mount(attack, shared):
    given, _ = shared
    servers = []
    for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM),
                       ("packet", socket.SOCK_SEQPACKET)):
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(str(given / name))
        (given / name).chmod(0o777)
        if kind != socket.SOCK_DGRAM:
            server.listen()
        server.setblocking(False)
        servers.append(server)
    outside = attack.outside(CONNECT % f"{given}/")
    assert outside == {"to datagram": 1, "stream": None, "pair stream": "EISCONN", "datagram": None,
                       "pair datagram": None, "packet": None, "pair packet": "EISCONN"}
    assert [hears(server) for server in servers] == [1, 1, 1]
    said = attack(CONNECT % "/mnt/d/", mount=f"{given}:d").said
    assert all(answer in ("EPERM", "EISCONN", "EINVAL") for answer in said.values()), said
    assert [hears(server) for server in servers] == [0, 0, 0]
    for server in servers:
        server.close()


def has_landlock(attack):
    said = subprocess.run([attack.hotcell, "doctor"], capture_output=True, text=True).stdout
    return any(line.split()[:2] == ["fine", "landlock"] for line in said.splitlines())


def test_cannot_write_to_a_pipe_of_the_host_in_a_mount(attack, shared):
    """What keeps it from that is landlock; where there is none, SECURITY.md says that it can."""
    given, _ = shared
    os.mkfifo(given / "pipe")
    (given / "pipe").chmod(0o777)
    reader = os.open(given / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        said = attack("""
tell([attempt(os.open, "/mnt/d/pipe", flags | os.O_NONBLOCK) for flags in (os.O_WRONLY, os.O_RDWR)])""",
                      mount=f"{given}:d").said
        if has_landlock(attack):
            assert set(said) <= {"EACCES", "EROFS", "EPERM"}, said
    finally:
        os.close(reader)
