"""No signal that a cell sends ends, stops or disturbs its keeper: the run ends as if none was sent."""

ATTACK = r"""
import signal, time
said = {}
pidfd = call("pidfd_open", 1, 0)
for sig in range(1, 65):
    # A queued signal claims to come from elsewhere; only SI_QUEUE may be claimed.
    info = (ctypes.c_int * 32)(sig, 0, -1)
    call("kill", 1, sig)
    call("tgkill", 1, 1, sig)
    call("tkill", 1, sig)
    call("pidfd_send_signal", pidfd, sig, None, 0)
    call("rt_sigqueueinfo", 1, sig, ctypes.byref(info))
    call("rt_tgsigqueueinfo", 1, 1, sig, ctypes.byref(info))
for i in range(200):
    call("kill", 1, signal.SIGCHLD)
    call("kill", 1, signal.SIGSTOP)
# Signals by way of a descriptor's owner and of a timer.
r, w = os.pipe()
call("fcntl", r, 8, 1)
call("fcntl", r, 10, signal.SIGKILL)
call("fcntl", r, 4, os.O_ASYNC | os.O_NONBLOCK)
os.write(w, b"x")
print("state", attempt(lambda: open("/proc/1/stat").read().split()[2]), flush=True)
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print("done", flush=True)
sys.exit(7)
"""


def test_cannot_signal_its_keeper(attack):
    result = attack(ATTACK)
    state, done = result.stdout.splitlines()
    # A vm does not show its keeper; that it passes on the end of the run says enough.
    assert state in (["state ENOENT"] if attack.in_vm else ["state S", "state R", "state D"])
    assert done == "done"
    assert (result.reason, result.exit_code) == ("exited", 7)


def test_a_stopped_keeper_would_be_no_way_past_the_timeout(attack):
    result = attack("""
import signal
while True:
    os.kill(1, signal.SIGSTOP)
    os.kill(1, signal.SIGTSTP)""", timeout="500ms")
    assert result.reason == "timeout"


def test_cannot_signal_everything_but_its_keeper_either(attack):
    """kill(-1) reaches the cell's own processes, and no others."""
    result = attack("""
import signal
print("before", flush=True)
os.kill(-1, signal.SIGKILL)
print("after", flush=True)""")
    assert result.stdout.startswith("before\n")
    assert result.reason == "exited"
