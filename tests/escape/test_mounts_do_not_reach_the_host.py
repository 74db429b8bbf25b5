"""What a warden mounts to build its cells is not seen on the host, even where the host's mounts are
shared, as they are under systemd."""
import subprocess
from pathlib import Path

import pytest

from escape import AS_ROOT


@pytest.fixture
def shared(the_host_is_unharmed_and_nothing_is_left):
    """A process in a mount namespace that is shared within itself, as if it were such a host's."""
    words = ["unshare", "--mount", "--propagation", "shared"] if AS_ROOT else \
        ["unshare", "--user", "--map-current-user", "--mount"]
    process = subprocess.Popen([*words, "sh", "-c", "echo up; read line"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    yield process.pid
    process.communicate("end\n")


def test_mounts_do_not_reach_the_host(attack, shared):
    def mounts():
        return Path(f"/proc/{shared}/mountinfo").read_text()

    before = mounts()
    assert "shared:" in before or not AS_ROOT
    enter = ["nsenter", f"--target={shared}", "--mount"]
    if not AS_ROOT:
        enter += ["--user", "--preserve-credentials"]
    run = attack.start("print('up', flush=True)\nsys.stdin.read()", before=enter)
    run.wait_for("up")
    assert mounts() == before
    run.end()
    assert mounts() == before
