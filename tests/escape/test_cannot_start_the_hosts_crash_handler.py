"""A crash in a cell is not handed to the program that the host's core_pattern names, which the kernel
starts as root and outside every cell."""
import pytest


@pytest.mark.every_isolation
def test_cannot_start_the_hosts_crash_handler(attack):
    """For a piped core_pattern the kernel passes over a limit of 0, but 1 means: never."""
    said = attack("""
import resource
resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))
tell(resource.getrlimit(resource.RLIMIT_CORE))""").said
    assert said == [1, 1]


@pytest.mark.every_isolation
def test_a_crash_leaves_no_core(attack):
    result = attack("""
print(open("/proc/sys/kernel/core_pattern").read(), flush=True)
os.abort()""")
    assert (result.reason, result.exit_code) == ("signaled", 128 + 6)
    assert result.files == []
