"""Fixtures of the command line's tests. `hotcell` is the one that nearly all of them use."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = True

import harness  # noqa: E402 (pytest puts this directory on the path)


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs_root(why): cannot run as an ordinary user, for the reason given")


def pytest_collection_modifyitems(config, items):
    """Who may not open /dev/kvm has no vm cells. Without root there is no other user to become and no
    cgroup to look into; what is left out for that is named, with the reason, on every such run."""
    cases = {item: getattr(item, "callspec", None) for item in items}
    no_kvm = [item for item, case in cases.items() if case and not harness.may_have(
        case.params.get("isolation"),
        "nobody" if "nobody" in item.fixturenames else case.params.get("anyone"))]
    items[:] = [item for item in items if item not in no_kvm]
    config.hook.pytest_deselected(items=no_kvm)
    if harness.IS_ROOT:
        return
    left_out = [item for item in items if item.get_closest_marker("needs_root")]
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":  # all workers collect the same
        for item in left_out:
            why = item.get_closest_marker("needs_root").args[0]
            print(f"left out, not root: {item.nodeid}: {why}", file=sys.stderr)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def public():
    """A directory that everybody can reach, removed at the end."""
    path = harness.public_dir()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def hotcell(tmp_path_factory):
    """hotcell as whoever runs the tests, with an empty home of its own."""
    assert harness.HOTCELL.exists(), f"{harness.HOTCELL} is not built (make build)"
    return harness.Hotcell(harness.HOTCELL, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def nobody(public):
    """hotcell as the user nobody, who can write to no home. Only for tests that need root."""
    (public / "nobody").mkdir()
    program = harness.copy_programs(public / "nobody")
    return harness.Hotcell(program, "/nonexistent", harness.NOBODY)


@pytest.fixture(params=["root", "nobody"] if harness.IS_ROOT else ["user"])
def anyone(request, hotcell):
    """The claim holds for root and for an ordinary user alike."""
    return request.getfixturevalue("nobody") if request.param == "nobody" else hotcell


@pytest.fixture(params=harness.EVERY_ISOLATION)
def isolation(request):
    return request.param


@pytest.fixture
def private(request, public):
    """A hotcell of this test alone: its processes can be told from all others by their program."""
    where = public / f"private-{harness.token()}"
    where.mkdir()
    copy = harness.Hotcell(harness.copy_programs(where), where / "home")
    copy.home.mkdir(mode=0o777)
    copy.where = where
    yield copy
    left = harness.pids_below(where)
    for pid in left:
        harness.kill(pid)
    shutil.rmtree(where, ignore_errors=True)


@pytest.fixture(scope="session")
def programs(public):
    """Where those of library/ are, linked with the library that lies beside the hotcell that is tested."""
    build = harness.HOTCELL.parent
    sanitized = b"libasan" in subprocess.run(
        ["ldd", build / "libhotcell.so"], capture_output=True).stdout
    where = public / "embedding"
    where.mkdir()
    # The library looks for its warden and languages beside the program that it is in.
    directory = harness.copy_programs(where).parent
    for source in (Path(__file__).parent / "library").glob("*.c"):
        subprocess.run(
            ["gcc", "-Wall", "-Wextra", "-Werror", "-o", directory / source.stem, source,
             f"-I{harness.ROOT}/include", f"-L{build}", f"-Wl,-rpath,{build}", "-lhotcell",
             *(["-fsanitize=address,undefined"] if sanitized else [])], check=True)
    return directory
