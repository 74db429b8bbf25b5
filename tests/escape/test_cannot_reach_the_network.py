"""No network means none: no TCP, no DNS, no metadata service, not even the host's loopback."""
import pytest

from escape_network import ATTACK, Network


@pytest.fixture
def network(the_host_is_unharmed_and_nothing_is_left):
    network = Network()
    yield network
    network.end()


def test_cannot_reach_the_network(attack, network):
    outside = network.outside(attack)
    assert set(outside.values()) == {"secret"}, outside
    said = attack(ATTACK, before=network.before).said
    assert set(said) == set(outside)
    assert "secret" not in said.values(), said
    # At once, not by timing out: there is nowhere to send to.
    assert set(said.values()) <= {"ENETUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "EPERM"}, said


def test_the_same_program_reaches_it_when_it_may(attack, network):
    """So that the test above can fail."""
    said = attack(ATTACK, before=network.before, network="host").said
    reached = {name for name, got in said.items() if got == "secret"}
    assert reached >= {name for name in said if not name.startswith("abstract")}, said


def test_names_are_not_resolved(attack, network):
    said = attack(r"""
import socket
tell([str(attempt(socket.getaddrinfo, name, 80)) for name in ("example.org", "metadata.google.internal")])
""", before=network.before).said
    assert not [got for got in said if "AF_INET" in got], said


def test_its_own_loopback_is_down_and_all_there_is(attack):
    said = attack(r"""
import socket
def lines(path):
    return [line for line in open(path) if ":" in line or "\t0" in line]
tell([attempt(socket.create_connection, ("127.0.0.1", 80), 5),
      attempt(lines, "/proc/net/dev"), attempt(lines, "/proc/net/route")])""").said
    refused, devices, routes = said
    assert refused == "ENETUNREACH"
    if attack.in_vm:
        assert (devices, routes) == ("ENOENT", "ENOENT")
    else:
        assert [line.split(":")[0].strip() for line in devices] == ["lo"] and routes == []
