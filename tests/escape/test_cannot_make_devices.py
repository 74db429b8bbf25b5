"""A cell cannot make a device, and could not open one if it had it."""
ATTACK = r"""
import stat
said = {}
for name, kind, major, minor in [("null", stat.S_IFCHR, 1, 3), ("mem", stat.S_IFCHR, 1, 1),
        ("kmsg", stat.S_IFCHR, 1, 11), ("disk", stat.S_IFBLK, 254, 0), ("loop", stat.S_IFBLK, 7, 0),
        ("kvm", stat.S_IFCHR, 10, 232), ("fuse", stat.S_IFCHR, 10, 229), ("whiteout", stat.S_IFCHR, 0, 0)]:
    device = os.makedev(major, minor)
    path = "/tmp/" + name
    said["mknod " + name] = call("mknod", path.encode(), kind | 0o666, device)
    said["mknodat " + name] = call("mknodat", -100, path.encode(), kind | 0o666, device)
    # The kernel looks at the lower half only, and so must a filter.
    said["high " + name] = call("mknodat", -100, path.encode(), kind | 0o666 | 1 << 32, device)
    said["open " + name] = attempt(os.open, path, os.O_RDONLY)
tell(said)
"""


def test_cannot_make_devices(attack):
    if attack.is_root:
        outside = attack.outside("""
tell(call("mknodat", -100, b"made-a-null", 0o20666, os.makedev(1, 3)))
attempt(os.unlink, "made-a-null")""")
        assert outside == 0
    said = attack(ATTACK).said
    assert {got for name, got in said.items() if not name.startswith("open")} <= {"EPERM", "ENOSYS"}, said
    assert {got for name, got in said.items() if name.startswith("open")} == {"ENOENT"}, said


def test_can_make_fifos_sockets_and_files(attack):
    said = attack(r"""
import stat
tell([call("mknodat", -100, b"/tmp/" + name, kind | 0o600, 0) for name, kind in (
      (b"f", stat.S_IFIFO), (b"s", stat.S_IFSOCK), (b"r", stat.S_IFREG), (b"z", 0))])""").said
    assert said == [0, 0, 0, 0]
