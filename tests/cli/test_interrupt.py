"""hotcell_interrupt(): a program gets SIGINT, as from Ctrl-C, and does with it what it does."""
import pytest
from harness import Session

WALLS = ["container", "vm", "process"]
SLEEPS = {
    "python": "print('on', flush=True)\nimport time\ntime.sleep(60)",
    "python that computes": "print('on', flush=True)\nwhile True: pass",
    "python that reads": "print('on', flush=True)\nimport os\nr, w = os.pipe()\nos.read(r, 1)",
    "python that waits for a thread": "print('on', flush=True)\nimport threading\nthreading.Event().wait()",
    "javascript": "console.log('on'); setTimeout(() => {}, 60000)",
    "bash": "echo on; sleep 60; echo off",
    "sh": "echo on; sleep 60; echo off",
}


@pytest.fixture
def session(programs, isolation):
    with Session(programs, isolation=isolation) as session:
        yield session


@pytest.mark.parametrize("isolation", WALLS)
@pytest.mark.parametrize("name", SLEEPS)
def test_a_program_that_does_not_mind_ends_of_it(session, name):
    # A shell loses one while it is about to start a command.
    when = {"interrupt": 3000} if name.endswith("sh") else {"interrupt_at": "on\n"}
    result = session.run(SLEEPS[name], language=name.split()[0], **when)
    assert (result["reason"], result["code"], result["out"]) == ("signaled", 130, "on\n")
    assert ("KeyboardInterrupt" in result["err"]) == name.startswith("python")


@pytest.mark.parametrize("isolation", WALLS)
def test_a_program_may_mind(session):
    code = """
import signal, time
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
print("on", flush=True)
end = time.time() + 30
while not got and time.time() < end: time.sleep(0.1)
print("got it", time.time() < end)
"""
    result = session.run(code, language="python", interrupt_at="on\n")
    assert (result["reason"], result["code"], result["out"]) == ("exited", 0, "on\ngot it True\n")


@pytest.mark.parametrize("isolation", WALLS)
def test_who_ignores_it_goes_on(session):
    code = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nprint('on', flush=True)\ntime.sleep(1)\nprint('off')"
    assert session.run(code, language="python", interrupt_at="on\n")["out"] == "on\noff\n"


@pytest.mark.parametrize("isolation", ["container", "vm"])
def test_children_get_it_too(session):
    # With a handler: a KeyboardInterrupt in the midst of wait() may lose what it has just been told.
    code = "import signal, subprocess; signal.signal(2, lambda *_: None)\n" \
           "p = subprocess.Popen(['sleep', '60']); print('on', flush=True); print(p.wait())"
    assert session.run(code, language="python", interrupt_at="on\n")["out"] == "on\n-2\n"


@pytest.mark.parametrize("isolation", ["container", "vm"])
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_one_that_was_waited_for_gets_it_as_well(session, language):
    session.make(language=language)
    result = session.run(SLEEPS[language], interrupt_at="on\n")
    assert (result["warm"], result["reason"], result["code"], result["out"]) == (1, "signaled", 130, "on\n")


@pytest.mark.parametrize("isolation", ["vm"])
def test_a_quiet_run_gets_it_when_it_is_not_quiet_any_more(session):
    """It prints nothing and calls nobody: it is the machine's own for its first moments."""
    session.make(language="python")
    for delay in (0, 1, 3, 8, 15, 40):
        result = session.run("while True: pass", interrupt=delay, wall_ms=20000)
        assert (result["reason"], result["code"]) == ("signaled", 130)


@pytest.mark.parametrize("isolation", WALLS)
def test_one_that_comes_with_the_end_harms_nobody(session):
    session.make(language="sh")
    for delay in range(0, 12, 2):
        session.run("exit 3", interrupt=delay)
        assert session.run("echo on; sleep 0.05; echo off", interrupt=99999)["out"] == "on\noff\n"


@pytest.mark.parametrize("isolation", ["container", "vm"])
def test_one_that_comes_while_another_program_is_executed_is_not_lost(session):
    """In a vm that program has a VMM of its own."""
    session.make(language="bash")
    for _ in range(5):
        result = session.run("echo begun; exec sleep 50", interrupt_at="begun")
        assert (result["reason"], result["code"]) == ("signaled", 130)
