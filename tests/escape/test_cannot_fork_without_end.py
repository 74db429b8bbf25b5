"""A fork bomb and a thread bomb stay within their cell, and the host goes on."""
import pytest

FORKS = r"""
import time
made = 0
while True:
    pid = attempt(os.fork)
    if pid == 0:
        time.sleep(3600)
    if isinstance(pid, str):
        break
    made += 1
tell([made, pid])
"""

THREADS = r"""
import threading, time
made, error = 0, None
stop = threading.Event()
try:
    while True:
        threading.Thread(target=stop.wait, daemon=True).start()
        made += 1
except RuntimeError as e:
    error = str(e)
tell([made, error])
os._exit(0)
"""

BOMB = r"""
print("begun", flush=True)
while True:
    attempt(os.fork)
"""


def test_cannot_make_more_processes_than_it_may(attack):
    result = attack(FORKS, pids=20)
    made, error = result.said
    assert error == "EAGAIN" and 10 <= made <= 20
    assert result.usage["processes"] <= 20


def test_cannot_make_more_threads_than_it_may(attack):
    made, error = attack(THREADS, pids=20).said
    assert "can't start new thread" in error and 10 <= made <= 20


def test_a_fork_bomb_ends_with_its_time(attack):
    result = attack(BOMB, timeout="1500ms")
    assert result.reason in ("timeout", "cpu_limit")
    assert result.stdout.startswith("begun\n")


def test_others_run_beside_a_fork_bomb(attack):
    bomb = attack.start(BOMB, timeout="20s")
    bomb.wait_for("begun")
    for i in range(5):
        result = attack("echo fine", language="sh")
        assert (result.stdout, result.status) == ("fine\n", 0)
    bomb.end()


def test_a_bomb_that_kills_its_fellows_ends_too(attack):
    """Born while others die: the next pass finds it."""
    result = attack(r"""
import signal
print("begun", flush=True)
while True:
    pid = attempt(os.fork)
    if pid == 0:
        os.setsid()
        attempt(os.kill, -1, signal.SIGKILL) if os.getpid() % 7 == 0 else None""", timeout="1500ms")
    # It may have killed its own first process, which is an end like any other.
    assert result.reason in ("timeout", "signaled", "exited", "cpu_limit")


@pytest.mark.every_isolation
def test_orphans_are_buried(attack):
    """Children of children that have ended are the keeper's: more of them than there may be at once."""
    result = attack(r"""
for i in range(150):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
tell("done")""")
    assert (result.said, result.reason) == ("done", "exited")


def test_a_storm_of_zombies_is_cleared(attack):
    result = attack(r"""
while True:
    pid = attempt(os.fork)
    if pid == 0:
        os._exit(0)
    if isinstance(pid, str):
        break
tell(pid)
os._exit(9)""", pids=40)
    assert (result.said, result.exit_code, result.reason) == ("EAGAIN", 9, "exited")
