"""A cell cannot open files by handle, past all that its mounts show (as "shocker" did)."""
from escape import DENIED

# The handle of the root directory of most file systems: inode 2.
ATTACK = r"""
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("type", ctypes.c_int32), ("handle", ctypes.c_uint8 * 128)]
said = {}
for path in ("/", "/usr", "/etc/passwd", "/tmp", "/proc"):
    handle, mount = Handle(bytes=128), ctypes.c_int()
    said["name " + path] = call("name_to_handle_at", -100, path.encode(), ctypes.byref(handle),
                                ctypes.byref(mount), 0)
    at = os.open(path, os.O_RDONLY)
    root = Handle(bytes=8, type=1)
    root.handle[0] = 2
    said["open " + path] = call("open_by_handle_at", at, ctypes.byref(root), os.O_RDONLY)
tell(said)
"""


def test_cannot_open_by_handle(attack):
    outside = attack.outside(ATTACK)
    assert outside["name /usr"] == 0, outside
    said = attack(ATTACK).said
    assert set(said.values()) <= DENIED, said
