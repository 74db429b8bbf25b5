"""How a run ended is told by the kernel to hotcell, never by the program: it cannot pretend."""
import pytest

# What the program does, and how that ended in truth.
ENDS = {
    "exit code": ("os._exit(42)", "exited", 42),
    "exit code beyond a byte": ("os._exit(256 + 7)", "exited", 7),
    "code of a timeout": ("os._exit(124)", "exited", 124),
    "code of a failure of hotcell": ("os._exit(125)", "exited", 125),
    "code of a kill": ("os._exit(137)", "exited", 137),
    "killed by itself": ("os.kill(os.getpid(), 9)", "signaled", 137),
    "SIGTERM": ("os.kill(os.getpid(), 15)", "signaled", 143),
    "cpu time that was not used": ("os.kill(os.getpid(), 24)", "signaled", 152),
    "a file that was not too large": (
        "import signal\nsignal.signal(25, signal.SIG_DFL)\nos.kill(os.getpid(), 25)", "signaled", 153),
    "SIGSYS": ("os.kill(os.getpid(), 31)", "signaled", 159),
    "a child's end": ("os._exit(0) if os.fork() == 0 else (os.wait(), os._exit(9))", "exited", 9),
    "a parent that ends first": ("os._exit(8) if os.fork() else os.setsid()\nos._exit(9)", "exited", 8),
    "another program in its place": ("os.execv('/bin/sh', ['sh', '-c', 'exit 6'])", "exited", 6),
    "the end of one thread": (r"""
import threading, time
threading.Thread(target=lambda: (time.sleep(0.2), os._exit(4))).start()
call("exit", 0)""", "exited", 4),
}


@pytest.mark.every_isolation
@pytest.mark.parametrize("end", ENDS)
def test_cannot_fake_how_it_ended(attack, end):
    code, reason, exit_code = ENDS[end]
    result = attack("print('output', flush=True)\n" + code)
    assert (result.reason, result.exit_code, result.stdout) == (reason, exit_code, "output\n")
    assert not result.timed_out
    assert result.status == exit_code


@pytest.mark.every_isolation
def test_a_program_that_killed_a_child_for_memory_did_not_run_out_of_it(attack):
    result = attack(r"""
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), 9)
tell(os.wait()[1])""")
    assert (result.said, result.reason, result.exit_code) == (9, "exited", 0)
