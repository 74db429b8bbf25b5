"""While its standard output was full, hotcell heard no signal and no end of the time."""
import os
import select
import signal

import harness
import pytest

FLOOD = ("run", "-l", "sh", "-c", "echo ready; exec yes \"$1\"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(hotcell, isolation, number):
    word = harness.token()
    process = hotcell.start(*FLOOD, "--arg", word, "--isolation", isolation)
    assert process.stdout.readline() == b"ready\n"
    harness.wait_until(lambda: blocked_in_write(process.pid), "the pipe is full")
    process.send_signal(number)
    assert process.wait(harness.PATIENCE_S) == 130
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")


def test_the_end_of_the_time_ends_it(hotcell, isolation):
    word = harness.token()
    process = hotcell.start(*FLOOD, "--arg", word, "--isolation", isolation, "--timeout", "1s")
    assert process.stdout.readline() == b"ready\n"
    harness.wait_until(lambda: blocked_in_write(process.pid), "the pipe is full")
    harness.wait_until(lambda: not harness.pids_with("yes\0" + word), "the program is ended")
    process.stdout.read()
    assert process.wait(harness.PATIENCE_S) == 124


def blocked_in_write(pid):
    """The pipe takes no more: what is in it does not change while it sleeps."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S" and pipe_is_full(pid)


def pipe_is_full(pid):
    fd = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
    try:
        return not select.select([], [fd], [], 0)[1]
    finally:
        os.close(fd)
