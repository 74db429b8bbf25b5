"""A network namespace with servers in it, at addresses that the cell is to try.

Nothing here ever sends to a real address: the namespace has a loopback and nothing else, and every
address, be it that of a metadata service, is given to that loopback.
"""
import json
import subprocess

from escape import AS_ROOT, PATIENCE_S, PYTHON, as_whom, with_prelude

ADDRESSES = ["127.0.0.1", "169.254.169.254", "169.254.170.2", "100.100.100.200", "10.0.0.1",
             "192.168.0.1", "8.8.8.8", "::1", "fd00:ec2::254"]
HTTP, DNS = 80, 53

# Serves TCP on port 80 and 53 and UDP on port 53 at every address, and one abstract unix socket.
SERVER = r"""
import selectors, socket, sys
selector = selectors.DefaultSelector()
for kind, port in ((socket.SOCK_STREAM, %(http)d), (socket.SOCK_STREAM, %(dns)d),
                   (socket.SOCK_DGRAM, %(dns)d)):
    for family, everywhere in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        s = socket.socket(family, kind)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((everywhere, port))
        if kind == socket.SOCK_STREAM:
            s.listen(64)
        selector.register(s, selectors.EVENT_READ, kind)
s = socket.socket(socket.AF_UNIX)
s.bind("\0hotcell-escape-server")
s.listen(64)
selector.register(s, selectors.EVENT_READ, socket.SOCK_STREAM)
selector.register(sys.stdin, selectors.EVENT_READ, None)
print("up", flush=True)
while True:
    for key, _ in selector.select():
        if key.data is None:
            sys.exit()
        if key.data == socket.SOCK_STREAM:
            client, _ = key.fileobj.accept()
            client.sendall(b"secret")
            client.close()
        else:
            _, whence = key.fileobj.recvfrom(512)
            key.fileobj.sendto(b"secret", whence)
""" % {"http": HTTP, "dns": DNS}

# In a cell: asks all of them, and says who answered.
ATTACK = r"""
import socket
said = {}
def ask(name, family, kind, address):
    s = socket.socket(family, kind)
    s.settimeout(10)
    try:
        s.connect(address)
        if kind == socket.SOCK_DGRAM:
            s.send(b"?")
        said[name] = s.recv(6).decode()
    except OSError as e:
        said[name] = errno.errorcode.get(e.errno, str(e))
    s.close()
for address in %r:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    ask("http " + address, family, socket.SOCK_STREAM, (address, %d))
    ask("dns by tcp " + address, family, socket.SOCK_STREAM, (address, %d))
    ask("dns by udp " + address, family, socket.SOCK_DGRAM, (address, %d))
ask("abstract unix", socket.AF_UNIX, socket.SOCK_STREAM, "\0hotcell-escape-server")
tell(said)
""" % (ADDRESSES, HTTP, DNS, DNS)


class Network:
    """The namespace, while it lives; `before` are the words that run a command in it."""

    def __init__(self):
        addresses = "".join(f"ip address add {a}/{128 if ':' in a else 32} dev lo; " for a in ADDRESSES
                            if a not in ("127.0.0.1", "::1"))
        words = ["unshare", "--net"] if AS_ROOT else ["unshare", "--user", "--map-root-user", "--net"]
        self.process = subprocess.Popen(
            [*words, "sh", "-ec", f"ip link set lo up; {addresses} exec {PYTHON} -c \"$0\"", SERVER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "up\n"
        self.before = ["nsenter", f"--target={self.process.pid}", "--net"]
        if not AS_ROOT:
            self.before += ["--user", "--preserve-credentials"]

    def outside(self, attack):
        """What the attack says in the namespace but in no cell."""
        done = subprocess.run([*self.before, *as_whom(attack.who), PYTHON, "-I", "-c", with_prelude(ATTACK)],
                              capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return json.loads(done.stdout)

    def end(self):
        self.process.communicate("end\n")
