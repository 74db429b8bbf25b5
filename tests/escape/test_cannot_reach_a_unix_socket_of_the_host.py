"""A server of the host that listens on a unix socket, abstract or in a file, is out of reach."""
import os
import socket

ATTACK = r"""
import socket
s = lambda: socket.socket(socket.AF_UNIX, %(kind)s)
tell({name: attempt(s().connect, address) for name, address in %(addresses)r.items()})
"""


def test_cannot_reach_a_unix_socket_of_the_host(attack):
    directory = attack.new_directory()
    directory.chmod(0o777)
    name = "\0escape-" + os.urandom(8).hex()
    addresses = {"file": str(directory / "socket"), "abstract": name}
    for kind in ("socket.SOCK_STREAM", "socket.SOCK_DGRAM"):
        servers = []
        for address in addresses.values():
            server = socket.socket(socket.AF_UNIX, eval(kind))
            server.bind(address)
            if server.type == socket.SOCK_STREAM:
                server.listen()
            servers.append(server)
        os.chmod(addresses["file"], 0o777)
        code = ATTACK % {"kind": kind, "addresses": addresses}
        assert attack.outside(code) == {"file": None, "abstract": None}
        assert attack(code).said == {"file": "ENOENT", "abstract": "ECONNREFUSED"}
        for server in servers:
            server.close()
        os.unlink(addresses["file"])


def test_the_machines_own_servers_are_not_there(attack):
    paths = ["/run/docker.sock", "/var/run/docker.sock", "/run/systemd/private", "/dev/log",
             "/run/dbus/system_bus_socket", "/run/containerd/containerd.sock", "/run/snapd.socket",
             "/run/user", "/tmp/.X11-unix/X0"]
    said = attack(ATTACK % {"kind": "socket.SOCK_STREAM", "addresses": {p: p for p in paths}}).said
    assert set(said.values()) == {"ENOENT"}, said
    assert attack("""tell(os.listdir("/run"))""").said == []
