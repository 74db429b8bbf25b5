"""Of the kinds of sockets that the kernel has, a cell gets TCP, UDP and unix ones. Raw, packet,
netlink, vsock, crypto and all others are denied, by whatever way they are asked for."""
FAMILIES = r"""
said = {}
for family in list(range(64)) + [1 << 16, 0x7fffffff]:
    for kind in (1, 2, 3, 5):
        got = call("socket", family, kind, 0)
        pair = (ctypes.c_int * 2)()
        both = call("socketpair", family, kind, 0, ctypes.byref(pair))
        for fd in ([got] if isinstance(got, int) else []) + (list(pair) if both == 0 else []):
            os.close(fd)
        if isinstance(got, int) or isinstance(both, int):
            said[f"{family} {kind}"] = "opened"
        elif family not in (1, 2, 10):
            said[f"{family} {kind}"] = got
tell(said)
"""

PROTOCOLS = r"""
said = {}
for family in (2, 10):
    for kind in range(1, 11):
        for protocol in list(range(1, 256)) + [262]:
            got = call("socket", family, kind, protocol)
            if isinstance(got, int):
                os.close(got)
                said[f"{family} {kind} {protocol}"] = "opened"
tell(said)
"""

# Those for whose sake a kernel loads a module, on the word of anybody who asks.
LOADED_ON_DEMAND = {"DCCP": (6, 33), "L2TP": (2, 115), "SCTP": (1, 132), "SCTP, one to many": (5, 132),
                    "UDP-Lite": (2, 136), "MPTCP": (1, 262), "SMC": (1, 256), "RDS": (5, 256)}


def test_cannot_open_sockets_of_other_families(attack):
    said = attack(FAMILIES).said
    opened = {name for name, got in said.items() if got == "opened"}
    # "1 3": by that number the kernel has another unix socket for datagrams, and a VMM nothing.
    assert opened | {"1 3"} == {"1 1", "1 2", "1 3", "1 5", "2 1", "2 2", "10 1", "10 2"}
    assert {got for name, got in said.items() if name not in opened} <= attack.denied("socket"), said
    # Netlink at least is there for everybody outside.
    assert isinstance(attack.outside("""tell(call("socket", 16, 3, 0))"""), int)


def test_cannot_open_raw_sockets(attack):
    said = attack("""
tell([call("socket", family, 3, protocol) for family in (2, 10) for protocol in (1, 6, 58, 255)])""").said
    assert set(said) == {"EAFNOSUPPORT" if attack.in_vm else "EPERM"}
    # An old name for a packet socket, which has the family of a harmless one.
    assert attack("""tell(call("socket", 2, 10, 0x300))""").said in attack.denied("socket")
    assert isinstance(attack.outside("""tell(call("socket", 2, 3, 1))""", own_namespaces=True), int)


def test_speaks_tcp_and_udp_only(attack):
    said = attack(PROTOCOLS).said
    assert set(said) == {f"{family} {kind}" for family in (2, 10) for kind in ("1 6", "2 17")}


def test_cannot_make_the_kernel_load_a_protocol(attack):
    """It is the filter (or the VMM) that must say so: by the time that the kernel says no, it has looked
    for a module."""
    said = attack("""tell({name: [call("socket", family, kind, protocol) for family in (2, 10)]
                           for name, (kind, protocol) in %r.items()})""" % LOADED_ON_DEMAND).said
    for name, got in said.items():
        assert set(got) <= attack.denied("socket"), f"{name}: {got}"


def test_cannot_configure_interfaces(attack):
    said = attack(r"""
SIOCSIFFLAGS, SIOCSIFADDR, SIOCGIFCONF, SIOCBRADDBR, TUNSETIFF = 0x8914, 0x8916, 0x8912, 0x89a0, 0x400454ca
s = call("socket", 2, 2, 0)
up = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + b"\x49\0", 40)
address = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + b"\x02\0\0\0\x7f\0\0\1", 40)
tell([call("ioctl", s, SIOCSIFFLAGS, up), call("ioctl", s, SIOCSIFADDR, address),
      call("ioctl", s, SIOCBRADDBR, b"br0"), call("ioctl", s, TUNSETIFF, up)])""").said
    assert not [got for got in said if isinstance(got, int)], said
    assert said[0] == ("ENOTTY" if attack.in_vm else "EPERM")
