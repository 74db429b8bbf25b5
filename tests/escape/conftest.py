"""Every test here gets `attack`, once for each isolation that promises its claim and once for each
user; and after every test the host is looked over."""
import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import escape

PR_SET_CHILD_SUBREAPER = 36


def pytest_configure(config):
    config.addinivalue_line("markers", "every_isolation: the claim holds in a process cell too")
    config.addinivalue_line("markers", "only_in(isolation, why): elsewhere there is nothing to claim")
    config.addinivalue_line("markers", "swept: what is left is cleared by the next start, not before")
    # Whatever a run leaves behind becomes our child: so we know that it was ours, and not that of a
    # test which runs beside us.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def pytest_generate_tests(metafunc):
    if "attack" not in metafunc.fixturenames:
        return
    every = metafunc.definition.get_closest_marker("every_isolation")
    isolations = escape.EVERY_ISOLATION if every else escape.ISOLATIONS
    only = metafunc.definition.get_closest_marker("only_in")
    cases = [(isolation, who) for isolation in isolations for who in escape.WHO
             if escape.may_have(isolation, who) and (not only or isolation == only.args[0])]
    metafunc.parametrize("attack", cases, indirect=True, ids=["-".join(case) for case in cases])


@pytest.fixture(scope="session")
def places():
    """For each user: a home, and a copy of hotcell."""
    # Not pytest's own directory, which only its owner may enter.
    top = Path(tempfile.mkdtemp(prefix="escape-"))
    top.chmod(0o755)
    yield {who: escape.make_place(top, who) for who in escape.WHO}
    shutil.rmtree(top)


@pytest.fixture
def attack(places, request):
    isolation, who = request.param
    return escape.Attacker(places[who], isolation, who)


@pytest.fixture(scope="session")
def bystander():
    """A process of the host that has nothing to do with any cell."""
    process = subprocess.Popen(["sleep", "infinity"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def host_secret(places, request):
    """A file of the host that its owner, as whom the cell is made, can read: (path, text)."""
    who = request.getfixturevalue("attack").who
    path = places[who] / f"secret-{os.urandom(8).hex()}"
    path.write_text(os.urandom(16).hex())
    path.chmod(0o600)
    if who == "nobody":
        os.chown(path, escape.NOBODY, escape.NOBODY)
    yield path, path.read_text()
    path.unlink()


def state_of_the_host(bystander):
    stat = Path(f"/proc/{bystander.pid}/stat").read_text()
    return {
        "hostname": os.uname().nodename,
        "core_pattern": Path("/proc/sys/kernel/core_pattern").read_text(),
        "bystander": (bystander.poll(), stat.rsplit(")", 1)[1].split()[0]),
        "/etc/passwd": Path("/etc/passwd").read_bytes(),
        # A minute: machines do set their clocks a little.
        "clock": round((time.time() - time.monotonic()) / 60),
    }


@pytest.fixture(autouse=True)
def the_host_is_unharmed_and_nothing_is_left(request, bystander):
    before = (state_of_the_host(bystander), set(escape.descendants(os.getpid())), escape.mounts(),
              escape.orphans())
    attacker = request.getfixturevalue("attack") if "attack" in request.fixturenames else None
    yield
    for running in attacker.running if attacker else []:
        running.end()
    host, processes, mounts, orphans = before
    swept = request.node.get_closest_marker("swept")

    def the_next_run_works():
        if attacker:
            result = attacker("echo ok", language="sh")
            assert (result.stdout, result.status) == ("ok\n", 0), f"the next run: {result!r}"

    def left(now, before):
        return {thing: now[thing] for thing in now if thing not in before}

    if swept:
        the_next_run_works()
    nothing_left = {
        "processes": lambda: left(escape.descendants(os.getpid()), processes),
        "mounts": lambda: escape.mounts() - mounts,
        "directories": lambda: escape.orphans() - orphans,
    }
    for what, look in nothing_left.items():
        assert escape.until(lambda: not look(), escape.CLEARING_S), f"{what} left: {look()}"
    now = state_of_the_host(bystander)
    now["clock"] = host["clock"] if abs(now["clock"] - host["clock"]) <= 1 else now["clock"]
    assert now == host, "the host was changed"
    if not swept:
        the_next_run_works()
