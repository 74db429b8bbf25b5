"""A cell cannot run before the host: no real time, no better priority, no memory locked in place."""
import json
import os
import re
from pathlib import Path

import pytest

import escape

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
sys.stdin.read()
"""


@pytest.mark.every_isolation
def test_cannot_take_priority(attack):
    run = attack.start(ATTACK)
    said = json.loads(run.wait_for("fifo"))
    if attack.in_vm:
        # A VMM answers as if it did so, and does nothing.
        assert set(said.values()) <= {0, "EPERM", "EACCES"}, said
    else:
        assert set(said.values()) <= {"EPERM", "EACCES", "ENOMEM", "EINVAL"}, said
        assert said["fifo"] == "EPERM" and said["mlock"] in ("ENOMEM", "EPERM")
    programs = escape.programs(run.pid)
    assert programs
    for pid in programs:
        assert os.getpriority(os.PRIO_PROCESS, pid) >= os.getpriority(os.PRIO_PROCESS, 0)
        assert os.sched_getscheduler(pid) in (os.SCHED_OTHER, os.SCHED_BATCH)
        assert re.search(r"VmLck:\s+0 kB", Path(f"/proc/{pid}/status").read_text())
    run.end()
