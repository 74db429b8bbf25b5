"""A cell cannot load modules or another kernel."""
from escape import DENIED

ATTACK = r"""
image = os.open("/bin/sh", os.O_RDONLY)
tell({
    "kexec_load": call("kexec_load", 0, 0, None, 0),
    "kexec_file_load": call("kexec_file_load", image, -1, 0, None, 4),
    "init_module": call("init_module", b"x", 1, b""),
    "finit_module": call("finit_module", image, b"", 0),
    "delete_module": call("delete_module", b"no-such-module", 0),
    "create_module": call("create_module", b"x", 1),
    "query_module": call("query_module", None, 0, None, 0, None),
    "get_kernel_syms": call("get_kernel_syms", None),
})
"""


def test_cannot_replace_the_kernel(attack):
    if attack.is_root:
        # It is not a module, and that is why it fails outside: not because it was not allowed.
        assert attack.outside("""tell(call("init_module", b"x", 1, b""))""") in ("ENOEXEC", "ENOSYS")
    said = attack(ATTACK).said
    assert set(said.values()) <= DENIED, said
