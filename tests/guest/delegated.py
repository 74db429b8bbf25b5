"""cgroup version 2, but not at its top: groups given to an ordinary user, and containers."""
import json
from contextlib import contextmanager

from guest import *


def limits_are_held(**who):
    result = run("python", EAT_MEMORY, "--memory", "32M", "--pids", "20", "--cpus", "2", **who)
    assert result["reason"] == "memory_limit" and has_all_limits(result), result


@check
def without_a_group_of_its_own_an_ordinary_user_is_told_that_limits_are_soft():
    assert is_soft(run("sh", "echo hi", user=NOBODY))
    code, rows = doctor(user=NOBODY)
    assert code == 1 and "may be written" in rows["cgroup: memory"]["detail"], rows


@check
def an_ordinary_user_alone_in_a_group_of_its_own_has_all_limits():
    limits_are_held(user=NOBODY, group=make_group("alone", owner=NOBODY))
    no_group_is_left()


@check
def whoever_stepped_aside_once_does_not_step_aside_again():
    # Where a program that opens hotcell for the second time is.
    aside = CGROUP / "alone" / "hotcell-main"
    limits_are_held(user=NOBODY, group=aside)
    assert not (aside / "hotcell-main").exists()
    no_group_is_left()


@contextmanager
def a_login():
    """Two groups of an ordinary user, the lower one with a process that stays, as a shell does."""
    session = CGROUP / "session"
    shell = session / "shell"
    if not session.exists():
        make_group("session", owner=NOBODY)
        make_group("session/shell", owner=NOBODY)
    resident = start("sleep", "1000", user=NOBODY, group=shell)
    wait_until(lambda: str(resident.pid) in (shell / "cgroup.procs").read_text().split(),
               "that the shell is in its group")
    try:
        yield {"user": NOBODY, "group": shell}
        no_group_is_left()
        # Not even one to step aside into.
        assert [path for path in session.rglob("*") if path.is_dir()] == [shell]
    finally:
        resident.kill()
        finish(resident)


@check
def an_ordinary_user_in_a_group_below_its_own_has_all_limits():
    with a_login() as who:
        limits_are_held(**who)
        with Running(**who) as cell:
            assert cell.group.parent == CGROUP / "session"


@check
def half_a_processor_is_half_a_processor_for_an_ordinary_user_too():
    with a_login() as who:
        result = run("sh", SPIN, "--cpus", "0.5", "--cpu-time", "1s", **who)
    assert result["reason"] == "cpu_limit" and has_all_limits(result), result
    assert result["usage"]["cpu_ms"] < 0.75 * result["duration_ms"], result


@check
def what_a_killed_warden_of_an_ordinary_user_left_is_swept():
    with a_login() as who:
        with Running(**who) as cell:
            cell.kill(cell.hotcell, cell.warden)
            finish(cell.process)
            wait_until(lambda: not is_alive(cell.program), "that the program has died too")
        assert groups() == [cell.group]
        run("sh", ":", **who)


@check
def others_in_the_only_group_are_left_where_they_are():
    shared = make_group("shared", owner=NOBODY)
    script = f"{HOTCELL} run --json -l sh -c 'echo hi'; cat /proc/$$/cgroup"
    result = finish(start("sh", "-c", script, user=NOBODY, group=shared))
    assert "0::/shared\n" in result.out and "(soft)" in result.out, result
    assert not [path for path in shared.iterdir() if path.is_dir()]


@check
def a_group_without_the_memory_controller_is_not_taken_for_one_with_it():
    make_group("poor", controllers="+pids")
    result = run("sh", "echo hi", user=NOBODY, group=make_group("poor/own", owner=NOBODY))
    assert is_soft(result), result


def run_in_container(name, mounted):
    """As container engines do it: the top of the namespace is a group with the container in it."""
    script = (f"umount {CGROUP} && mount -t cgroup2 -o {mounted} cgroup2 {CGROUP} && "
              f"grep -q ' {CGROUP} cgroup2 {mounted},' /proc/mounts && exec "
              f"{HOTCELL} run --json --memory 32M -l sh -c 'exec head -c 64M /dev/zero >/tmp/x'")
    result = finish(start("unshare", "--mount", "--cgroup", "sh", "-c", script,
                          group=make_group(name)))
    assert result.out, result
    return json.loads(result.out)


@check
def in_a_container_limits_are_held():
    result = run_in_container("container", "rw")
    assert result["reason"] == "memory_limit" and has_all_limits(result), result
    no_group_is_left()


@check
def in_a_container_that_sees_its_cgroups_read_only_limits_are_held():
    result = run_in_container("readonly", "ro")
    assert result["reason"] == "memory_limit" and has_all_limits(result), result
    no_group_is_left()
