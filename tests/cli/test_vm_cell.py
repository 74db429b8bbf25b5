"""vm isolation: a container cell whose program is a guest of hotcell-vmm."""
import json
import os
import re
import shutil
import subprocess

import harness
import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")

HELLO = r"""
#include <stdio.h>
int main(int argc, char **argv)
{
	FILE *made = fopen("made.txt", "w");
	fputs("made", made);
	fclose(made);
	printf("hello %s\n", argc > 1 ? argv[1] : "");
	return 3;
}
"""


def vm(hotcell, *args, **options):
    return hotcell.json("--isolation", "vm", *args, **options)


def test_the_result_says_vm(hotcell):
    object = vm(hotcell, "-l", "sh", "-c", "echo works; exit 7")
    assert (object["isolation"], object["stdout"], object["exit_code"]) == ("vm", "works\n", 7)


def test_input_files_and_results_go_as_in_a_container_cell(hotcell, tmp_path):
    (tmp_path / "in.txt").write_text("given")
    result = hotcell.run("--isolation", "vm", "-l", "sh", "-f", tmp_path / "in.txt", "-o",
                         tmp_path / "out", "--stdin", "-", "-c",
                         "cat; cat in.txt; mkdir d; echo new >d/new; chmod 0 d/new; chmod 0 d",
                         input=b"typed ")
    assert (result.code, result.out, result.err) == (0, "typed given", "")
    assert (tmp_path / "out/d/new").read_text() == "new\n"


def test_without_input_there_is_none(hotcell):
    assert vm(hotcell, "-l", "sh", "-c", "cat; echo end")["stdout"] == "end\n"


def test_what_is_compiled_in_a_container_runs_in_the_vm(hotcell):
    object = vm(hotcell, "-l", "c", "-c", HELLO, "--arg", "you")
    assert (object["isolation"], object["exit_code"], object["stdout"]) == ("vm", 3, "hello you\n")
    assert object["compile"]["exit_code"] == 0
    assert [file["path"] for file in object["files"]] == ["made.txt"]


def test_what_does_not_compile_is_told(hotcell):
    object = vm(hotcell, "-l", "c", "-c", "int main( {")
    assert object["compile"]["exit_code"] == object["exit_code"] == 1
    assert "error" in object["compile"]["stderr"]


def test_more_than_can_be_carried_is_an_error(hotcell, tmp_path):
    """A compiler is told by what it compiles how much it leaves behind."""
    (tmp_path / "big.yaml").write_text("""
id: big
name: Big
file: f
find:
  - program: sh
version: ["{program}", -c, "echo 1"]
compile: ["{program}", -c, "truncate -s 300M big && echo 'echo ran' >{out}"]
run: ["{program}", "{out}"]
vm: yes
""")
    result = hotcell.run("--isolation", "vm", "--languages", tmp_path, "-l", "big", "-c", "",
                         "--disk", "1G", "--file-size", "1G")
    assert result.code == 125
    assert "what the compiler made could not be taken" in result.err


def test_a_language_that_is_no_guest_is_refused_by_name(hotcell, tmp_path):
    text = (harness.ROOT / "languages/sh.yaml").read_text()
    (tmp_path / "sh.yaml").write_text(text.replace("vm: yes", "vm: no"))
    result = hotcell.run("--languages", tmp_path, "--isolation", "vm", "-l", "sh", "-c", "")
    assert result.code == 125
    assert "POSIX shell cannot be run in vm isolation" in result.err and "container" in result.err


@pytest.mark.parametrize("group, mode, advice", [
    ("tty", 0o660, "what to do: sudo usermod -aG tty $USER, then log in again"),
    (64999, 0o660, "what to do: sudo usermod -aG 64999 $USER, then log in again"),
    ("tty", 0o640, "the device is root's alone: sudo groupadd -f kvm && sudo chgrp kvm /dev/kvm"),
    ("root", 0o660, "the device is root's alone: sudo groupadd -f kvm && sudo chgrp kvm /dev/kvm"),
])
def test_who_may_not_open_kvm_is_told_what_to_do(nobody, tmp_path, group, mode, advice):
    """By whose it really is: to be in a group helps only where the group may open it."""
    device = tmp_path / "kvm"
    device.touch()
    shutil.chown(device, group=group)
    device.chmod(mode)

    def say(*args):
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/kvm && exec "$@"', device,
             "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", nobody.program, *args],
            env=nobody.env, capture_output=True, text=True, cwd="/")
        return done.stdout + done.stderr

    said = say("run", "--isolation", "vm", "-l", "sh", "-c", "")
    assert "/dev/kvm: Permission denied; what to do: " in said and advice in said
    assert "hotcell doctor" not in said
    rows = {row["name"]: row for row in json.loads(say("doctor", "--json"))["checks"]}
    assert rows["/dev/kvm"]["fix"] in said
    assert rows["vm cell"]["detail"] == "vm isolation: /dev/kvm: Permission denied"


def test_without_the_vmm_there_is_no_vm_isolation(private):
    private.program.with_name("hotcell-vmm").unlink()
    result = private.run("--isolation", "vm", "-l", "sh", "-c", "")
    assert result.code == 125
    assert "hotcell-vmm: No such file" in result.err
    object = private.json("-l", "sh", "-c", "echo works")
    assert (object["isolation"], object["stdout"]) == ("container", "works\n")
    assert "hotcell-vmm: No such file" in object["isolation_why"]


def test_only_a_vm_can_be_traced(hotcell):
    for isolation in ("container", "process"):
        result = hotcell.run("--trace", "--isolation", isolation, "-l", "sh", "-c", "")
        assert result.code == 125
        assert "traced in vm isolation only" in result.err
    assert hotcell.run("--trace", "--isolation", "vm", "-l", "sh", "-c", "").err


def test_the_machines_devices_and_proc_are_not_among_the_cells_files(private):
    """Seen by the VMM, not by its guest: a VMM that tells is put in its place."""
    spy = private.program.with_name("hotcell-vmm")
    spy.unlink()
    (private.where / "spy.c").write_text(r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv, char **env)
{
	printf("%d %d\n", access("/proc", F_OK), access("/dev/null", F_OK));
	for (int fd = 3; fd < 5000; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	printf("\n%d %d\n", open("/proc/self/maps", O_RDONLY), openat(1002, "self/pagemap", O_RDONLY) >= 0);
	printf("%s %s %d\n", argv[0], argv[1], env[0] != 0);
	return 0;
}
""")
    compiler = shutil.which("gcc")
    assert os.spawnv(os.P_WAIT, compiler, [compiler, "-static", "-o", str(spy),
                                           str(private.where / "spy.c")]) == 0
    spy.chmod(0o755)
    result = private.run("--isolation", "vm", "-l", "sh", "-c", "", "--open-files", "77")
    assert result.out.splitlines() == ["-1 -1", "1000 1001 1002 1006 ", "-1 1",
                                       "hotcell-vmm --open-files=77 0"], result


# ---- --profile ----


def loaded(hotcell, *args):
    """Whether numpy was there before the program, in a machine that may be warm."""
    code = "import sys; print('numpy.core' in sys.modules or 'numpy._core' in sys.modules)"
    return vm(hotcell, "-l", "python", "-c", code.replace("numpy", "num' + 'py"), *args)["stdout"]


def test_a_profile_is_what_its_machine_has_loaded(hotcell):
    assert loaded(hotcell, "--profile", "data") == "True\n"
    assert loaded(hotcell, "--profile", "plain") == loaded(hotcell) == "False\n"


def test_the_words_of_a_file_choose_its_profile(hotcell, tmp_path):
    code = "import sys\nprint('numpy' in sys.modules)\n"
    (tmp_path / "with.py").write_text(code)
    (tmp_path / "without.py").write_text(code.replace("numpy", "num' + 'py"))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/in.py").write_text(code)
    assert vm(hotcell, tmp_path / "with.py")["stdout"] == "True\n"
    assert vm(hotcell, tmp_path / "without.py")["stdout"] == "False\n"
    assert vm(hotcell, tmp_path / "without.py", "-f", tmp_path / "with.py")["stdout"] == "False\n"
    assert vm(hotcell, tmp_path / "with.py", "-f", tmp_path / "without.py")["stdout"] == "True\n"
    # What lies in a directory is not read before its turn.
    assert vm(hotcell, "-f", tmp_path / "tree", "--entry", "tree/in.py")["stdout"] == "False\n"


def test_a_profile_that_there_is_not_is_told_with_those_that_there_are(hotcell):
    for more in ([], ["--trace"], ["--env", "LANG=C"]):
        result = hotcell.run("--isolation", "vm", "-l", "python", "-c", "", "--profile", "dta", *more)
        assert (result.code, result.out) == (125, "")
        assert result.err == "hotcell: Python has no profile 'dta'; it has: plain, data\n"


def test_a_language_without_profiles_says_so(hotcell):
    result = hotcell.run("--isolation", "vm", "-l", "sh", "-c", "", "--profile", "plain")
    assert (result.code, result.err) == (125, "hotcell: POSIX shell has no profiles\n")


def test_profiles_are_for_what_can_wait(hotcell):
    result = hotcell.run("--isolation", "process", "-l", "python", "-c", "", "--profile", "plain")
    assert result.code == 125
    assert "profiles are for vm and container isolation, and this is process isolation" in result.err
    assert hotcell.run("--isolation", "container", "-l", "python", "-c", "", "--profile", "plain").code == 0


# ---- what is counted ----

UNKNOWN = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int unknown(long number)
{
	return syscall(number, 0, 0, 0, 0) == -1 && errno == ENOSYS;
}
int main(int argc, char **argv)
{
	int fine = unknown(SYS_clone3) + unknown(SYS_ptrace) + unknown(SYS_shmget) + unknown(499);

	if (fork() == 0) {
		fine = unknown(499);
		if (argc > 1)
			_exit(0);
		execl("/bin/sh", "sh", "-c", "exit 0", NULL);
	}
	wait(NULL);
	printf("%d\n", fine);
	fflush(stdout);
	if (argc > 1 && argv[1][0] == 'k')
		kill(getpid(), SIGKILL);
	if (argc > 1)
		for (;;)
			;
	return 0;
}
"""


def test_unknown_calls_are_counted_and_the_first_is_named(hotcell):
    """All processes of the run together; what C libraries merely try is counted, and not named."""
    counts = vm(hotcell, "-l", "c", "-c", UNKNOWN, "--arg", "k")
    assert (counts["stdout"], counts["exit_code"]) == ("4\n", 137)
    own = vm(hotcell, "-l", "c", "-c", "int main(void) { return 0; }")["vm"]
    assert own["missing_call"] is None and own["warm"] is False
    assert own["unknown_calls"] <= 2  # rseq, of the C library
    assert counts["vm"]["missing_call"] == "shmget", "a container has no ptrace either"
    assert counts["vm"]["unknown_calls"] == own["unknown_calls"] + 5
    assert counts["vm"]["exits"] > own["exits"] > 0


def test_what_another_program_of_the_run_did_is_counted_too(hotcell):
    shell = vm(hotcell, "-l", "sh", "-c", "exit 0")["vm"]["unknown_calls"]
    own = vm(hotcell, "-l", "c", "-c", "int main(void) { return 0; }")["vm"]["unknown_calls"]
    assert vm(hotcell, "-l", "c", "-c", UNKNOWN)["vm"]["unknown_calls"] == own + 5 + shell


def test_a_run_that_was_ended_has_its_counts(hotcell):
    object = vm(hotcell, "-l", "c", "-c", UNKNOWN, "--arg", "x", "--timeout", "2s")
    assert object["reason"] == "timeout"
    assert object["vm"]["missing_call"] == "shmget" and object["vm"]["unknown_calls"] >= 5


def test_a_warm_run_is_counted_from_its_own_beginning(hotcell):
    object = vm(hotcell, "-l", "python", "-c", "print(1)")
    assert object["vm"]["warm"] is True
    assert object["vm"]["unknown_calls"] == 0 and 0 < object["vm"]["exits"] < 100
    object = vm(hotcell, "-l", "python", "-c",
                "import ctypes\nfor n in (998, 999, 998): ctypes.CDLL(None).syscall(n)")
    assert (object["vm"]["unknown_calls"], object["vm"]["missing_call"]) == (3, None)


def test_other_isolations_count_nothing(hotcell):
    assert hotcell.json("--isolation", "container", "-l", "sh", "-c", "")["vm"] is None


def test_stats_tell_of_the_machine(hotcell):
    err = hotcell.run("--isolation", "vm", "--stats", "-l", "c", "-c", UNKNOWN).err
    assert re.search(r"^hotcell: cold machine, left \d+ times, \d+ unknown calls, first shmget$", err, re.M)
    err = hotcell.run("--isolation", "vm", "--stats", "-l", "python", "-c", "").err
    assert re.search(r"^hotcell: warm machine, left \d+ times, 0 unknown calls$", err, re.M)
    assert "machine" not in hotcell.run("--isolation", "container", "--stats", "-l", "sh", "-c", "").err


# ---- processes by descriptors ----

PIDFDS = """
import asyncio, os, select, signal, time

def child(act, *args):
    pid = os.fork()
    if pid == 0:
        act(*args)
        os._exit(0)
    return os.pidfd_open(pid)

def tell(act, *args):
    try:
        print(act.__name__, act(*args))
    except OSError as error:
        print(act.__name__, error)

def ready(fd, seconds):
    return bool(select.select([fd], [], [], seconds)[0])

def status(fd):
    return os.waitid(os.P_PIDFD, fd, os.WEXITED).si_status

own = os.pidfd_open(os.getpid())
print(ready(own, 0), os.get_inheritable(own))
signal.signal(signal.SIGUSR1, lambda *_: print("got it"))
signal.pidfd_send_signal(own, signal.SIGUSR1)
sleeper = child(time.sleep, 60)
print(ready(sleeper, 0.05))
os.set_blocking(sleeper, False)
tell(status, sleeper)
os.set_blocking(sleeper, True)
signal.pidfd_send_signal(sleeper, 0)
signal.pidfd_send_signal(sleeper, signal.SIGTERM)
print(ready(sleeper, 20), status(sleeper))
tell(signal.pidfd_send_signal, sleeper, signal.SIGTERM)
ends = child(os._exit, 7)
watch = select.epoll()
watch.register(ends, select.EPOLLIN)
print(len(watch.poll(20)), status(ends))
for pid, flags in (0, 0), (-5, 0), (999999, 0), (os.getpid(), 1):
    tell(os.pidfd_open, pid, flags)

async def main():
    if hasattr(asyncio, "PidfdChildWatcher"):  # what later versions of Python do anyway
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.get_event_loop_policy().set_child_watcher(watcher)
    p = await asyncio.create_subprocess_exec("sh", "-c", "echo out; exit 3", stdout=asyncio.subprocess.PIPE)
    print(await p.communicate(), p.returncode)

asyncio.run(main())
"""


def test_processes_are_known_by_descriptors_as_in_a_container(hotcell):
    in_vm, outside = [hotcell.json("--isolation", isolation, "-l", "python", "-c", PIDFDS)
                      for isolation in ("vm", "container")]
    assert "(b'out\\n', None) 3" in in_vm["stdout"] and in_vm["exit_code"] == 0, in_vm["stderr"]
    assert in_vm["stdout"] == outside["stdout"]


def test_nobody_passes_for_the_kernel_by_a_descriptor(hotcell):
    """Of a fault, or of the clock, that the VMM has to do with."""
    code = """
import ctypes, os, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
own = os.pidfd_open(os.getpid())
for number, code in (signal.SIGSEGV, 1), (signal.SIGBUS, 2), (signal.SIGALRM, -2), (signal.SIGTERM, 0x80):
    info = struct.pack("iii", number, 0, code).ljust(128, b"\\0")
    print(libc.syscall(424, own, int(number), info, 0), os.strerror(ctypes.get_errno()))
"""
    object = vm(hotcell, "-l", "python", "-c", code)
    assert (object["stdout"], object["exit_code"]) == ("-1 Operation not permitted\n" * 4, 0)


QUEUES = """
import ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.sigqueue.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_void_p
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
child = os.fork()
if child == 0:
    info = signal.sigwaitinfo([signal.SIGUSR1])
    print(info.si_signo == signal.SIGUSR1, info.si_code, info.si_pid == os.getppid())
    sys.exit(7)
print(libc.sigqueue(child, signal.SIGUSR1, 42))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(libc.sigqueue(os.getpid(), signal.SIGUSR2, 42), signal.sigwaitinfo([signal.SIGUSR2]).si_code)
print(libc.sigqueue(99999, signal.SIGUSR1, 0), os.strerror(ctypes.get_errno()))
"""


def test_signals_are_queued_for_others_as_in_a_container(hotcell):
    in_vm, outside = [hotcell.json("--isolation", isolation, "-l", "python", "-c", QUEUES)
                      for isolation in ("vm", "container")]
    assert (in_vm["exit_code"], in_vm["stderr"]) == (0, "")
    assert sorted(in_vm["stdout"].splitlines()) == sorted(outside["stdout"].splitlines())


NUMBERS = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.sigqueue.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_void_p
def is_reached(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
for pid in range(1, 400):
    if is_reached(pid) != (libc.sigqueue(pid, 0, 0) == 0) and pid != 1:
        print(pid)
"""


def test_no_number_reaches_a_thread_of_the_vmm(hotcell):
    """A signal to one of KVM's would end the VMM; kill() and sigqueue() see the same processes."""
    object = vm(hotcell, "-l", "python", "-c", NUMBERS)
    assert (object["stdout"], object["exit_code"]) == ("", 0)


# ---- traces ----

def trace(hotcell, *args, **options):
    return hotcell.run("--trace", "--isolation", "vm", *args, **options)


TRACED = r"""
printf '\033[2J\2001 tab\t quote" \\ \n' >f
cat f >g
kill -CONT $$
echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
exit 3
"""


@pytest.fixture(scope="module")
def traced(hotcell):
    """Without what differs each time: who called, addresses."""
    result = trace(hotcell, "-l", "sh", "-c", TRACED)
    assert result.code == 3
    return re.sub(r"0x[0-9a-f]{8,}", "ADDRESS", re.sub(r"(?m)^\[\d+\] ", "", result.err)).splitlines()


@pytest.mark.parametrize("line", [
    'openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3',
    "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = ADDRESS",
    "brk(NULL) = ADDRESS",
    "fcntl(1, F_DUPFD, 10) = 11",
    "fcntl(11, F_SETFD, FD_CLOEXEC) = 0",
    'openat(AT_FDCWD, "f", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3',
    r'write(1, "\33[2J\2001 tab\t quote\" \\ \n", 22) = 22',
    'write(1, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"..., 41) = 41',
    'execve("/usr/bin/cat", ["cat", "f"], ADDRESS) = 0',
    "exit_group(3) = ?",
])
def test_a_trace_tells_what_a_program_does(traced, line):
    assert line in traced


@pytest.mark.parametrize("start, end", [
    ('execve("/usr/bin/', '"main.sh"], /* 5 vars */) = 0'),
    (r'read(3, "\177ELF\2\1\1', '"..., 832) = 832'),
    ("mprotect(ADDRESS, ", ", PROT_READ) = 0"),
    ("rseq(ADDRESS, 0x20, 0, ", ") = -1 ENOSYS (Function not implemented)"),
    ("rt_sigaction(SIGINT, ", ", 8) = 0"),
    ("wait4(-1, ADDRESS, ", ", NULL) = "),
    ("kill(", ", SIGCONT) = 0"),
])
def test_a_trace_names_what_has_a_name(traced, start, end):
    assert any(said.startswith(start) and end in said for said in traced), traced


def test_a_trace_holds_nothing_but_plain_text(hotcell):
    """What the program wrote is not for the terminal of whoever looks."""
    code = "import os\nfor i in range(0, 256, 16): os.write(3, bytes(range(i, i + 16)))\n" \
           "open(b'/tmp/\\x1b[31m\\xff', 'w')\nos.execv('/bin/echo', [b'\\x07\\x9b' * 200] * 40)"
    result = trace(hotcell, "-l", "python", "-c", "import os; os.dup2(os.open('/dev/null', 1), 3)\n" + code)
    lines = result.err.splitlines()
    assert all(" " <= c <= "~" for line in lines for c in line), result.err
    assert any('write(3, "\\20\\21' in line for line in lines)
    assert any(r'"/tmp/\33[31m\377"' in line for line in lines)
    assert all(len(line) < 4096 for line in lines)


def test_a_thread_is_told_to_end_by_its_own_number(hotcell):
    result = trace(hotcell, "-l", "python", "-c", "import threading as t\n"
                   "x = t.Thread(target=lambda: print(t.get_native_id())); x.start(); x.join()")
    assert f"[{result.out.strip()}] exit(0) = ?\n" in result.err
