"""A cell cannot mount anything, by the old call or by the new ones."""
from escape import DENIED

MOUNTS = r"""
os.makedirs("/tmp/mount-here", exist_ok=True)
at = b"/tmp/mount-here"
MS_BIND, MS_REC, MS_PRIVATE, OPEN_TREE_CLONE = 4096, 16384, 1 << 18, 1
said = {
    "private": call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None),
    "tmpfs": call("mount", b"tmpfs", at, b"tmpfs", 0, None),
    "proc": call("mount", b"proc", at, b"proc", 0, None),
    "sysfs": call("mount", b"sysfs", at, b"sysfs", 0, None),
    "bind": call("mount", b"/", at, None, MS_BIND | MS_REC, None),
    "fsopen": call("fsopen", b"tmpfs", 0),
    "open_tree": call("open_tree", -100, b"/", OPEN_TREE_CLONE),
    "fspick": call("fspick", -100, b"/tmp/mount-here", 0),
}
tell(said)
"""


def test_cannot_mount(attack):
    outside = attack.outside(MOUNTS, own_namespaces=True)
    assert not DENIED & {str(value) for value in outside.values()}, outside
    said = attack(MOUNTS).said
    assert set(said.values()) <= DENIED, said
