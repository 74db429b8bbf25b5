"""Keys are kept per user, not per cell: a cell has no way to them."""
from escape import DENIED

ATTACK = r"""
tell({
    "session": call("keyctl", 0, -3, 1),
    "user": call("keyctl", 0, -4, 1),
    "add": call("add_key", b"user", b"left-behind", b"secret", 6, -3),
    "request": call("request_key", b"user", b"left-behind", None, -3),
    "join": call("keyctl", 1, None),
})
"""


def test_cannot_use_keyrings(attack):
    outside = attack.outside(ATTACK)
    assert isinstance(outside["session"], int) or set(outside.values()) == {"ENOSYS"}, outside
    said = attack(ATTACK).said
    assert set(said.values()) <= DENIED, said
