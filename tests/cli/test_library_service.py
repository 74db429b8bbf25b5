"""libhotcell as a service uses it: in a loop of its own, with wardens that another one starts."""
import subprocess

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


def test_what_cannot_be_prepared_is_told(service):
    s = service("never-waits")
    assert s("prepare", "kotlinoid", "auto", "-")[0].startswith("error not_found unknown language")
    assert s("prepare", "python", "vm", "nosuch")[0].startswith("error not_found Python has no profile")
    assert s("prepare", "python", "container", "data")[0].startswith("error input profiles are for vm")


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
    assert s("run", "-", "sh", "container", "echo 1") == ["exited 0 cold 1\\n|"]


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
