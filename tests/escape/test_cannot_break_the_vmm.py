"""A guest cannot make hotcell-vmm crash, hang or speak, whatever it does: vm/probes.c.

The VMM is started as a keeper starts it, but with no cell around it: what breaks is seen here. It is never
root, and its files are its own: what the probes do to descriptors and paths, they do for real."""
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import escape
import pytest

PROBES = Path(__file__).with_name("vm") / "probes.c"
VMM = Path(escape.HOTCELL).with_name("hotcell-vmm")
KVM_FD, SELF_FD, FDS_MAX = 1000, 1001, 1069  # wire/vmm_start.h
TIMEOUT_S = 60
NOBODY = 65534
# Programs that are none are refused in so many words.
MAY_SAY = ("hotcell-vmm: cannot start ",)


def names():
    rows = PROBES.read_text().split("} probes[] = {")[1].split("};")[0]
    return re.findall(r"PROBE\((\w+)\)", rows)


@pytest.fixture
def place():
    """A directory that anyone may write to, and see from outside."""
    with tempfile.TemporaryDirectory(prefix="probes-") as path:
        os.chmod(path, 0o777)
        yield Path(path)


@pytest.fixture(scope="module")
def probes():
    with tempfile.TemporaryDirectory(prefix="probes-") as path:
        os.chmod(path, 0o755)
        program = Path(path) / "probes"
        subprocess.run([shutil.which("gcc"), "-std=gnu11", "-O1", "-static", "-w", "-o", program, PROBES],
                       check=True)
        yield program


def start_as_a_keeper_does():
    resource.setrlimit(resource.RLIMIT_NOFILE, (FDS_MAX, FDS_MAX))
    for path, fd, flags in (("/dev/kvm", KVM_FD, os.O_RDWR), (VMM, SELF_FD, os.O_RDONLY)):
        opened = os.open(path, flags)
        os.dup2(opened, fd)
        os.close(opened)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


@pytest.mark.parametrize("name", names())
def test_cannot_break_the_vmm(probes, name, place):
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/kvm")
    words = ["hotcell-vmm", "1", "PATH=/usr/bin:/bin", str(probes), "probes", name, str(place)]
    process = subprocess.Popen(words, executable=VMM, env={}, stdin=subprocess.PIPE, close_fds=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               preexec_fn=start_as_a_keeper_does)
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"{name} hangs")
    said = [line for line in err.decode(errors="replace").splitlines() if not line.startswith(MAY_SAY)]
    assert (process.returncode, said) == (0, []), out.decode(errors="replace")[-500:]
    assert out.endswith(b"survived\n")
