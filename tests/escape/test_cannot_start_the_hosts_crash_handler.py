"""A crash in a cell is not handed to the program that the host's core_pattern names, which the kernel
starts as root and outside every cell."""
import pytest


def limit_of_cores(text):
    return next(line.split()[4:6] for line in text.splitlines() if line.startswith("Max core file size"))


@pytest.mark.every_isolation
def test_cannot_start_the_hosts_crash_handler(attack):
    """For a piped core_pattern the kernel passes over a limit of 0, but 1 means: never."""
    assert limit_of_cores(attack("tell(open('/proc/self/limits').read())").said) == ["1", "1"]


def test_cannot_lower_the_limit_that_keeps_it_from_that(attack):
    said = attack(r"""
none = (ctypes.c_uint64 * 2)(0, 0)
said = [call("setrlimit", 4, ctypes.byref(none)), call("prlimit64", 0, 4, ctypes.byref(none), None),
        call("prlimit64", os.getpid(), 4, ctypes.byref(none), None),
        call("prlimit64", 1 << 32, 4 | 1 << 32, ctypes.byref(none), None)]
tell([said, open("/proc/self/limits").read()])""").said
    assert set(said[0]) == {"EPERM"}
    assert limit_of_cores(said[1]) == ["1", "1"]


@pytest.mark.every_isolation
def test_a_crash_leaves_no_core(attack):
    result = attack("""
print(attempt(lambda: open("/proc/sys/kernel/core_pattern").read()), flush=True)
os.abort()""")
    assert (result.reason, result.exit_code) == ("signaled", 128 + 6)
    assert result.files == []
