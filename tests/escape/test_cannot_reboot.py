"""A cell cannot restart, halt or otherwise end the machine."""
from escape import DENIED

# With a command that does nothing but turn Ctrl-Alt-Del off, should it ever come through.
ATTACK = r"""
CAD_OFF = 0
tell([call("reboot", 0xfee1dead, magic, CAD_OFF, None) for magic in (672274793, 85072278, 369367448)])
"""


def test_cannot_reboot(attack):
    # In a pid namespace of one's own it is not the machine that is meant: EINVAL, but allowed.
    assert set(attack.outside(ATTACK, own_namespaces=True)) == {"EINVAL"}
    assert set(attack(ATTACK).said) <= DENIED
