"""A cell cannot count or sample what the processor does."""
from escape import DENIED

ATTACK = r"""
def event(kind, config):
    return ctypes.byref((ctypes.c_uint32 * 32)(kind, 128, config))
tell({name: call("perf_event_open", event(kind, config), pid, cpu, -1, 0)
      for name, kind, config, pid, cpu in [("self", 1, 9, 0, -1), ("keeper", 1, 9, 1, -1),
          ("machine", 1, 0, -1, 0), ("tracepoint", 2, 1, 0, -1), ("breakpoint", 5, 0, 0, -1)]})
"""


def test_cannot_use_perf(attack):
    if attack.is_root:
        outside = attack.outside(ATTACK)
        assert isinstance(outside["self"], int) or set(outside.values()) == {"ENOSYS"}, outside
    said = attack(ATTACK).said
    assert set(said.values()) <= DENIED, said
