"""What depends on the kernel and not on cgroups: languages, walls, files. As root and as nobody."""
import ctypes
import os
import platform
import socket
import subprocess
import tempfile
from pathlib import Path

from guest import *

SECRET = Path("/run/secret")
LANDLOCK_CREATE_RULESET = 444
LANDLOCK_CREATE_RULESET_VERSION = 1


def landlock_abi():
    return ctypes.CDLL(None).syscall(
        LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)


@check
def doctor_knows_this_kernel_and_its_landlock():
    _, rows = doctor()
    assert rows["kernel"]["state"] == "fine" and platform.release() in rows["kernel"]["detail"]
    assert rows["landlock"]["detail"] == f"ABI {landlock_abi()}", rows


@check
def python_runs():
    for user in (ROOT, NOBODY):
        result = run("python", "import sys; print(6 * 7); sys.exit(3)", user=user)
        assert (result["stdout"], result["exit_code"]) == ("42\n", 3), result
        assert result["isolation"] == "container", result


@check
def c_is_compiled_and_runs():
    code = "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", 6 * 7); return 3; }"
    result = run("c", code, user=NOBODY)
    assert (result["stdout"], result["exit_code"]) == ("42\n", 3), result


@check
def input_and_files_go_in_and_come_out():
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        given = Path(top, "given")
        given.write_text("seven\n")
        out = Path(top, "out")
        result = run("sh", "cat given >made; mkdir d; echo x >d/y", "-f", given, "-o", out)
        assert result["exit_code"] == 0, result
        assert (out / "made").read_text() == "seven\n" and (out / "d" / "y").read_text() == "x\n"
        assert not (out / "given").exists()


@check
def a_program_ends_at_its_time():
    result = run("sh", "sleep 1000", "--timeout", "1s", user=NOBODY)
    assert result["reason"] == "timeout", result


# Says what of it succeeded. Run in a cell, and outside of one: there all of it must succeed.
ATTEMPTS = r'''
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, CLONE_NEWUSER = 0x4206, 0x10000000

def connect():
    socket.create_connection(("127.0.0.1", PORT), timeout=60).close()

def call(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "call")

attempts = {
    "mount": lambda: call(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "trace process 1": lambda: call(libc.ptrace(PTRACE_SEIZE, 1, None, None)),
    "read memory of process 1": lambda: open("/proc/1/mem", "rb").close(),
    "signal a process of the machine": lambda: os.kill(CHECKS, 0),
    "read a secret": lambda: open("/run/secret").close(),
    "find /etc/shadow": lambda: os.stat("/etc/shadow"),
    "connect": connect,
    "see a cgroup": lambda: os.listdir("/sys/fs/cgroup"),
    "read the kernel's log": lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY)),
    "write outside": lambda: open("/run/x", "w").close(),
    "set the host's name": lambda: call(libc.sethostname(b"guest", 5)),
    "make a device": lambda: os.mknod("/tmp/null", 0o20666, os.makedev(1, 3)),
    "raise its priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    # Last: in there it would have no rights over the machine any more.
    "make a user namespace": lambda: call(libc.unshare(CLONE_NEWUSER)),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name)
    except OSError:
        pass
'''


def attempts(listener):
    port = listener.getsockname()[1]
    return ATTEMPTS.replace("PORT", str(port)).replace("CHECKS", str(os.getpid()))


def listen():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return socket.create_server(("127.0.0.1", 0))


@check
def nothing_that_succeeds_outside_succeeds_in_a_cell():
    SECRET.write_text("secret\n")
    with listen() as listener:
        code = attempts(listener)
        outside = finish(start("unshare", "--mount", "python3", "-c", code))
        names = [line.split('"')[1] for line in ATTEMPTS.splitlines() if line.startswith('    "')]
        assert sorted(outside.out.splitlines()) == sorted(names), outside
        for user in (ROOT, NOBODY):
            result = run("python", code, user=user)
            assert (result["stdout"], result["stderr"]) == ("", ""), result
            assert result["exit_code"] == 0, result


@check
def the_machines_network_is_there_only_for_who_asks_for_it():
    with listen() as listener:
        address = listener.getsockname()
        code = f"import socket; socket.create_connection({address})"
        assert run("python", code, "--network", "host")["exit_code"] == 0
        assert run("python", code)["exit_code"] == 1


@check
def a_cell_sees_its_own_processes_only():
    for user in (ROOT, NOBODY):
        result = run("sh", "echo /proc/[0-9]*; ls /run | wc -l; id -u", user=user)
        seen, run_files, uid = result["stdout"].splitlines()
        # Its keeper, and itself.
        assert seen == "/proc/1 /proc/2", result
        assert (run_files, uid) == ("0", "1000"), result


@check
def each_cell_of_root_has_a_user_id_of_its_own():
    with Running() as one, Running() as other:
        uids = {os.stat(f"/proc/{cell.program}").st_uid for cell in (one, other)}
    assert len(uids) == 2 and min(uids) >= 0x70000000, uids
