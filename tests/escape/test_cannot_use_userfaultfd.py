"""A cell cannot hold the kernel up in the middle of a copy: userfaultfd is denied."""
from escape import DENIED

ATTACK = r"""
UFFD_USER_MODE_ONLY = 1
tell([call("userfaultfd", flags) for flags in (0, UFFD_USER_MODE_ONLY, os.O_CLOEXEC | UFFD_USER_MODE_ONLY)])
"""


def test_cannot_use_userfaultfd(attack):
    outside = attack.outside(ATTACK)
    assert isinstance(outside[1], int) or set(outside) == {"ENOSYS"}, outside
    assert set(attack(ATTACK).said) <= DENIED


def test_has_no_device_for_it(attack):
    assert attack("""tell(os.path.exists("/dev/userfaultfd"))""").said is False
