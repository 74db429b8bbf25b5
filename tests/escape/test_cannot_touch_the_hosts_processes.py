"""A process of the host cannot be signalled, traced or written to from a cell, whatever its number."""
import subprocess
from pathlib import Path

from test_cannot_look_into_its_keeper import LOOK
from escape import PYTHON, as_whom

VICTIM = r"""
import ctypes, sys
secret = ctypes.create_string_buffer(b"unchanged")
print(ctypes.addressof(secret), flush=True)
sys.stdin.readline()
print(secret.value.decode(), flush=True)
"""

WRITE = r"""
new = ctypes.create_string_buffer(b"overwritten")
local = (ctypes.c_void_p * 2)(ctypes.addressof(new), 10)
remote = (ctypes.c_void_p * 2)(%(address)d, 10)
tell([call("process_vm_writev", %(pid)d, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0),
      call("ptrace", 0x4206, %(pid)d, 0, 0), call("kill", %(pid)d, 9), call("kill", -%(pid)d, 9),
      call("tgkill", %(pid)d, %(pid)d, 9), call("pidfd_open", %(pid)d, 0)])
"""


def start_victim(attack):
    victim = subprocess.Popen([*as_whom(attack.who), PYTHON, "-c", VICTIM], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    return victim, int(victim.stdout.readline())


def test_cannot_touch_the_hosts_processes(attack):
    """The victim is a process of the very user as whom the cell was made."""
    victim, address = start_victim(attack)
    said = attack(WRITE % {"address": address, "pid": victim.pid}).said
    assert set(said) <= {"EPERM", "ESRCH", "ENOSYS"}, said
    out, _ = victim.communicate("go on\n")
    assert (out, victim.returncode) == ("unchanged\n", 0)


def test_the_same_works_outside(attack):
    """So that the test above can fail. (Where Yama keeps a user's processes apart, for root only.)"""
    victim, address = start_victim(attack)
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    apart = not attack.is_root and yama.exists() and yama.read_text().strip() != "0"
    written, *_ = attack.outside(WRITE % {"address": address, "pid": victim.pid})
    assert written == 10 or apart
    victim.communicate()
    assert victim.returncode == -9


def test_cannot_look_into_the_hosts_processes(attack, bystander):
    said = attack(LOOK % {"pid": str(bystander.pid)}).said
    assert set(said.values()) <= {"ENOENT", "ESRCH", "EPERM", "ENOSYS", "EACCES", "EBADF", "EINVAL"}, said


def test_a_cell_that_signals_every_number_there_is_harms_nobody(attack, bystander):
    """What was harmed is seen when the host is looked over after the test."""
    result = attack(r"""
for pid in range(2, 70000):
    if pid != os.getpid():
        call("kill", pid, 9)
        call("kill", -pid, 19)
call("kill", 0, 0)
call("kill", -1, 18)
print("done")""")
    assert result.stdout == "done\n"
    assert bystander.poll() is None
