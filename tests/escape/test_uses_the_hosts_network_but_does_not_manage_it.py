"""A cell that was given the host's network can talk, and that is all."""
import pytest

from escape_network import Network

ATTACK = r"""
import socket
SIOCSIFFLAGS, SIOCSIFADDR = 0x8914, 0x8916
s = call("socket", 2, 2, 0)
down = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + b"\0\0", 40)
tell({
    "netlink": call("socket", 16, 3, 0), "packet": call("socket", 17, 3, 0), "raw": call("socket", 2, 3, 1),
    "vsock": call("socket", 40, 1, 0),
    "interface down": call("ioctl", s, SIOCSIFFLAGS, down),
    "address": call("ioctl", s, SIOCSIFADDR, down),
    "port 81": attempt(socket.socket().bind, ("127.0.0.1", 81)),
    "setting": attempt(os.open, "/proc/sys/net/ipv4/ip_forward", os.O_WRONLY),
    "namespace": call("unshare", 0x40000000),
})
"""


@pytest.fixture
def network(the_host_is_unharmed_and_nothing_is_left):
    network = Network()
    yield network
    network.end()


def test_uses_the_hosts_network_but_does_not_manage_it(attack, network):
    said = attack(ATTACK, before=network.before, network="host").said
    assert said.pop("port 81") == "EACCES"
    assert said.pop("setting") in {"EROFS", "EACCES", *attack.denied("file")}
    assert set(said.values()) <= attack.denied("socket", "ioctl"), said
    # The loopback is still up.
    assert "secret" in network.outside(attack).values()
