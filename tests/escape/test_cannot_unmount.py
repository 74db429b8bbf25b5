"""A cell cannot take away or move the mounts that cover something."""
from escape import DENIED

UNMOUNT = r"""
MNT_DETACH, MS_MOVE = 2, 8192
said = {}
for path in %r:
    said["umount " + path] = call("umount2", path.encode(), MNT_DETACH)
    said["move " + path] = call("mount", path.encode(), b"/tmp", None, MS_MOVE, None)
said["move_mount"] = call("move_mount", -100, b"/usr", -100, b"/tmp", 0)
tell(said)
"""


def test_cannot_unmount(attack):
    outside = attack.outside(r"""
call("mount", b"none", b"/", None, 16384 | 1 << 18, None)
call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)
tell(call("umount2", b"/tmp", 2))""", own_namespaces=True)
    assert outside == 0
    said = attack(UNMOUNT % ["/proc/kcore", "/proc/sys", "/proc", "/usr", "/tmp", "/dev/null", "/"]).said
    assert set(said.values()) <= DENIED, said
