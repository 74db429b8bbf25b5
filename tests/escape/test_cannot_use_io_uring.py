"""A cell has no io_uring, through which calls would go past the filter. Programs take another way."""
ATTACK = r"""
parameters = (ctypes.c_uint32 * 32)()
tell([call("io_uring_setup", 8, ctypes.byref(parameters)), call("io_uring_enter", 3, 0, 0, 0, None, 0),
      call("io_uring_register", 3, 0, None, 0), call("io_uring_register", -1, 0x80000000, None, 0)])
"""


def test_cannot_use_io_uring(attack):
    if attack.is_root:
        outside = attack.outside(ATTACK)
        assert isinstance(outside[0], int) or outside[0] in ("ENOSYS", "EPERM"), outside
    assert set(attack(ATTACK).said) == {"ENOSYS"}
