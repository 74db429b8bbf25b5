"""What /proc and /dev tell of the machine's memory, kernel and devices is not there or is empty."""
import os

LOOK = r"""
def read(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return len(os.read(fd, 100))
    except OSError as e:
        return errno.errorcode[e.errno]
tell({path: read(path) for path in ["/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/keys",
    "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/modules", "/proc/vmcore",
    "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/slabinfo", "/proc/vmallocinfo",
    "/proc/pagetypeinfo", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse",
    "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0", "/dev/net/tun", "/dev/tty", "/dev/console",
    "/dev/ptmx", "/dev/vsock", "/dev/vhost-net", "/dev/userfaultfd", "/dev/snapshot", "/dev/cpu/0/msr",
    "/dev/uinput", "/dev/dri/card0", "/dev/hwrng", "/dev/bus", "/sys/kernel/vmcoreinfo",
    "/sys/firmware/efi", "/sys/kernel/debug", "/sys/fs/cgroup", "/sys/fs/bpf"]})
"""


def test_cannot_read_the_machines_memory(attack):
    if attack.is_root:
        outside = attack.outside(LOOK)
        assert [path for path, got in outside.items() if isinstance(got, int) and got], outside
    said = attack(LOOK).said
    told = {path: got for path, got in said.items() if got not in (0, "ENOENT", "EACCES", "EPERM")}
    assert told == {}
    assert {got for path, got in said.items() if path.startswith(("/dev", "/sys"))} == {"ENOENT"}


def test_devices_are_those_of_the_table(attack):
    said = attack("""tell(os.listdir("/dev"))""").said
    assert sorted(said) == ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout",
                            "urandom", "zero"]


def test_addresses_in_iomem_are_hidden(attack):
    said = attack("""
tell(attempt(lambda: sorted({line.split()[0] for line in open("/proc/iomem")})))""").said
    if attack.in_vm:
        assert said == "ENOENT"
        return
    assert {digit for line in said for digit in line} <= set("0-"), said


def test_kernel_log_is_not_readable(attack):
    said = attack("""
buffer = ctypes.create_string_buffer(4096)
tell([call("syslog", 3, buffer, 4096), call("syslog", 10, None, 0)])""").said
    assert said == (["ENOSYS", "ENOSYS"] if attack.in_vm else ["EPERM", "EPERM"])
    assert os.path.exists("/dev/kmsg")
