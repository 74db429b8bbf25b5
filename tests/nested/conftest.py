"""Fixtures of the tests inside other people's containers. `engine` is each of the three in turn."""
import signal
import sys

import pytest

sys.dont_write_bytecode = True

import engines  # noqa: E402 (pytest puts this directory on the path)


def pytest_unconfigure(config):
    """The last line: what was not tried has not passed."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.option.collectonly:
        return
    counts = {what: len(reporter.getreports(what)) for what in ("passed", "failed", "error", "skipped")}
    print(f"{counts.pop('passed')} passed, {sum(counts.values())} failed")


@pytest.fixture(scope="session")
def place():
    # Whoever ends us with a plain kill wants it tidied up no less than whoever types Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    place = engines.Place()
    try:
        place.start()
        yield place
    finally:
        place.end()


@pytest.fixture(scope="session")
def docker(place):
    engine = engines.Docker(place)
    yield engine
    engine.end()


@pytest.fixture(scope="session")
def podman(place):
    yield engines.Podman(place)


@pytest.fixture(scope="session")
def rootless(place):
    yield engines.RootlessPodman(place)


@pytest.fixture(params=["docker", "podman", "rootless"])
def engine(request):
    """The claim holds in every engine's containers."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["docker", "podman"])
def rootful(request):
    """The claim holds where the engine itself is root."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["root", "user"])
def who(request):
    """The claim holds for the container's root and for an ordinary user in it."""
    return request.param
