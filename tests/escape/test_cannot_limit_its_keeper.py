"""Limits, priorities and processors of the keeper are not the program's to set."""
import json
import os

import pytest

import escape

PRLIMIT = r"""
import resource
print("before", flush=True)
limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
new = (ctypes.c_uint64 * 2)(0, 0)
said = [call("prlimit64", 1, which, ctypes.byref(new), None) for which in limits]
open("/workspace/made", "w").write("this must come out")
tell(said)
"""


def test_cannot_lower_its_keepers_limits(attack):
    directory = attack.new_directory()
    result = attack(PRLIMIT, o=directory / "out")
    assert result.reason == "exited", result
    assert set(result.said) == {"EPERM"}
    assert (directory / "out/made").read_text() == "this must come out"


@pytest.mark.every_isolation
def test_cannot_raise_its_own_limits(attack):
    said = attack(r"""
import resource
said = {}
for name in ("NOFILE", "FSIZE", "CPU", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO", "SIGPENDING"):
    which = getattr(resource, "RLIMIT_" + name, {"NICE": 13, "RTPRIO": 14, "SIGPENDING": 11}.get(name))
    hard = resource.getrlimit(which)[1]
    try:
        resource.setrlimit(which, (hard, hard + 1))
        said[name] = "raised"
    except (ValueError, OSError) as e:
        said[name] = "refused"
    if hard == resource.RLIM_INFINITY:
        said[name] = "there is no limit"
tell(said)""").said
    if attack.in_vm:
        # A VMM serves many programs: not it has that limit, but its cell, see test_cannot_overstay.py.
        assert said.pop("CPU") == "there is no limit"
    assert set(said.values()) == {"refused"}, said


def test_cannot_slow_its_keeper(attack):
    run = attack.start(r"""
SCHED_IDLE, IOPRIO_IDLE = 5, 3 << 13
zero = ctypes.c_int(0)
attributes = (ctypes.c_uint32 * 14)(56, SCHED_IDLE)
tell({
    "nice": call("setpriority", 0, 1, 19),
    "nice of the group": call("setpriority", 1, 1, 19),
    "scheduler": call("sched_setscheduler", 1, SCHED_IDLE, ctypes.byref(zero)),
    "attributes": call("sched_setattr", 1, ctypes.byref(attributes), 0),
    "processors": call("sched_setaffinity", 1, 8, ctypes.byref(ctypes.c_uint64(1))),
    "disk": call("ioprio_set", 1, 1, IOPRIO_IDLE),
})
sys.stdin.read()""")
    said = json.loads(run.wait_for("nice"))
    # A VMM answers as if it did so, and does nothing.
    assert set(said.values()) <= ({0} if attack.in_vm else {"EPERM", "ESRCH"}), said
    keeper, = [pid for pid, name in escape.descendants(run.pid).items() if name == "keeper"]
    assert os.getpriority(os.PRIO_PROCESS, keeper) == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.sched_getscheduler(keeper) != os.SCHED_IDLE
    assert os.sched_getaffinity(keeper) == os.sched_getaffinity(0)
    run.end()
