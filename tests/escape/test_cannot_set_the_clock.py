"""A cell cannot set the machine's clock, or steer it."""
from escape import DENIED

# To what it is: a machine on which this came through would not notice.
ATTACK = r"""
import time
now = (ctypes.c_long * 2)(int(time.time()), 0)
nothing = (ctypes.c_long * 32)(0)
tell({
    "settimeofday": call("settimeofday", ctypes.byref(now), None),
    "clock_settime": call("clock_settime", 0, ctypes.byref(now)),
    "adjtimex": call("adjtimex", ctypes.byref(nothing)),
    "clock_adjtime": call("clock_adjtime", 0, ctypes.byref(nothing)),
    "stime": call("stime", ctypes.byref(now)),
})
"""


def test_cannot_set_the_clock(attack):
    # Asking is what anybody may do outside; setting is not tried there.
    assert isinstance(attack.outside("""
nothing = (ctypes.c_long * 32)(0)
tell(call("adjtimex", ctypes.byref(nothing)))"""), int)
    said = attack(ATTACK).said
    assert set(said.values()) <= DENIED, said


def test_can_read_the_clock(attack):
    assert attack("""
import time
tell([time.time() > 1e9, time.monotonic() > 0])""").said == [True, True]
