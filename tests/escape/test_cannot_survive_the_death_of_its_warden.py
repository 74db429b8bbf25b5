"""Kill -9 of hotcell, of the warden or of both, at any moment and in the middle of an attack, leaves no
process; what no process can clear any more, the next start does."""
import os
import random
import signal
import time

import pytest

import escape

ATTACKS = {
    "waiting": "print('up', flush=True)\nsys.stdin.read()\nimport time\ntime.sleep(3600)",
    "with orphans that ignore signals": r"""
import signal, time
for i in range(10):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for sig in (1, 2, 3, 13, 15, 17):
            signal.signal(sig, signal.SIG_IGN)
        time.sleep(3600)
print("up", flush=True)
time.sleep(3600)""",
    "forking": r"""
print("up", flush=True)
while True:
    pid = attempt(os.fork)
    if pid == 0:
        os.setsid()
        attempt(os.fork)
        os._exit(0)
    attempt(os.waitpid, -1, os.WNOHANG)""",
    "flooding": r"""
print("up", flush=True)
while True:
    os.write(2, b"x" * 65536)""",
    "stopped": "print('up', flush=True)\nimport signal\nos.kill(0, signal.SIGSTOP)",
}


def wardens(run):
    """Those that `run` started, the one with the cell first."""
    parent, names = escape.parents(), escape.descendants(run)
    with_cell = [parent[pid] for pid, name in names.items() if name == "keeper" and pid in parent]
    return with_cell + [pid for pid, name in names.items()
                        if name == "hotcell-warden" and parent.get(pid) == run and pid not in with_cell]


def kill(*pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it was faster


@pytest.mark.swept
@pytest.mark.every_isolation
@pytest.mark.parametrize("victim", ["hotcell", "warden", "both"])
@pytest.mark.parametrize("attack_name", ATTACKS)
def test_cannot_survive_the_death_of_its_warden(attack, attack_name, victim):
    """What is left is seen when the host is looked over, after the next start."""
    run = attack.start(ATTACKS[attack_name], timeout="60s")
    run.wait_for("up")
    found = wardens(run.pid)
    assert len(found) >= 1
    if victim == "warden":
        kill(found[0])
    elif victim == "hotcell":
        kill(run.pid)
    else:
        kill(run.pid, found[0])
    run.wait()


@pytest.mark.swept
@pytest.mark.every_isolation
def test_a_cell_needs_nobody_but_its_warden_to_notice_its_death(attack):
    """hotcell is stopped and can do nothing: the cell ends by its own."""
    run = attack.start(ATTACKS["with orphans that ignore signals"], timeout="600s")
    run.wait_for("up")
    keepers = {pid for pid, name in escape.descendants(run.pid).items() if name == "keeper"}
    inside = keepers | escape.programs(run.pid)
    assert len(keepers) == 1 and len(inside) >= 2
    warden = wardens(run.pid)[0]
    os.kill(run.pid, signal.SIGSTOP)
    kill(warden)
    gone = escape.until(lambda: not inside & set(escape.descendants(os.getpid())), escape.CLEARING_S)
    os.kill(run.pid, signal.SIGCONT)
    assert gone, "the cell outlived its warden"
    run.wait()


@pytest.mark.swept
@pytest.mark.every_isolation
def test_at_any_moment(attack):
    """From before there is a cell until after its end."""
    chance = random.Random(os.getpid())
    for i in range(25):
        run = attack.start("print('up', flush=True)\nsys.stdin.read()")
        time.sleep(chance.random() * 0.08)
        found = wardens(run.pid)
        kill(*[[run.pid], found, [run.pid, *found]][i % 3] or [run.pid])
        run.wait()


@pytest.mark.every_isolation
def test_an_interrupt_leaves_nothing_to_sweep(attack):
    run = attack.start(ATTACKS["with orphans that ignore signals"], timeout="60s")
    run.wait_for("up")
    assert run.end() == 130
