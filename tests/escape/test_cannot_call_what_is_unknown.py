"""Calls that no row of the table names are absent: whatever a newer kernel brings is not there until
somebody has thought about it."""

ATTACK = r"""
# The ones of the table: a program may use them, or is told that it may not.
known = set(NR[name] for name in ("futex_wake", "futex_wait", "futex_requeue", "statmount", "listmount",
                                  "mseal", "cachestat", "fchmodat2", "map_shadow_stack"))
tell({number: value for number in range(450, 1200) if number not in known and number != 450
      for value in [call(number, -1, -1, -1, -1, -1, -1)] if value != "ENOSYS"})
"""


def test_cannot_call_what_is_unknown(attack):
    assert attack(ATTACK).said == {}
