"""The keeper, which is pid 1 and holds the control socket, cannot be read, traced or robbed."""
import pytest

LOOK = r"""
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
said = {}
for name in ("mem", "maps", "environ", "auxv", "stack", "syscall", "io", "pagemap", "personality",
             "smaps", "map_files", "exe", "cwd", "root", "fd", "fdinfo", "task/1/mem", "task/1/fd",
             "timers", "patch_state", "clear_refs"):
    path = "/proc/%(pid)s/" + name
    said["open " + name] = attempt(os.open, path, os.O_RDONLY)
    said["list " + name] = attempt(os.listdir, path)
said["follow exe"] = attempt(os.readlink, "/proc/%(pid)s/exe")
said["follow root"] = attempt(os.listdir, "/proc/%(pid)s/root/")
for fd in range(1024):
    got = attempt(os.open, "/proc/%(pid)s/fd/" + str(fd), os.O_RDWR)
    if got not in ("ENOENT", "EACCES"):
        said["fd " + str(fd)] = got
said["write mem"] = attempt(os.open, "/proc/%(pid)s/mem", os.O_RDWR)
said["write exe"] = attempt(os.open, "/proc/%(pid)s/exe", os.O_WRONLY)
said["attach"] = call("ptrace", PTRACE_ATTACH, %(pid)s, 0, 0)
said["seize"] = call("ptrace", PTRACE_SEIZE, %(pid)s, 0, 0)
buffer = ctypes.create_string_buffer(8)
word = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
at = ctypes.byref(word)
said["process_vm_readv"] = call("process_vm_readv", %(pid)s, at, 1, at, 1, 0)
said["process_vm_writev"] = call("process_vm_writev", %(pid)s, at, 1, at, 1, 0)
said["kcmp"] = call("kcmp", os.getpid(), %(pid)s, 0, 0, 0)
pidfd = call("pidfd_open", %(pid)s, 0)
for fd in range(16):
    said["pidfd_getfd " + str(fd)] = call("pidfd_getfd", pidfd, fd, 0)
said["process_madvise"] = call("process_madvise", pidfd, ctypes.byref(word), 1, 20, 0)
said["process_mrelease"] = call("process_mrelease", pidfd, 0)
said["move_pages"] = call("move_pages", %(pid)s, 0, None, None, None, 0)
said["migrate_pages"] = call("migrate_pages", %(pid)s, 0, None, None)
said["get_robust_list"] = call("get_robust_list", %(pid)s, buffer, buffer)
said["perf"] = call("perf_event_open", buffer, %(pid)s, -1, -1, 0)
tell(said)
"""


def test_cannot_look_into_its_keeper(attack):
    said = attack(LOOK % {"pid": "1"}).said
    opened = {name: got for name, got in said.items()
              if got not in ("EACCES", "EPERM", "ENOSYS", "ENOENT", "ENOTDIR", "EINVAL")}
    assert opened == {}
    for name in ("open mem", "list fd", "attach", "process_vm_writev", "pidfd_getfd 3"):
        assert said[name] in ({"ENOENT", "ENOSYS"} if attack.in_vm else {"EACCES", "EPERM"}), name


@pytest.mark.only_in("container", why="a vm's /proc shows the process itself, and nobody else")
def test_can_look_into_processes_of_its_own(attack):
    """The same through /proc works where it may: so the test above can fail."""
    said = attack(r"""
pid = os.fork()
if pid == 0:
    import time
    time.sleep(60)
tell([isinstance(attempt(os.open, f"/proc/{pid}/{name}", flags), int)
      for name, flags in (("mem", 0), ("environ", 0), ("fd/1", os.O_WRONLY))])""").said
    assert said == [True, True, True]


@pytest.mark.only_in("container", why="a vm does not show its keeper")
def test_the_keeper_cannot_be_made_dumpable(attack):
    """PR_SET_DUMPABLE, and a program that is readable, change only the caller."""
    said = attack(r"""
PR_SET_DUMPABLE, PR_SET_PTRACER = 4, 0x59616d61
call("prctl", PR_SET_DUMPABLE, 1)
call("prctl", PR_SET_PTRACER, -1)
tell([attempt(os.open, "/proc/1/mem", 0), os.stat("/proc/1/mem").st_uid == os.getuid()])""").said
    assert said == ["EACCES", False]


def test_cannot_trace_even_its_own(attack):
    """No program needs these calls in a cell, and each has been a way past some check."""
    code = r"""
PTRACE_TRACEME = 0
word = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
at, me = ctypes.byref(word), os.getpid()
said = {"read": call("process_vm_readv", me, at, 1, at, 1, 0), "kcmp": call("kcmp", me, me, 0, 1, 2),
        "write": call("process_vm_writev", me, at, 1, at, 1, 0),
        "getfd": call("pidfd_getfd", call("pidfd_open", me, 0), 1, 0)}
said["trace"] = call("ptrace", PTRACE_TRACEME, 0, 0, 0)
tell(said)"""
    assert attack.outside(code)["trace"] == 0
    assert set(attack(code).said.values()) <= {"EPERM", "ENOSYS"}
