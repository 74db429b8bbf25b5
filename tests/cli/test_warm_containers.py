"""A container that was made before has a driver that waits in it; a program that it serves ends, fails and prints
as one that started cold."""
import re

import pytest
import test_warm_javascript
import test_warm_programs
from harness import Session

PROGRAMS = {
    "python": test_warm_programs.PROGRAMS,
    "javascript": test_warm_javascript.PROGRAMS,
}
# What an interpreter that is started ahead shows of itself: its own command line.
TELLS_APART = {"looks at how it was started"}
SAME = ("out", "err", "code", "reason", "files", "isolation", "truncated")


@pytest.fixture(scope="module")
def sessions(programs):
    opened = {}

    def get(language):
        if language not in opened:
            opened[language] = Session(programs, isolation="container", language=language)
        return opened[language]

    yield get
    for session in opened.values():
        session.__exit__()


def without_addresses(result):
    return {name: re.sub("0x[0-9a-f]+", "0x", result[name]) if name == "err" else result[name] for name in SAME}


def warm(session, code, **settings):
    session.make()
    return session.run(code, **settings)


def cold(session, code, **settings):
    session.unmake()
    result = session.run(code, **settings)
    assert not result["warm"]
    return result


def assert_alike(session, code, **settings):
    """The cell is made without the settings of the run."""
    in_warm = warm(session, code, **settings)
    assert in_warm["warm"] == 1
    assert without_addresses(in_warm) == without_addresses(cold(session, code, **settings))
    return in_warm


@pytest.mark.parametrize("language, name", [
    (language, name) for language in PROGRAMS for name in PROGRAMS[language] if name not in TELLS_APART])
def test_a_program_that_was_waited_for_does_as_a_cold_one(sessions, language, name):
    assert_alike(sessions(language), PROGRAMS[language][name])


READS = {"python": "import sys; print(sys.stdin.read(), sys.argv)",
         "javascript": "console.log(require('fs').readFileSync(0, 'utf8'), process.argv)"}
KIND_OF_INPUT = {"python": "import os, stat; print(stat.S_IFMT(os.fstat(0).st_mode), os.readlink('/proc/self/fd/0')[:5])",
                 "javascript": "const fs = require('fs'); console.log(fs.fstatSync(0).mode >> 12,"
                               " fs.readlinkSync('/proc/self/fd/0').slice(0, 5))"}
CHILD_READS = {
    "python": "import subprocess, sys; sys.stdout.flush(); print(subprocess.run('readlink /proc/self/fd/0 | cut -c 1-5; cat',"
              " shell=True))",
    "javascript": "console.log(require('child_process').spawnSync('sh', ['-c', 'readlink /proc/self/fd/0 | cut -c 1-5;"
                  " cat'], {stdio: 'inherit'}).status)"}


@pytest.mark.parametrize("language", PROGRAMS)
def test_input_is_inherited_by_other_programs(sessions, language):
    assert_alike(sessions(language), CHILD_READS[language])
    assert_alike(sessions(language), CHILD_READS[language], stdin="some input\n")


@pytest.mark.parametrize("language", PROGRAMS)
def test_input_arguments_variables_and_files_are_the_programs(sessions, language):
    session = sessions(language)
    assert_alike(session, READS[language], stdin="some\0input\n" * 30000, arg=["a b", "", "-c", "é"])
    assert_alike(session, READS[language])
    assert_alike(session, KIND_OF_INPUT[language])
    assert_alike(session, KIND_OF_INPUT[language], stdin="")
    show = {"python": "import os; print(open('in/a').read(), os.environ['X'], sorted(os.environ)); open('new', 'w')",
            "javascript": "const fs = require('fs'); console.log(fs.readFileSync('in/a', 'utf8'), process.env.X,"
                          " Object.keys(process.env).sort()); fs.writeFileSync('new', '')"}
    result = assert_alike(session, show[language], file="in/a hello", env=["X=1=2", "Y="])
    assert "new" in result["files"]


@pytest.mark.parametrize("size", [10, 8000, 57000, 70000, 300000])
def test_a_program_of_any_length_is_the_one_that_is_run(sessions, size):
    code = f"x = '{'a' * size}'\nprint(len(x), len(open(__file__).read()))"
    assert_alike(sessions("python"), code)


def test_a_last_line_is_shown_alike(sessions):
    for language, lines in {"python": ["6 * 7", "x = 1", "1 / 0", "'a'; None"],
                            "javascript": ["6 * 7", "let x = 1", "throw 1", "await 5"]}.items():
        for code in lines:
            assert_alike(sessions(language), code, last_line=1)
        sessions(language).say(last_line=0)


@pytest.mark.parametrize("setting", ["TZ=Asia/Tokyo", "PYTHONHASHSEED=1", "LANG=C"])
def test_settings_that_an_interpreter_reads_at_its_start_start_it_cold(sessions, setting):
    code = "import os, sys, time; print(sorted(os.environ.items()), time.tzname, sys.flags, sys.stdout.encoding)"
    session = sessions("python")
    in_warm = warm(session, code, env=setting)
    assert not in_warm["warm"]
    assert without_addresses(in_warm) == without_addresses(cold(session, code, env=setting))


# ---- limits ----

LIMITS = {
    "time": ("print('a', flush=True)\nwhile True: pass", {"wall_ms": 300}, "timeout"),
    "processor time": ("print('a', flush=True)\nwhile True: pass", {"cpu_ms": 200}, "cpu_limit"),
    "memory": ("print('a', flush=True)\nx = []\nwhile True: x.append(bytes(1 << 20))", {"memory": 64 << 20},
               "memory_limit"),
    "output": ("while True: print('a' * 1000)", {"output_bytes": 100000}, "output_limit"),
    "file": ("open('a', 'wb').write(bytes(2 << 20))", {"file_bytes": 1 << 20}, "disk_limit"),
    "open files": ("import os\ntry:\n  while True: n = os.dup(0)\nexcept OSError: print(n + 1)", {"open_files": 40},
                   "exited"),
    "processes": ("import os, time\ntry:\n  for i in range(99):\n    os.fork() or time.sleep(9)\n"
                  "except OSError: print(i)", {"processes": 9}, "exited"),
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("when", ["made with the cell", "only of the run"])
def test_limits_hold(programs, name, when):
    code, limits, reason = LIMITS[name]
    with Session(programs, isolation="container", language="python") as session:
        session.make(**(limits if when == "made with the cell" else {}))
        in_warm = session.run(code, **limits)
        in_cold = cold(session, code, **limits)
    fixed = {"open_files", "processes", "file_bytes"} & set(limits)
    assert in_warm["warm"] == (0 if fixed and when == "only of the run" else 1)
    assert in_warm["reason"] == in_cold["reason"] == reason
    assert in_warm["code"] == in_cold["code"]
    if reason == "exited":
        assert in_warm["out"] == in_cold["out"]


def test_time_for_warming_is_not_the_programs(programs):
    """Here it takes longer than the run may."""
    with Session(programs, isolation="container", language="python", cpu_ms=20) as session:
        session.make()
        result = session.run("print(1)")
    assert (result["reason"], result["out"], result["warm"]) == ("exited", "1\n", 1)
    assert result["cpu_us"] < 20000


def test_all_output_comes(sessions):
    for size in (8191, 8192, 8193, 65536, 900000):
        result = assert_alike(sessions("python"), f"import sys; sys.stdout.write('x' * {size}); sys.stderr.write('y')")
        assert result["out"] == "x" * size


# ---- once ----

def test_a_driver_serves_once(sessions):
    session = sessions("python")
    session.make()
    assert [session.run("import sys; print(hasattr(sys, 'x')); sys.x = 1")[name] for name in ("warm", "out")] == [
        1, "False\n"]
    second = session.run("import sys; print(hasattr(sys, 'x'))")
    assert (second["warm"], second["out"]) == (0, "False\n")


def test_runs_in_different_cells_have_different_randomness(sessions):
    session = sessions("python")
    code = "import random, uuid; print(random.random(), uuid.uuid4(), hash('a'))"
    assert len({warm(session, code)["out"] for _ in range(3)}) == 3
    assert len({warm(sessions("javascript"), "console.log(Math.random())")["out"] for _ in range(3)}) == 3


def test_a_profile_has_its_modules_loaded(programs):
    look = "import sys; print('numpy' in sys.modules, 'csv' in sys.modules)"
    with Session(programs, isolation="container", language="python") as session:
        session.make(profile="data")
        assert session.run(look)["out"] == "True True\n"
        session.make(profile="plain")
        assert session.run(look)["out"] == "False True\n"
        assert "has no profile 'none'" in session.run("1", profile="none")["error"]


def test_a_driver_that_cannot_start_is_no_reason_to_fail(programs, tmp_path):
    """Its modules do not load within the cell's memory: the program does."""
    with Session(programs, isolation="container", language="python") as session:
        session.make(profile="data", memory=24 << 20)
        result = session.run("print(1)", memory=0)
    assert (result["warm"], result["out"], result["reason"]) == (0, "1\n", "exited")


def test_another_language_in_the_cell_starts_cold(programs):
    with Session(programs, isolation="container", language="python") as session:
        session.make()
        result = session.run("echo $((6 * 7)); ps 2>/dev/null | grep -c warm.py; ls /proc | grep -c '^[0-9]'", language="bash")
    assert not result["warm"]
    assert result["out"].startswith("42\n")


def test_what_a_run_leaves_running_ends_with_it(sessions):
    code = "import subprocess; subprocess.Popen(['sleep', '60']); print(1)"
    assert assert_alike(sessions("python"), code)["out"] == "1\n"
