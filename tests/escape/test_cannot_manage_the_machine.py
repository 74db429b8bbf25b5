"""Swap, accounting, quotas, names, ports and terminals of the machine are not a cell's."""
from escape import DENIED

ATTACK = r"""
buffer = ctypes.create_string_buffer(64)
tell({
    "swapon": call("swapon", b"/no/such/file", 0),
    "swapoff": call("swapoff", b"/no/such/file"),
    "acct": call("acct", b"/no/such/file"),
    "quotactl": call("quotactl", 0x800007 << 8, b"/no/such/file", 0, None),
    "quotactl_fd": call("quotactl_fd", 0, 0x800007 << 8, 0, None),
    "sethostname": call("sethostname", b"taken", 5),
    "setdomainname": call("setdomainname", b"taken", 5),
    "vhangup": call("vhangup"),
    "nfsservctl": call("nfsservctl", 0, None, None),
    "syslog": call("syslog", 5, None, 0),
    "_sysctl": call("_sysctl", buffer),
    "uselib": call("uselib", b"/bin/sh"),
    "iopl": call("iopl", 3),
    "ioperm": call("ioperm", 0x80, 1, 1),
    "modify_ldt": call("modify_ldt", 0, buffer, 64),
    "READ_IMPLIES_EXEC": call("personality", 0x400000),
    "MMAP_PAGE_ZERO": call("personality", 0x100000),
    "flags": call("personality", 0xffffffff),
    "memfd_secret": call("memfd_secret", 0),
    "lookup_dcookie": call("lookup_dcookie", 0, buffer, 64),
})
"""


def test_cannot_manage_the_machine(attack):
    if attack.is_root:
        assert attack.outside("""tell(call("swapoff", b"/no/such/file"))""") == "ENOENT"
    assert attack.outside("""tell(call("sethostname", b"taken", 5))""", own_namespaces=True) == 0
    said = attack(ATTACK).said
    flags = [said.pop("READ_IMPLIES_EXEC"), said.pop("MMAP_PAGE_ZERO"), said.pop("flags")]
    # A VMM answers as if it did so, and does nothing.
    assert flags == [0, 0, 0] if attack.in_vm else set(flags[:2]) <= DENIED, flags
    assert set(said.values()) <= DENIED, said
