"""A run ends when its time is over, whatever the program does with signals, forks and its keeper."""
import pytest

WAYS = {
    "sleeping": "import time\ntime.sleep(3600)",
    "spinning": "while True: pass",
    "ignoring signals": r"""
import signal, time
for sig in range(1, 65):
    if sig not in (9, 19, 32, 33):
        signal.signal(sig, signal.SIG_IGN)
while True:
    time.sleep(1)""",
    "blocking signals": r"""
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
time.sleep(3600)""",
    "stopped": "import signal\nos.kill(0, signal.SIGSTOP)",
    "waiting for its own output": r"""
r, w = os.pipe()
os.read(r, 1)""",
    "with closed descriptors": r"""
import time
os.closerange(0, 1024)
time.sleep(3600)""",
    "behind a filter of its own that answers nothing": r"""
import struct, time
# Every call but nanosleep's waits for a listener that never answers.
code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 1, 0, NR["clock_nanosleep"]) \
    + struct.pack("HBBI", 6, 0, 0, 0x7fc00000) + struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer)))
print("here it goes", flush=True)
call("prctl", 38, 1, 0, 0, 0)
call("seccomp", 1, 8, program)
while True:
    pass""",
    "forking": r"""
import time
while True:
    if attempt(os.fork) == 0:
        os.setsid()
        time.sleep(0.5)
        os._exit(0)
    time.sleep(0.02)""",
}


@pytest.mark.every_isolation
@pytest.mark.parametrize("way", WAYS)
def test_cannot_overstay(attack, way):
    result = attack(WAYS[way], timeout="1s")
    assert (result.reason, result.timed_out, result.status) == ("timeout", True, 124)


@pytest.mark.every_isolation
def test_processor_time_is_counted_for_all_its_processes(attack):
    result = attack(r"""
for i in range(3):
    if os.fork() == 0:
        break
while True:
    pass""", cpu_time="600ms", timeout="60s")
    assert result.reason == "cpu_limit"


def test_short_lives_are_counted_too(attack):
    """Children that nobody waits for are gone before anybody looks: a watcher misses them, and says so."""
    result = attack(r"""
import signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if attempt(os.fork) == 0:
        end = time.process_time() + 0.004
        while time.process_time() < end:
            pass
        os._exit(0)
    time.sleep(0.002)""", cpu_time="600ms", timeout="20s", pids=16)
    soft = [text for text in result.limits_not_enforced if text.startswith("cpu")]
    assert result.reason == "cpu_limit" or (soft and result.reason == "timeout"), result
