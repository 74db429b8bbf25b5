"""A run ends with one truthful reason, and with all that it had printed up to then."""
import json
import random
import signal

import harness
import pytest

BEFORE = "print('before', flush=True)\n"


def python(hotcell, code, *options):
    return hotcell.json("-l", "python", "-c", code, *options)


def facts(object):
    return object["reason"], object["exit_code"], object["stdout"]


# ---- exited and signaled ----


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 124, 125, 126, 127, 128, 255])
def test_exited_has_the_programs_own_code(hotcell, code):
    result = hotcell.run("-l", "sh", "-c", f"exit {code}")
    assert (result.code, result.out, result.err) == (code, "", "")
    object = hotcell.json("-l", "sh", "-c", f"exit {code}")
    assert facts(object) == ("exited", code, "")
    assert object["timed_out"] is False


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "ABRT", "PIPE", "HUP", "INT"])
def test_signaled_has_the_shells_code_and_names_the_signal(anyone, isolation, name):
    number = getattr(signal, "SIG" + name)
    result = anyone.run("-l", "sh", "-c", f"echo before; kill -{name} $$; sleep 60",
                        "--isolation", isolation)
    assert (result.code, result.out) == (128 + number, "before\n")
    assert f"signaled: killed by signal {number.value}" in result.err
    object = anyone.json("-l", "sh", "-c", f"echo before; kill -{name} $$", "--isolation", isolation)
    assert facts(object) == ("signaled", 128 + number, "before\n")


def test_a_child_that_died_by_a_signal_is_not_the_programs_end(anyone):
    object = anyone.json("-l", "sh", "-c", "sh -c 'kill -9 $$'; echo $?; exit 5")
    assert facts(object) == ("exited", 5, "137\n")


# ---- timeout ----


@pytest.mark.parametrize("code", [
    "sleep 1000", "while :; do :; done", "trap '' HUP INT QUIT TERM; while :; do sleep 1000; done",
    "kill -STOP $$"], ids=["asleep", "busy", "deaf", "stopped"])
def test_timeout(anyone, isolation, code):
    object = anyone.json("-l", "sh", "-c", "echo before; " + code, "--timeout", "1s",
                         "--isolation", isolation)
    assert facts(object) == ("timeout", None, "before\n")
    assert object["timed_out"] is True
    assert "1s" in object["reason_text"]


def test_timeout_is_124(anyone, isolation):
    result = anyone.run("-l", "sh", "-c", "echo before; sleep 1000", "--timeout", "1s",
                        "--isolation", isolation)
    assert (result.code, result.out) == (124, "before\n")
    assert "timeout" in result.err


def test_a_timeout_counts_children_that_keep_the_output_open(anyone, isolation):
    """The program's end is the end, whatever it left behind."""
    object = anyone.json("-l", "sh", "-c", "sleep 1000 & echo before", "--isolation", isolation)
    assert facts(object) == ("exited", 0, "before\n")


# ---- cpu_limit ----


def test_cpu_limit(anyone, isolation):
    object = python(anyone, BEFORE + "while True: pass", "--cpu-time", "300ms", "--timeout", "20s",
                    "--isolation", isolation)
    assert object["reason"] == "cpu_limit"
    assert object["stdout"] == "before\n"
    assert object["timed_out"] is False
    assert object["exit_code"] == 137 or object["exit_code"] == 152
    assert object["usage"]["cpu_ms"] >= 250


def test_sleeping_uses_no_cpu_time(anyone, isolation):
    object = python(anyone, "import time; time.sleep(0.6); print('done')", "--cpu-time", "500ms",
                    "--isolation", isolation)
    assert facts(object) == ("exited", 0, "done\n")


BURN = """
import os, time
def burn(seconds):
    while time.process_time() < seconds: pass
"""


def test_cpu_limit_counts_all_processes_together(anyone, isolation):
    """Each of them stays far below the limit, and then only waits."""
    object = python(anyone, BEFORE + BURN + """
children = []
for i in range(6):
    pid = os.fork()
    if pid == 0:
        burn(0.2)
        time.sleep(1000)
    children.append(pid)
time.sleep(1000)
""", "--cpu-time", "600ms", "--timeout", "20s", "--isolation", isolation)
    assert object["reason"] == "cpu_limit"
    assert object["stdout"] == "before\n"


def test_cpu_limit_counts_processes_that_have_ended(anyone, isolation):
    object = python(anyone, BEFORE + BURN + """
while True:
    if os.fork() == 0:
        burn(0.05)
        os._exit(0)
    os.wait()
""", "--cpu-time", "400ms", "--timeout", "20s", "--isolation", isolation)
    assert object["reason"] == "cpu_limit"
    assert object["stdout"] == "before\n"


# ---- memory_limit ----


def test_memory_limit(anyone, isolation):
    object = python(anyone, BEFORE + """
kept = []
while len(kept) < 600: kept.append(bytearray(1 << 20))
import time; time.sleep(10)
""", "--memory", "64M", "--isolation", isolation)
    assert object["reason"] == "memory_limit"
    assert object["stdout"] == "before\n"
    assert object["exit_code"] == 137
    assert "64M" in object["reason_text"]


def test_less_than_the_memory_limit_is_fine(anyone, isolation):
    object = python(anyone, "x = bytearray(100 << 20); print(len(x))", "--memory", "200M",
                    "--isolation", isolation)
    assert facts(object) == ("exited", 0, f"{100 << 20}\n")
    assert object["usage"]["peak_memory_bytes"] >= 100 << 20


def test_memory_limit_counts_all_processes_together(anyone, isolation):
    object = python(anyone, BEFORE + """
import os, time
for i in range(8):
    if os.fork() == 0:
        kept = bytearray(os.urandom(1 << 20) * 30)
        time.sleep(10)
        os._exit(0)
os.wait()
""", "--memory", "128M", "--isolation", isolation)
    assert object["reason"] == "memory_limit"
    assert object["stdout"] == "before\n"


@pytest.mark.needs_root("without a cgroup files are held by the disk limit alone")
@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_memory_limit_counts_files_since_they_are_in_memory(hotcell, place):
    object = python(hotcell, BEFORE + f"""
with open("{place}/big", "wb") as f:
    for i in range(200): f.write(bytes(1 << 20))
""", "--memory", "100M", "--disk", "400M", "--file-size", "400M")
    assert object["reason"] == "memory_limit"
    assert object["stdout"] == "before\n"


# ---- output_limit ----


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_limit(anyone, isolation, stream):
    object = python(anyone, f"""
import sys
while True: sys.{stream}.write("0123456789abcdef" * 64)
""", "--output-end", "100k", "--isolation", isolation)
    assert object["reason"] == "output_limit"
    assert object[stream] == "0123456789abcdef" * (100 * 64)
    assert "100K" in object["reason_text"]


def test_output_limit_streams_exactly_up_to_the_limit(anyone):
    result = anyone.run("-l", "sh", "-c", "yes", "--output-end", "64k")
    assert result.raw_out == b"y\n" * 32768
    assert result.code not in (0, 124, 125)
    assert "output_limit" in result.err


def test_output_just_below_the_limit_is_fine(anyone):
    object = python(anyone, "print('x' * 2047)", "--output-end", "2049")
    assert (object["reason"], len(object["stdout"])) == ("exited", 2048)


# ---- disk_limit ----


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_disk_limit(anyone, place):
    object = python(anyone, BEFORE + f"""
with open("{place}/big", "wb") as f:
    while True: f.write(bytes(65536))
""", "--disk", "1M")
    assert object["reason"] == "disk_limit"
    assert object["stdout"] == "before\n"
    assert "No space left on device" in object["stderr"]


def test_disk_limit_is_one_for_all_places_together(anyone):
    object = python(anyone, BEFORE + """
for place in ("/workspace", "/tmp", "/dev/shm"):
    open(place + "/part", "wb").write(bytes(900 << 10))
""", "--disk", "2M")
    assert object["reason"] == "disk_limit"


def test_disk_limit_when_there_are_too_many_files(anyone):
    object = python(anyone, BEFORE + """
for i in range(100000): open(f"/tmp/{i}", "w").close()
""", "--disk", "1M")
    assert object["reason"] == "disk_limit"
    assert object["stdout"] == "before\n"


def test_disk_limit_when_one_file_is_too_large(anyone, isolation):
    object = anyone.json("-l", "sh", "-c", "echo before; head -c 2M /dev/zero >big; exec head -c 2M "
                         "/dev/zero >big2", "--file-size", "1M", "--isolation", isolation)
    assert object["reason"] == "disk_limit"
    assert object["stdout"] == "before\n"
    assert "1M" in object["reason_text"]


def test_a_program_that_copes_with_a_full_disk_has_not_failed(anyone):
    object = python(anyone, """
try:
    with open("big", "wb") as f:
        while True: f.write(bytes(65536))
except OSError:
    print("coped")
""", "--disk", "1M")
    assert facts(object) == ("exited", 0, "coped\n")


def test_files_handed_in_that_do_not_fit_are_refused(anyone, public):
    big = public / f"big-{harness.token()}"
    big.write_bytes(bytes(2 << 20))
    big.chmod(0o644)
    result = anyone.run("-l", "sh", "-c", "echo ran", "-f", big, "--disk", "1M")
    assert (result.out, result.code) == ("", 125)
    assert big.name in result.err and "No space left" in result.err


# ---- cancelled ----


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_cancelled(anyone, isolation, how):
    # Known by its number: others sleep meanwhile, too.
    seconds = random.randrange(10**6, 10**7)
    process = anyone.start("run", "--json", "-l", "sh", "-c", f"echo before; sleep {seconds}",
                           "--isolation", isolation)
    harness.wait_until(lambda: len(harness.pids_with(f"sleep\x00{seconds}")), "it sleeps")
    process.send_signal(how)
    out, err = process.communicate(timeout=harness.PATIENCE_S)
    object = json.loads(out)
    assert (object["reason"], object["stdout"]) == ("cancelled", "before\n")
    assert process.returncode == 130


# ---- while compiling ----

LANGUAGE = """
id: slow
name: Slow
file: main.txt
find: [{{ program: /bin/sh }}]
version: ["{{program}}", -c, "echo 1"]
compile: [/bin/sh, -c, "echo compiling; {compile}"]
compile_limits: {{ timeout_s: {timeout_s}, memory_mb: 64, processes: 16 }}
run: [/bin/echo, ran]
"""


def compiling(hotcell, public, compile, *options, timeout_s=60):
    directory = public / harness.token()
    directory.mkdir()
    (directory / "slow.yaml").write_text(LANGUAGE.format(compile=compile, timeout_s=timeout_s))
    return hotcell.json("--languages", directory, "-l", "slow", "-c", "x", *options)


def test_a_compiler_may_time_out(anyone, public):
    object = compiling(anyone, public, "sleep 1000", "--timeout", "500ms", timeout_s=1)
    assert object["reason"] == "timeout"
    assert (object["compile"]["stdout"], object["stdout"]) == ("compiling\n", "")
    assert "1s" in object["reason_text"], "the limit of the compiler, not of the run"


def test_a_compiler_may_take_longer_than_the_run(anyone, public):
    object = compiling(anyone, public, "sleep 1.2", "--timeout", "1s")
    assert (object["reason"], object["stdout"]) == ("exited", "ran\n")


def test_a_compiler_may_run_out_of_memory(hotcell, public):
    object = compiling(
        hotcell, public, "/usr/bin/python3 -c 'x = bytearray(300 << 20); import time; time.sleep(20)'",
        "--memory", "32M")
    assert object["reason"] == "memory_limit"
    assert (object["compile"]["stdout"], object["stdout"]) == ("compiling\n", "")
    assert "64M" in object["reason_text"], "the limit of the compiler, not of the run"


def test_a_compilers_time_is_not_the_programs(anyone, public):
    """What the compiler used does not count towards the program's limit or usage."""
    object = compiling(
        anyone, public, "/usr/bin/python3 -c 'import time\nwhile time.process_time() < 0.5: pass'"
        .replace("\n", "\\n"), "--cpu-time", "300ms")
    assert (object["reason"], object["stdout"]) == ("exited", "ran\n")
    assert object["usage"]["cpu_ms"] < 300


def test_the_program_has_its_own_memory_limit_after_compiling(hotcell):
    object = hotcell.json("-l", "c", "--memory", "48M", "-c", """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	puts("before");
	fflush(stdout);
	for (int i = 0; i < 400; i++)
		memset(malloc(1 << 20), 1, 1 << 20);
	puts("after");
	return 0;
}
""")
    assert object["reason"] == "memory_limit"
    assert object["stdout"] == "before\n"
    assert object["compile"]["exit_code"] == 0
