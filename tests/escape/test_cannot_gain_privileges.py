"""A program in a cell has no privileges and no way to any: no capability, no other user, no group."""
import pytest

HAVE = r"""
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
tell({name: status.get(name, "").strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
      "NoNewPrivs", "Seccomp", "Groups", "Uid", "Gid")})
"""

TAKE = r"""
PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_SET_NO_NEW_PRIVS, PR_SET_KEEPCAPS, PR_SET_MM = 28, 47, 38, 8, 35
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
everything = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
said = {
    "setuid": call("setuid", 0), "setreuid": call("setreuid", 0, 0), "setresuid": call("setresuid", 0, 0, 0),
    "setgid": call("setgid", 0), "setresgid": call("setresgid", 0, 0, 0), "setregid": call("setregid", 0, 0),
    "setuid of another": call("setuid", 54321),
    "setresuid high": call("setresuid", 1 << 32, 1 << 32, 1 << 32),
    "setgroups": call("setgroups", 1, ctypes.byref(ctypes.c_uint32(0))),
    "capset": call("capset", ctypes.byref(header), ctypes.byref(everything)),
    "ambient": call("prctl", PR_CAP_AMBIENT, 2, 21, 0, 0),
    "securebits": call("prctl", PR_SET_SECUREBITS, 1 << 4),
    "new privileges again": call("prctl", PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0),
    "memory map": call("prctl", PR_SET_MM, 1, 0, 0, 0),
}
# These answer with the id before, and must not change it.
call("setfsuid", 0)
said["setfsuid"] = "EPERM" if call("setfsuid", -1) == os.getuid() else "changed"
tell(said)
"""


def test_has_no_privileges(attack):
    said = attack(HAVE).said
    assert {said[name] for name in said if name.startswith("Cap")} == {"0" * 16}
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert set(said["Uid"].split()) == {"1000"} and set(said["Gid"].split()) == {"1000"}
    assert said["Groups"] in ("", "65534")


@pytest.mark.every_isolation
def test_cannot_gain_privileges(attack):
    if attack.is_root:
        assert attack.outside("""tell(call("setresuid", 0, 0, 0))""") == 0
    said = attack(TAKE).said
    assert set(said.values()) <= {"EPERM", "EINVAL", "EACCES"}, said


@pytest.mark.every_isolation
def test_is_never_root_and_cannot_be(attack):
    said = attack(HAVE).said
    assert "0" not in said["Uid"].split() and "0" not in said["Gid"].split()
    assert said["CapPrm"] == said["CapEff"] == "0" * 16
    assert said["NoNewPrivs"] == "1"


def test_a_program_from_memory_has_no_more_rights(attack):
    """memfd_create and execveat run what no file system holds, and no noexec stops."""
    said = attack(r"""
memory = os.memfd_create("program", 0)
os.write(memory, open("/usr/bin/env", "rb").read())
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(w, 1)
    os.execve(memory, ["env", "cat", "/proc/self/status"], {"PATH": "/usr/bin"})
os.close(w)
text = open(r).read()
os.waitpid(pid, 0)
wanted = ("CapEff", "CapPrm", "Uid", "NoNewPrivs")
tell([line.split()[1] for line in text.splitlines() if line.startswith(wanted)])
""").said
    assert sorted(said) == sorted(["0" * 16, "0" * 16, "1000", "1"])
