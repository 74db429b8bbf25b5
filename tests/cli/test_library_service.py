"""libhotcell as a service uses it: in a loop of its own, with wardens that another one starts."""
import os
import subprocess
from pathlib import Path

import harness
import pytest


class Service:
    """library/service, and what it answers to a command."""

    def __init__(self, programs, *options):
        self.process = subprocess.Popen([programs / "service", *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __call__(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        lines = iter(self.process.stdout.readline, ".\n")
        answer = []
        for line in lines:
            assert line, f"it ended: {answer}"
            answer.append(line.rstrip("\n"))
        return answer

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(harness.PATIENCE_S) == 0


@pytest.fixture
def service(programs):
    started = []

    def start(*options):
        started.append(Service(programs, *options))
        return started[-1]

    yield start
    for one in started:
        one.close()


# ---- preparing ----


def test_an_engine_that_never_waits_starts_cold_until_it_is_prepared(service):
    s = service("never-waits")
    assert s("run", "-", "python", "vm", "print(1)") == ["exited 0 cold 1\\n|"]
    assert s("prepare", "python", "vm", "-") == ["prepared"] * 2
    assert s("run", "-", "python", "vm", "print(1)") == ["exited 0 warm 1\\n|"]


def test_an_engine_that_never_waits_asks_nobody_for_versions(service):
    s = service("never-waits")
    assert {line.split(" ", 1)[1] for line in s("languages")} == {"-"}
    assert s("prepare", "python", "container", "-") == ["prepared"] * 2
    known = dict(line.split(" ", 1) for line in s("languages"))
    assert known.pop("python").startswith("Python 3")
    assert set(known.values()) == {"-"}


def test_a_preparation_that_is_given_up_leaves_its_snapshot_to_who_waits_for_it(service):
    s = service("never-waits")
    assert s("give-up", "python", "vm") == ["error gone it was given up", "prepared"]
    assert s("run", "-", "python", "vm", "print(1)") == ["exited 0 warm 1\\n|"]


def test_a_snapshot_in_memory_takes_no_more_than_there_is_in_it(service):
    s = service("never-waits")
    assert s("prepare", "python", "vm", "-") == ["prepared"] * 2
    held = [os.stat(fd) for fd in Path(f"/proc/{s.process.pid}/fd").iterdir() if "hotcell-snapshot" in os.readlink(fd)]
    assert len(held) == 1
    assert held[0].st_blocks * 512 < held[0].st_size * 3 / 4, "its holes are filled"


def test_what_cannot_be_prepared_is_told(service):
    s = service("never-waits")
    assert s("prepare", "kotlinoid", "auto", "-")[0].startswith("error not_found unknown language")
    assert s("prepare", "python", "vm", "nosuch")[0].startswith("error not_found Python has no profile")
    assert s("prepare", "python", "process", "data")[0].startswith("error input profiles are for vm and container")


# ---- wardens ----


@pytest.mark.parametrize("isolation", ["container", "vm", "process"])
def test_another_one_may_start_the_wardens(service, isolation):
    s = service("start-warden")
    assert s("run", "-", "sh", isolation, "echo 1") == ["exited 0 cold 1\\n|"]
    s("make", 0, "sh", isolation)
    assert s("state", 0) == [f"ready {isolation} -"]


def test_whether_there_is_kvm_is_told_by_who_starts_the_wardens(service):
    s = service("start-warden", "no-kvm")
    s("make", 0, "python", "auto")
    assert s("state", 0) == ["ready container -"]


def test_the_cells_of_a_dead_warden_are_gone_and_another_is_started(service):
    s = service("start-warden", "never-waits")
    s("make", 0, "sh", "container")
    assert s("state", 0) == ["ready container -"]
    s("kill-wardens")
    assert s("run", 0, "sh", "container", "echo 1")[0].startswith(("error gone", "cell_failed"))
    assert s("state", 0) == ["gone container hotcell-warden ended unexpectedly"]
    assert s("well") == ["no"]
    assert s("run", "-", "sh", "container", "echo 1") == ["exited 0 cold 1\\n|"]


def test_an_engine_is_well_again_when_its_wardens_were_started_again(service):
    s = service("start-warden", "no-kvm")
    assert s("well") == ["yes"]
    assert s("run", "-", "sh", "container", "echo 1") == ["exited 0 cold 1\\n|"]
    s("kill-wardens")
    s("turn")
    assert s("well") == ["no"]
    assert s("run", "-", "sh", "container", "echo 1") == ["exited 0 cold 1\\n|"]
    assert s("well") == ["yes"]


# ---- languages ----


def test_languages_tell_what_a_service_wants_to_know(service):
    s = service("never-waits")
    known = {line.split()[0]: line.split(" ", 1)[1] for line in s("languages", "all")}
    assert known["python"] == "- installed vm keeps-state profiles plain data aliases py python3 extensions .py .pyw"
    assert known["c"].startswith("- installed vm compiles profiles aliases"), known["c"]
    assert "installed" in known["sh"].split()


# ---- files of a run ----


@pytest.mark.parametrize("isolation", ["container", "vm", "process"])
def test_generated_files_go_where_the_caller_says(service, isolation):
    s = service()
    code = ("mkdir d; printf one >d/one; ln -s d/one link; : >empty; printf x >unwanted; printf y >full;"
            " truncate -s 1M hole")
    answer = s("take", "-", "sh", isolation, code)
    assert answer[0] == "exited 0 cold |"
    assert sorted(answer[1:]) == sorted([
        "d directory 0 1 -", "d/one file 3 1 - 3 one", "link symlink 0 1 -", "empty file 0 1 - 0 ",
        "unwanted file 1 1 -", "full file 1 1 ENOSPC 0 ", "hole file 1048576 1 - 1048576 "])


# ---- pausing ----


@pytest.mark.parametrize("isolation", ["container", "process"])
@pytest.mark.parametrize("how, comes", [("resume", "exited more all"), ("cancel", "cancelled more cut"),
                                        ("late", "timeout more cut")])
def test_a_paused_program_waits(service, isolation, how, comes):
    s = service()
    s("make", 0, "sh", isolation)
    assert s("pause", 0, isolation, 4000000, how) == [f"waited {comes}"]
    assert s("run", 0, "sh", isolation, "echo 1") == ["exited 0 cold 1\\n|"]


# ---- files of a cell ----

EVERYWHERE = pytest.mark.parametrize("isolation", ["container", "vm", "process"])


@EVERYWHERE
def test_files_are_put_listed_got_and_removed(service, isolation, tmp_path):
    s = service()
    s("make", 0, "sh", isolation)
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "host").write_text("of the host\n")
    assert s("put", 0, "a/b", "one") == []
    assert s("put-host", 0, "dir", tmp_path / "from") == []
    assert sorted(s("list", 0)) == ["a directory 0 -", "a/b file 3 -", "dir directory 0 -", "dir/host file 12 -"]
    assert s("get", 0, "dir/host", 0) == ["dir/host file 12 - 12 of the host\\n"]
    assert s("get", 0, "a/b", 3) == ["a/b file 3 - 3 one"]
    assert s("remove", 0, "a") == []
    assert sorted(s("list", 0)) == ["dir directory 0 -", "dir/host file 12 -"]


@EVERYWHERE
def test_programs_find_what_was_put_and_what_they_made_is_new(service, isolation):
    s = service()
    s("make", 0, "sh", isolation)
    s("put", 0, "data", "one")
    s("put", 0, "same", "same")
    assert s("run", 0, "sh", isolation, "cat data; echo two >data; echo 3 >made") == ["exited 0 cold one|"]
    assert s("run", 0, "sh", isolation, "cat data made; mkdir d") == ["exited 0 cold two\\n3\\n|"]
    assert [line for line in sorted(s("list", 0)) if "main" not in line] == [
        "d directory 0 new", "data file 4 new", "made file 2 new", "same file 4 -"]


def test_the_next_run_of_a_warm_machine_finds_what_was_put(service):
    s = service()
    s("make", 0, "python", "vm")
    assert s("run", 0, "python", "vm", "print(1)") == ["exited 0 warm 1\\n|"]
    s("put", 0, "data", "one")
    s("put", 0, "helper.py", "x=7")
    assert s("run", 0, "python", "vm", "import helper; print(helper.x, open('data').read())") == ["exited 0 warm 7 one\\n|"]
    assert s("run", 0, "python", "vm", "import os; print(os.listdir())") == ["exited 0 warm ['main.py']\\n|"]
    assert s("run", 0, "python", "vm", "print(1)") == ["exited 0 warm 1\\n|"]


def test_a_machine_of_another_profile_finds_what_was_put_too(service):
    s = service()
    s("make", 0, "python", "vm")
    s("put", 0, "data", "one")
    # Its words ask for the profile that has numpy loaded: another machine than the one that waits.
    code = "import numpy; print(open('data').read())"
    assert s("run", 0, "python", "vm", code) == ["exited 0 warm one\\n|"]
    assert s("run", 0, "python", "vm", "import os; print(os.listdir())") == ["exited 0 warm ['main.py']\\n|"]


@EVERYWHERE
def test_what_cannot_be_done_with_files_is_told_in_kind(service, isolation):
    s = service()
    s("make", 0, "sh", isolation)
    s("put", 0, "d/f", "x")
    s("run", 0, "sh", isolation, "ln -s d link; ln -s d/f to; mkfifo p")
    assert s("get", 0, "nothing", 0) == ["error not_found there is no file 'nothing'"]
    for path in ("d", "to", "p"):
        assert s("get", 0, path, 0) == [f"error input '{path}' is not a regular file"]
    assert s("get", 0, "link/f", 0)[0].startswith("error input")
    s("put", 0, "d/f", "1234")
    assert s("get", 0, "d/f", 3) == ["error limit 'd/f' is larger than 3 bytes"]
    assert s("get", 0, "d/f", 0, "full") == ["error system write what is in 'd/f': No space left on device"]
    for path in ("", ".", "..", "/etc", "a/../..", "d/", "d//f"):
        assert s("remove", 0, path)[0].startswith("error input"), path
        assert s("get", 0, path, 0)[0].startswith("error input"), path
        assert s("put", 0, path, "x")[0].startswith("error input"), path
    assert s("remove", 0, "nothing")[0].startswith("error not_found")
    assert s("remove", 0, "d/f/x")[0].startswith("error not_found")
    assert s("remove", 0, "link/f")[0].startswith("error input")
    assert s("put", 0, "d/f/x", "x")[0].startswith("error input")
    assert s("put", 0, "link/x", "x")[0].startswith("error input")
    assert s("put", 0, "d", "x")[0].startswith("error input")
    assert s("put-host", 0, "x", "/no/such/file")[0].startswith("error system")
    assert s("run", 0, "sh", isolation, "cat d/f; ls") == ["exited 0 cold 1234d\\nlink\\nmain.sh\\np\\nto\\n|"]


@pytest.mark.parametrize("isolation", ["container", "vm"])
def test_a_full_disk_is_a_limit_and_the_cell_lives_on(service, isolation):
    s = service()
    s("make", 0, "sh", isolation)
    assert s("put-many", 0, "f", 5, 4000000)[0].startswith("error limit")
    s("remove", 0, "f0")
    assert s("put", 0, "small", "x") == []
    assert s("run", 0, "sh", isolation, "cat small") == ["exited 0 cold x|"]


@EVERYWHERE
def test_what_is_cancelled_leaves_nothing_for_who_comes_next(service, isolation):
    s = service()
    s("make", 0, "sh", isolation)
    assert s("cancel-put", 0, "f", 3, 3000000) == ["error gone it was cancelled"]
    assert s("put", 0, "large", "x" * 3000000) == []
    assert s("cancel-get", 0, "large", 0) == ["error gone it was cancelled"]
    assert s("get", 0, "large", 0) == ["large file 3000000 - 3000000 "]
    assert s("run", 0, "sh", isolation, "wc -c <large") == ["exited 0 cold 3000000\\n|"]


def test_a_directory_of_any_depth_is_removed(service):
    s = service()
    s("make", 0, "python", "container")
    code = "import os\\nfor i in range(450):\\n  os.mkdir('d'); os.chdir('d'); open('f', 'w')"
    assert s("run", 0, "python", "container", code) == ["exited 0 cold |"]
    assert s("list", 0)[-1] == "and more"
    assert s("remove", 0, "d") == []
    assert [line.split()[0] for line in s("list", 0)] == ["main.py"]


def test_a_cell_that_is_gone_or_busy_serves_no_files(service):
    s = service("start-warden")
    s("make", 0, "sh", "container")
    assert s("state", 0) == ["ready container -"]
    s("kill-wardens")
    assert s("list", 0)[0].startswith("error gone")
    assert s("list", 0) == ["error gone hotcell-warden ended unexpectedly"]


# ---- one cell for many ----


@pytest.mark.parametrize("isolation", ["container", "vm"])
def test_input_that_a_run_left_unread_does_not_hold_up_the_next(service, isolation):
    s = service()
    s("make", 0, "python", isolation)
    leave = "import os; print(sorted(os.listdir())); open('left', 'w')"
    answers = [s("feed", 0, "python", isolation, leave)[0].split(" ", 3) for _ in range(3)]
    assert [answer[:2] for answer in answers] == [["exited", "0"]] * 3
    first, second = "['main.py']\\n|", "['left', 'main.py']\\n|" if isolation == "container" else "['main.py']\\n|"
    assert [answer[3] for answer in answers] == [first, second, second]
