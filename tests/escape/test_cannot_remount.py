"""A cell cannot make its read-only mounts writable, nor allow devices or setuid programs on its disk."""
from escape import DENIED

REMOUNT = r"""
MS_REMOUNT, MS_BIND, NODEV, NOSUID, RDONLY = 32, 4096, 4, 2, 1
AT_RECURSIVE = 0x8000
class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]
said = {}
for path in ("/", "/usr", "/workspace", "/proc/sys"):
    said["remount " + path] = call("mount", None, path.encode(), None, MS_REMOUNT | MS_BIND, None)
    said["superblock " + path] = call("mount", None, path.encode(), None, MS_REMOUNT, None)
    clear = Attributes(clear=RDONLY | NOSUID | NODEV)
    said["setattr " + path] = call("mount_setattr", -100, path.encode(), AT_RECURSIVE,
        ctypes.byref(clear), ctypes.sizeof(clear))
    said["open_tree_attr " + path] = call("open_tree_attr", -100, path.encode(), 1,
        ctypes.byref(clear), ctypes.sizeof(clear))
    said["fspick " + path] = call("fspick", -100, path.encode(), 0)
tell(said)
"""


def test_cannot_remount(attack):
    outside = attack.outside(r"""
call("mount", b"none", b"/", None, 16384 | 1 << 18, None)
call("mount", b"tmpfs", b"/tmp", b"tmpfs", 1, None)
tell(call("mount", None, b"/tmp", None, 32 | 4096, None))""", own_namespaces=True)
    assert outside == 0
    said = attack(REMOUNT).said
    assert set(said.values()) <= DENIED, said


def test_every_mount_is_nosuid_and_nodev_but_for_the_devices(attack):
    said = attack("""
tell([line.split()[4:6] for line in open("/proc/self/mountinfo")])""").said
    assert len(said) >= 5
    for path, flags in said:
        flags = flags.split(",")
        assert "nosuid" in flags, path
        assert "nodev" in flags or path in ("/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                            "/dev/urandom"), path
        own = path in ("/tmp", "/workspace", "/dev/shm", "/proc") or path.startswith("/dev/")
        assert "ro" in flags or own, path
