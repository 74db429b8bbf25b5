"""Whatever is killed, and whenever: no process, mount, cgroup or directory is left. What no process
could clear any more, the next start does."""
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import harness
import pytest

ROUNDS = 30

# Has children and grandchildren in sessions of their own, files, and ignores what it may.
BUSY = """
trap '' INT TERM HUP
echo x >~/file; echo x >file
setsid sh -c 'trap "" INT TERM HUP; sleep 1000 & sleep 1000' "$1" &
sh -c 'sleep 1000' "$1" &
while :; do sleep 1000; done
"""


def wardens(process):
    """The only children of a hotcell."""
    return list(harness.children_of(process.pid))


def all_gone(private, word):
    return not harness.pids_below(private.where) and not harness.pids_with(word)


def leftovers():
    return harness.orphaned_cgroups() | harness.orphaned_directories()


@pytest.fixture
def busy(private, isolation):
    """Starts a busy cell; returns the process and the word on its command line."""

    def start():
        word = harness.token()
        return private.start("run", "-q", "-l", "sh", "-c", BUSY, "--isolation", isolation,
                             "--arg", word, "--timeout", "60s"), word

    return start


def mounts_of_hotcell():
    places = ("/tmp", "/var/tmp", "/mnt", "/run", "/usr", "/etc")
    return {line for line in harness.mounts()
            if line.split()[4] in places or "hotcell" in line}


@pytest.mark.parametrize("victim", ["hotcell", "warden", "both"])
def test_kill_9_at_any_moment_leaves_nothing(private, busy, isolation, victim):
    mounts = mounts_of_hotcell()
    choose = random.Random(f"{victim} {isolation}")
    for round in range(ROUNDS):
        process, word = busy()
        time.sleep(choose.uniform(0, 0.05))
        if victim in ("warden", "both"):
            for pid in wardens(process):
                harness.kill(pid)
        if victim in ("hotcell", "both"):
            process.kill()
        process.communicate(timeout=harness.PATIENCE_S) if victim != "warden" else wait_or_end(process)
        harness.wait_until(lambda: all_gone(private, word), f"nothing runs after round {round}")
    assert mounts_of_hotcell() == mounts
    before = leftovers()
    assert private.run("-q", "-l", "sh", "-c", "echo works", "--isolation", isolation).out == "works\n"
    harness.wait_until(lambda: not harness.pids_below(private.where), "the last one has ended")
    assert before & leftovers() == set(), "the next start sweeps"


def wait_or_end(process):
    """With the warden gone hotcell must end by itself; if the warden was not yet born when we looked,
    the program runs on, and is ended as a user would."""
    try:
        process.wait(0.3)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=harness.PATIENCE_S)


def test_a_killed_hotcell_is_cleared_by_its_warden(private, busy, isolation):
    """Not only by the next start: a machine on which none follows must be clean too."""
    for _ in range(5):
        process, word = busy()
        pid = harness.program_pid(word)
        named = {f"hotcell-{os.stat('/proc/self/ns/pid').st_ino}-{warden}-" for warden in wardens(process)}
        assert named
        groups = [path for path in harness.cgroups_of(pid).values() if "hotcell-" in str(path)]
        process.kill()
        process.wait()
        harness.wait_until(lambda: all_gone(private, word), "nothing runs")
        assert not any(group.exists() for group in groups)
        assert [path for path in Path("/tmp").glob("hotcell-*")
                if any(path.name.startswith(name) for name in named)] == []


def test_a_killed_warden_is_told_and_its_cell_dies(private, busy, isolation):
    process, word = busy()
    harness.program_pid(word)
    for pid in wardens(process):
        harness.kill(pid)
    _, err = process.communicate(timeout=harness.PATIENCE_S)
    assert process.returncode == 125
    assert b"warden ended unexpectedly" in err or b"cell_failed" in err
    harness.wait_until(lambda: all_gone(private, word), "nothing runs")


def test_a_killed_keeper_is_told_and_leaves_nothing(private, busy, isolation):
    process, word = busy()
    harness.program_pid(word)
    keepers = [pid for warden in wardens(process) for pid in harness.children_of(warden)
               if harness.read(f"/proc/{pid}/comm") == b"keeper\n"]
    assert keepers
    for pid in keepers:
        harness.kill(pid)
    _, err = process.communicate(timeout=harness.PATIENCE_S)
    assert process.returncode == 125
    harness.wait_until(lambda: all_gone(private, word), "nothing runs")


@pytest.mark.needs_root("only root may write cgroups here")
def test_what_a_dead_warden_left_in_cgroups_is_swept(hotcell):
    """Made by hand, with a process in it, as after a crash of everything at once."""
    dead = subprocess.Popen(["true"])
    started = Path(f"/proc/{dead.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    dead.wait()
    name = f"hotcell-{os.stat('/proc/self/ns/pid').st_ino}-{dead.pid}-{started}-1"
    groups = harness.cgroups_of(os.getpid())
    places = [groups[one] for one in ("memory", "pids", "cpuacct", "cpu") if one in groups] or [groups[""]]
    for place in places:
        (place / name).mkdir()
    orphan = subprocess.Popen(["sleep", "1000"])
    (places[0] / name / "cgroup.procs").write_text(str(orphan.pid))
    assert hotcell.run("-l", "sh", "-c", "echo works").out == "works\n"
    try:
        assert orphan.wait(harness.PATIENCE_S) == -signal.SIGKILL
    finally:
        orphan.kill()
    harness.wait_until(
        lambda: hotcell.run("-l", "sh", "-c", "").code == 0
        and not any((place / name).exists() for place in places), "all of it is swept")


def test_what_a_dead_warden_left_in_tmp_is_swept(anyone):
    dead = subprocess.Popen(["true"])
    started = Path(f"/proc/{dead.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    dead.wait()
    path = Path(f"/tmp/hotcell-{os.stat('/proc/self/ns/pid').st_ino}-{dead.pid}-{started}-0")
    (path / "workspace/deep").mkdir(parents=True)
    (path / "workspace/deep/file").write_text("x")
    if anyone.user:
        subprocess.run(["chown", "-R", str(anyone.user), path], check=True)
    assert anyone.run("-q", "--isolation", "process", "-l", "sh", "-c", "echo works").out == "works\n"
    assert not path.exists()


def test_what_lives_is_not_swept(anyone, isolation):
    """Nor what only looks like ours."""
    alike = Path(f"/tmp/hotcell-mine-{harness.token()}")
    alike.mkdir()
    other = anyone.start("run", "-q", "-l", "sh", "--stdin", "-", "-c", "read x; echo x >f && echo $x",
                         "--isolation", isolation, stdin=subprocess.PIPE)
    for _ in range(3):
        assert anyone.run("-q", "-l", "sh", "-c", "echo works", "--isolation", isolation).out == "works\n"
    assert other.communicate(b"alive\n", timeout=harness.PATIENCE_S)[0] == b"alive\n"
    assert alike.exists()
    alike.rmdir()


@pytest.mark.needs_root("somebody else's directory can be made by root only")
def test_a_user_does_not_sweep_what_is_somebody_elses(nobody):
    """In a /tmp of its own: root, who sweeps everything, may run beside us."""
    dead = subprocess.Popen(["true"])
    started = Path(f"/proc/{dead.pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    dead.wait()
    path = f"/tmp/hotcell-{os.stat('/proc/self/ns/pid').st_ino}-{dead.pid}-{started}-0"
    script = f"""
mount -t tmpfs -o mode=1777 tmpfs /tmp && mkdir -m 777 {path} && echo x >{path}/file &&
setpriv --reuid={harness.NOBODY} --regid={harness.NOBODY} --clear-groups "$@" && cat {path}/file"""
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *nobody.command(
            "run", "-q", "--isolation", "process", "-l", "sh", "-c", "echo works")],
        capture_output=True, text=True, env=nobody.env, cwd="/")
    assert result.stdout == "works\nx\n", result


def test_sigint_at_any_moment_ends_it(private, isolation):
    choose = random.Random(isolation)
    for _ in range(ROUNDS):
        word = harness.token()
        process = private.start("run", "-q", "-l", "sh", "-c", BUSY, "--isolation", isolation,
                                "--arg", word)
        time.sleep(choose.uniform(0, 0.05))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=harness.PATIENCE_S)
        # Before it listens, the signal ends it as it ends any program.
        assert process.returncode in (130, -signal.SIGINT)
        harness.wait_until(lambda: all_gone(private, word), "nothing runs")


def test_runs_in_a_row_leave_nothing(private, isolation):
    mounts = mounts_of_hotcell()
    for _ in range(10):
        assert private.run("-q", "-l", "sh", "-c", "sleep 1000 & echo x >f",
                           "--isolation", isolation).code == 0
    harness.wait_until(lambda: not harness.pids_below(private.where), "nothing runs")
    assert mounts_of_hotcell() == mounts
    assert sorted(path.name for path in private.home.rglob("*") if path.is_file()) in ([], ["probes"])
