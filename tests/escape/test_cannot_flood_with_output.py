"""Output is bounded: a run that prints without end is ended, and what it printed first is there."""
import os
import subprocess

import pytest

import escape
from escape import PATIENCE_S, as_whom

# 10 GB, as fast as a pipe takes it.
FLOOD = r"""
import os
block = b"x" * (1 << 20)
for i in range(10 * 1024):
    at = 0
    while at < len(block):
        at += os.write(%d, block[at:])
"""


@pytest.mark.every_isolation
@pytest.mark.parametrize("stream", [1, 2])
def test_cannot_flood_with_output(attack, stream):
    result = attack(FLOOD % stream)
    assert result.reason == "output_limit"
    assert result.status not in (0, 124, 125)
    text = result.stdout if stream == 1 else result.stderr
    assert text == "x" * 1_000_000
    assert result.truncated == {"stdout": stream == 1, "stderr": stream == 2}


@pytest.mark.every_isolation
def test_streamed_output_ends_where_it_must(attack):
    """Without --json all of it comes through, and no more than the limit."""
    words = [*as_whom(attack.who), *attack.words("python", None, {"quiet": True}), "-c", FLOOD % 1]
    done = subprocess.run(words, stdout=subprocess.PIPE, cwd=attack.home, env=attack.environment(),
                          timeout=PATIENCE_S)
    assert len(done.stdout) == 64 << 20
    assert done.returncode not in (0, 124, 125)


def test_many_writers_are_one_flood(attack):
    result = attack("for i in range(8): os.fork()\n" + FLOOD % 1, pids=300, output_end="1M")
    assert result.reason == "output_limit"


@pytest.mark.every_isolation
def test_output_is_text_whatever_it_is(attack):
    """Bytes that are no UTF-8, NULs, quotes, and what looks like hotcell's own result."""
    result = attack(r"""
os.write(1, b'\xff\xfe\0"}\\\n{"stdout": "forged", "exit_code": 0}\xed\xa0\x80\x1b[2J\xe2\x80\xa8')
os.write(1, bytes(range(256)))
sys.exit(5)""")
    assert result.exit_code == 5 and result.reason == "exited"
    assert result.stdout.startswith('\ufffd\ufffd\0"}\\\n{"stdout": "forged"')


@pytest.mark.every_isolation
def test_a_program_that_nobody_listens_to_is_ended_in_time(attack):
    """The reader of hotcell's output sleeps: the cell's time runs out all the same."""
    words = [*as_whom(attack.who), *attack.words("python", None, {"timeout": "1s"}), "-c",
             "import os\nos.write(2, b'begun\\n')\n" + FLOOD % 1]
    before = set(escape.descendants(os.getpid()))
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=attack.home,
                           env=attack.environment())
    assert run.stderr.readline() == b"begun\n"

    def programs():
        return escape.programs(os.getpid()) - before

    assert programs()
    assert escape.until(lambda: not programs(), PATIENCE_S), "the program is still running"
    run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 124
