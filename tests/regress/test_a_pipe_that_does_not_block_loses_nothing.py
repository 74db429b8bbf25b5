"""Other programs hand over pipes that do not block; what did not fit at once was dropped."""
import os
import time

import harness
import pytest


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_all_output_arrives(hotcell, stream):
    mine, its = os.pipe()
    os.set_blocking(its, False)
    process = hotcell.start("run", "-q", "-l", "python", "-c",
                            f"import sys; sys.{stream}.write('x' * 3000000)", **{stream: its})
    os.close(its)
    time.sleep(0.3)  # so that it fills up; nothing depends on how long
    count = 0
    while part := os.read(mine, 100_000):
        count += len(part)
    os.close(mine)
    assert process.wait(harness.PATIENCE_S) == 0
    assert count == 3_000_000


def test_json_arrives_whole(hotcell):
    mine, its = os.pipe()
    os.set_blocking(its, False)
    process = hotcell.start("run", "--json", "-l", "python", "-c", "print('x' * 900000)", stdout=its)
    os.close(its)
    time.sleep(0.3)
    text = b""
    while part := os.read(mine, 100_000):
        text += part
    os.close(mine)
    assert process.wait(harness.PATIENCE_S) == 0
    assert text.startswith(b'{"stdout": "xxx') and text.endswith(b"}\n")


def test_input_from_a_pipe_that_does_not_block(hotcell):
    its, mine = os.pipe()
    os.set_blocking(its, False)
    process = hotcell.start("run", "-l", "sh", "--stdin", "-", "-c", "cat", stdin=its)
    os.close(its)
    time.sleep(0.2)  # there is nothing to read when it looks first
    os.write(mine, b"late\n")
    os.close(mine)
    out, _ = process.communicate(timeout=harness.PATIENCE_S)
    assert (out, process.returncode) == (b"late\n", 0)
