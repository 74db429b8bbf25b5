"""When a program has ended, nothing that it started is alive, however it was hidden; and the run ends
then, not when its descendants please."""
import os

import pytest

import escape

# Each leaves processes behind that would live for an hour, hold the output open, and print again if
# they could. The program itself ends at once.
WAYS = {
    "a child": r"""
if os.fork() == 0:
    linger()
""",
    "a grandchild in a session of its own": r"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        linger()
    os._exit(0)
""",
    "one that ignores every signal it can": r"""
import signal
if os.fork() == 0:
    for sig in range(1, 65):
        attempt(signal.signal, sig, signal.SIG_IGN) if sig not in (9, 19, 32, 33) else None
    linger()
""",
    "one that is stopped": r"""
import signal
pid = os.fork()
if pid == 0:
    linger()
os.kill(pid, signal.SIGSTOP)
""",
    "one that forks away from every look": r"""
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
""",
    "one that has a name to confuse": r"""
if os.fork() == 0:
    if os.fork() == 0:
        call("prctl", 15, b") R 1 1 1 (")
        linger()
    os._exit(0)
""",
    "one that is a subreaper": r"""
if os.fork() == 0:
    call("prctl", 36, 1)
    for i in range(5):
        if os.fork() == 0:
            if os.fork() == 0:
                linger()
            os._exit(0)
    linger()
""",
    "threads": r"""
import threading
for i in range(5):
    threading.Thread(target=linger).start()
os._exit(3)
""",
}

CODE = r"""
import time
def linger():
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        time.sleep(0.05)
    print("I am still here", flush=True)
print("begun", flush=True)
%s
os._exit(3)
"""


@pytest.mark.every_isolation
@pytest.mark.parametrize("way", WAYS)
def test_cannot_outlive_its_run(attack, way):
    """Processes that are left are found when the host is looked over after the test."""
    result = attack(CODE % WAYS[way])
    assert (result.stdout, result.reason, result.exit_code) == ("begun\n", "exited", 3)


@pytest.mark.every_isolation
def test_output_that_waits_in_a_socket_does_not_hold_the_run_up(attack):
    """A descriptor that is in flight belongs to no process: only the kernel can close it, later."""
    result = attack(r"""
import array, socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
c, d = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
for one, other in ((a, d), (c, b)):
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2, other.fileno()]))])
print("hidden", flush=True)""")
    assert (result.stdout, result.reason) == ("hidden\n", "exited")


def test_the_check_for_what_is_left_finds_it(attack):
    """So that the tests above can fail."""
    run = attack.start("print('up', flush=True)\nsys.stdin.read()")
    run.wait_for("up")
    names = set(escape.descendants(run.pid).values())
    assert {"hotcell-warden", "keeper"} <= names and escape.programs(run.pid), names
    assert run.pid in escape.descendants(os.getpid())
    run.end()
