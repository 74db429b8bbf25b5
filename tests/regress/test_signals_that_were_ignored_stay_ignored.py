"""nohup hotcell run ... was cancelled by SIGHUP all the same, and so were background jobs by SIGINT."""
import signal
import subprocess

import harness
import pytest


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_the_run_goes_on(hotcell, number):
    process = hotcell.start(
        "run", "-l", "sh", "--stdin", "-", "-c", "echo ready; read x; echo $x", stdin=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    out, err = process.communicate(b"still here\n", timeout=harness.PATIENCE_S)
    assert (out, err, process.returncode) == (b"still here\n", b"", 0)
