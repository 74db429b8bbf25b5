#!/usr/bin/python3
"""svm.py HOTCELL: vm cells where KVM stands on the processor (AMD's SVM, emulated). See tools/guest.

Everywhere else the tests run on whatever /dev/kvm there is. Here it is the kind of host in which a
program's SYSCALL enters ring 0 of its machine. Nothing is said about speed."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from guest import *

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = PROJECT / "build-guest"
VMM = Path(HOTCELL).with_name("hotcell-vmm")
sys.path.insert(0, str(PROJECT / "tests/escape"))
os.environ["HOTCELL"] = HOTCELL
import pytest  # noqa: E402
import test_cannot_break_the_vmm as probes  # noqa: E402

# Those that take longest here and try the VMM's own books, where rings have no part.
LEFT_OUT = {"many_areas", "many_tables", "vfork_killed", "changing_paths", "broken_programs"}

VM = ("--isolation", "vm")


def in_machine(*argv):
    """What a program said in a machine of its own, with no cell around it; its user is nobody's."""
    words = ["hotcell-vmm", "1", "PATH=/usr/bin:/bin", shutil.which(argv[0]), *argv]
    process = subprocess.Popen(words, executable=VMM, env={}, stdin=subprocess.DEVNULL, close_fds=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
                               preexec_fn=probes.start_as_a_keeper_does)
    result = finish(process)
    assert (result.code, result.err) == (0, ""), result
    return result.out


def vm(language, code, *options, **who):
    result = run(language, code, *VM, *options, **who)
    assert result["isolation"] == "vm", result
    return result


def says(language, code, *options):
    result = vm(language, code, *options)
    assert (result["reason"], result["exit_code"]) == ("exited", 0), result
    return result["stdout"]


# ---- the host ----


@check
def kvm_stands_on_the_processor():
    # Everybody may, as with a group kvm that everybody is in.
    os.chmod("/dev/kvm", 0o666)
    # Else every touched page takes two megabytes of this small machine.
    Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")
    mount_cgroup2()
    assert Path("/sys/module/kvm_amd").is_dir()


@check
def doctor_names_the_kind_of_host():
    _, rows = doctor()
    assert rows["vm cell"]["state"] == "fine" and "SVM" in rows["vm cell"]["detail"], rows


# ---- programs in a machine ----


def add_programs():
    for kind in ("static", "dynamic"):
        for what in ("hello", "threads", "signals", "guards", "stub", "clocks", "children"):
            def right(program=str(PROGRAMS / f"svm_{kind}"), what=what):
                out = in_machine(program, what)
                assert out == "right\n", out
            right.__name__ = f"a {kind} program: {what}"
            check(right)


add_programs()


@check
def pipelines_of_a_shell():
    script = "for i in 3 1 2; do echo $i; done | sort | { read a; read b; echo $a$b; }; (exit 4) || echo $?"
    assert in_machine("sh", "-c", script) == "12\n4\n"


@check
def python_without_a_snapshot():
    assert in_machine("python3", "-c", "print(sum(range(101)), 0.1 + 0.2)") == "5050 0.30000000000000004\n"


# ---- cells ----


@check
def a_shell_in_a_cell():
    result = vm("sh", "echo out; echo err >&2; ls | wc -l >made; exit 7")
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 7), result
    assert [file["path"] for file in result["files"]] == ["made"], result


@check
def an_ordinary_user_has_vm_cells():
    assert vm("sh", "echo $((6 * 7))", user=NOBODY)["stdout"] == "42\n"


@check
def time_goes_on_in_a_cell():
    before = int(time.time())
    then, later = says("sh", "date +%s; sleep 1; date +%s").split()
    assert before - 1 <= int(then) < int(later) <= time.time() + 1


@check
def a_snapshot_of_python_is_made_and_serves():
    # A run that started by itself would have a hash seed of its own.
    assert says("python", "print(6 * 7)") == "42\n"
    hashes = {says("python", "print(hash('a'))") for _ in range(3)}
    assert len(hashes) == 1, hashes
    assert list(Path("/tmp/home-0/.cache/hotcell/snapshots").iterdir())


@check
def what_is_random_is_so_in_every_run():
    code = "import os, random, time; print(random.random(), os.urandom(8).hex(), int(time.time()))"
    began = int(time.time())
    runs = [says("python", code).split() for _ in range(2)]
    assert runs[0][0] != runs[1][0] and runs[0][1] != runs[1][1], runs
    assert all(began - 1 <= int(words[2]) <= time.time() + 1 for words in runs), runs


@check
def threads_children_and_handlers_in_a_warm_machine():
    code = """
import ctypes, os, signal, subprocess, threading
sums = []
threads = [threading.Thread(target=lambda n=n: sums.append(sum(range(n * 1000)))) for n in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(sums)[-1], subprocess.run(["sh", "-c", "echo child | tr a-z A-Z"], capture_output=True).stdout)
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
os.kill(os.getpid(), signal.SIGUSR1)
if os.fork() == 0:
    ctypes.string_at(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert says("python", code) == "7998000 b'CHILD\\n'\nhandled\n-11\n"


def install():
    """As if installed: the library looks for the rest beside the program that it is in."""
    bin = Path("/tmp/embedding/bin")
    bin.mkdir(parents=True)
    for source in (VMM, VMM.with_name("hotcell-warden"), PROGRAMS / "reuse"):
        shutil.copy(source, bin)
    for name in ("languages", "drivers"):
        shutil.copytree(PROJECT / name, f"/tmp/embedding/share/hotcell/{name}")
    return bin / "reuse"


@check
def one_machine_serves_many_runs_and_they_find_nothing_of_each_other():
    # Memory of all kinds, a handler and a file are left. The hash tells that it was one snapshot.
    leave = ("import os, sys, time, random, mmap, signal; "
             "print(hasattr(sys, 'left'), os.listdir('/tmp'), signal.getsignal(10) == 0, "
             "len(os.listdir('/proc/self/fd')), hash('a'), end=' '); "
             "sys.left = bytearray(b'x' * (4 << 20)); m = mmap.mmap(-1, 1 << 22); m[5] = 1; "
             "open('/tmp/left', 'w'); signal.signal(10, print); "
             "print(random.random(), int(time.time()), os.getpid(), end='')")
    began = int(time.time())
    done = subprocess.run([install(), "vm"], input=f"0 256 - {leave}\n" * 6, capture_output=True, text=True,
                          timeout=PATIENCE_S, env={"HOME": "/tmp/home-0", "PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (0, ""), done
    lines = [line.rstrip("|").split() for line in done.stdout.splitlines()]
    assert len(lines) == 6, done
    assert len({tuple(words[:-3]) for words in lines}) == 1, done
    assert lines[0][:5] == ["exited", "0", "False", "[]", "True"], done
    assert len({words[-3] for words in lines}) == 6, done  # randomness
    assert all(began - 1 <= int(words[-2]) <= time.time() + 1 for words in lines), done
    times = [int(words[-2]) for words in lines]
    assert times == sorted(times), done


# ---- limits ----


@check
def a_tight_loop_ends_at_its_processor_time():
    for language, code in (("sh", SPIN), ("python", "while True: pass")):
        result = vm(language, code, "--cpu-time", "2s")
        assert result["reason"] == "cpu_limit", result


@check
def a_loop_of_calls_that_never_leave_ends_as_well():
    result = vm("python", "import os\nwhile True: os.getpid()", "--cpu-time", "2s")
    assert result["reason"] == "cpu_limit", result


@check
def memory_has_its_limit():
    result = vm("python", EAT_MEMORY, "--memory", "96M")
    assert result["reason"] == "memory_limit", result


@check
def the_clock_ends_a_run():
    result = vm("sh", "sleep 1000", "--timeout", "3s")
    assert result["reason"] == "timeout", result


@check
def a_wild_program_ends_by_its_signal():
    result = vm("python", "import ctypes; ctypes.string_at(0)")
    assert (result["reason"], result["exit_code"]) == ("signaled", 128 + signal.SIGSEGV), result


# ---- a hostile guest ----


def try_probe(name):
    """Why it broke something, or nothing."""
    place = Path(f"/tmp/probe-{name}")
    place.mkdir()
    place.chmod(0o777)
    try:
        probes.test_cannot_break_the_vmm(PROGRAMS / "probes", name, place)
    except (Exception, pytest.fail.Exception):
        return traceback.format_exc()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return None


def add_probes():
    probes.TIMEOUT_S = PATIENCE_S
    for name in probes.names():
        if name in LEFT_OUT:
            continue

        def breaks_nothing(name=name):
            why = try_probe(name)
            assert why is None, why
        breaks_nothing.__name__ = f"the probe {name} breaks nothing"
        check(breaks_nothing)


add_probes()

for user in (ROOT, NOBODY):
    os.makedirs(f"/tmp/home-{user}")
    os.chown(f"/tmp/home-{user}", user, user)
sys.exit(1 if run_checks() else 0)
