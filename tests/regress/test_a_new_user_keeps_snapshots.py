"""Who had no ~/.cache yet had a snapshot made for every run, and kept none."""
import os
import subprocess

import harness
import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")


def test_a_new_user_keeps_snapshots(tmp_path):
    done = subprocess.run([harness.HOTCELL, "run", "--isolation", "vm", "-l", "python", "-c", "print(1)"],
                          env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, capture_output=True,
                          timeout=harness.PATIENCE_S)
    assert done.stdout == b"1\n", done
    assert list((tmp_path / ".cache/hotcell/snapshots").iterdir())
