"""A cell cannot run before the host: no real time, no better priority, no memory locked in place."""
import pytest

ATTACK = r"""
import mmap
one = ctypes.c_int(1)
deadline = (ctypes.c_uint64 * 6)(48 | 6 << 32, 0, 0, 10**6, 10**7, 10**7)
said = {
    "fifo": call("sched_setscheduler", 0, 1, ctypes.byref(one)),
    "round robin": call("sched_setscheduler", 0, 2, ctypes.byref(one)),
    "deadline": call("sched_setattr", 0, ctypes.byref(deadline), 0),
    "nice": call("setpriority", 0, 0, -5),
    "disk": call("ioprio_set", 1, 0, 1 << 13),
    "lock": call("mlockall", 3),
}
memory = mmap.mmap(-1, 16 << 20)
said["mlock"] = call("mlock", ctypes.addressof(ctypes.c_char.from_buffer(memory)), 16 << 20)
tell(said)
"""


@pytest.mark.every_isolation
def test_cannot_take_priority(attack):
    said = attack(ATTACK).said
    assert set(said.values()) <= {"EPERM", "EACCES", "ENOMEM", "EINVAL"}, said
    assert said["fifo"] == "EPERM" and said["mlock"] in ("ENOMEM", "EPERM")
