"""Fixtures of the service's tests. `service` is the one that nearly all of them use: one for each file,
started with the settings that the file names:

    SERVICE = {"timeout_max_ms": 500}
    ENVIRONMENT = {"MAX_OUTPUT_BYTES": "2000"}
"""
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True

import harness  # noqa: E402 (pytest puts this directory on the path)


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "needs_root(why): cannot run as an ordinary user, for the reason given")


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items
                if not harness.IS_ROOT and item.get_closest_marker("needs_root")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="module")
def service(request):
    """A service for this file. Whatever it leaves behind at its end is a failure of the last test."""
    settings = getattr(request.module, "SERVICE", {})
    environment = getattr(request.module, "ENVIRONMENT", {})
    with harness.Running(environment, **settings) as running:
        yield running


@pytest.fixture(autouse=True)
def shows_the_log(request):
    """A test that fails shows what the service has said meanwhile."""
    if "service" not in request.fixturenames:
        yield
        return
    running = request.getfixturevalue("service")
    before = len(running.log())
    yield
    said = running.log()[before:]
    if said:
        print(said[-4000:])
    found = harness.SANITIZER.search(said)
    assert not found, f"a sanitizer spoke up:\n{said[max(0, found.start() - 500):][:8000]}"


@pytest.fixture(scope="module")
def keys(service):
    """keys.add("name", "--runs-per-minute", "5") -> the key; keys.revoke(name)"""
    return Keys(service)


class Keys:
    def __init__(self, service):
        self.service = service

    def __call__(self, *words):
        done = subprocess.run(
            [str(harness.HOTCELL), "keys", *words, f"--state-dir={self.service.state_dir}"],
            env=self.service.environment(), capture_output=True, text=True, timeout=harness.PATIENCE_S)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def add(self, name, *options):
        words = self("add", name, *options).split()
        return next(word for word in words if word.startswith("hc_"))

    def revoke(self, name):
        self("revoke", name)
