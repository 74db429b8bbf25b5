"""A cell cannot enter a namespace: neither its keeper's, nor its own again, nor one by pidfd."""
import os

from escape import DENIED

ENTER = r"""
said = {"setns": call("setns", 0, 0)}
for pid in ("1", "self"):
    for kind in %r:
        fd = attempt(os.open, f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        if isinstance(fd, int):
            said[f"{pid} {kind}"] = call("setns", fd, 0)
        else:
            said[f"{pid} {kind}"] = fd
for pid in (1, os.getpid()):
    fd = call("pidfd_open", pid, 0)
    said[f"pidfd {pid}"] = call("setns", fd, 0x20000)
tell(said)
"""


def test_cannot_enter_namespaces(attack):
    outside = attack.outside(r"""
fd = os.open("/proc/self/ns/uts", os.O_RDONLY)
tell(call("setns", fd, 0))""", own_namespaces=True)
    assert outside == 0
    kinds = sorted(os.listdir("/proc/self/ns"))
    assert len(kinds) >= 8
    said = attack(ENTER % kinds).said
    own = {got for name, got in said.items() if not name.startswith("1 ")}
    assert own <= attack.denied("file"), said
    assert said["setns"] in DENIED
    # The keeper's cannot even be opened.
    assert {got for name, got in said.items() if name.startswith("1 ")} == {
        "ENOENT" if attack.in_vm else "EACCES"}, said
