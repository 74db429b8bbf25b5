"""A cell cannot make the kernel run programs or keep maps for it: bpf is denied."""
from escape import DENIED

ATTACK = r"""
array = (ctypes.c_uint32 * 32)(2, 4, 4, 1)       # BPF_MAP_TYPE_ARRAY: key, value, entries
nothing = (ctypes.c_uint64 * 16)()
tell({name: call("bpf", command, ctypes.byref(argument), 72) for name, command, argument in [
    ("map", 0, array), ("program", 5, nothing), ("object", 7, nothing), ("next program", 11, nothing),
    ("btf", 18, nothing), ("token", 36, nothing)]})
"""


def test_cannot_use_bpf(attack):
    if attack.is_root:
        assert isinstance(attack.outside(ATTACK)["map"], int)
    said = attack(ATTACK).said
    assert set(said.values()) <= DENIED, said


def test_cannot_hand_a_bpf_program_to_a_socket(attack):
    """Attaching needs the descriptor of a program: without bpf there is none."""
    said = attack(r"""
import socket
s = socket.socketpair()[0]
tell([attempt(s.setsockopt, socket.SOL_SOCKET, 50, fd) for fd in range(64)])""").said
    assert None not in said
