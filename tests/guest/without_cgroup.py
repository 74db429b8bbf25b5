"""No cgroup file system, as in many containers: limits are watched, and hotcell says so."""
from guest import *


@check
def no_cgroup_is_mounted():
    unmount_cgroup2()
    assert not (CGROUP / "cgroup.procs").exists()


@check
def doctor_says_that_no_cgroup_is_mounted():
    for user in (ROOT, NOBODY):
        code, rows = doctor(user=user)
        assert code == 1, rows
        assert "no cgroup file system is mounted" in rows["cgroup: memory"]["detail"], rows
        assert rows["container cell"]["state"] == "fine", rows


@check
def soft_limits_are_listed():
    for user in (ROOT, NOBODY):
        result = run("sh", "echo hi", user=user)
        assert result["stdout"] == "hi\n" and is_soft(result), result


@check
def a_program_that_takes_too_much_memory_is_ended():
    for user in (ROOT, NOBODY):
        result = run("python", EAT_MEMORY, "--memory", "32M", user=user)
        assert result["reason"] == "memory_limit", result


@check
def a_process_cell_that_takes_too_much_memory_is_ended():
    result = run("python", EAT_MEMORY, "--memory", "32M", "--isolation", "process", user=NOBODY)
    assert result["reason"] == "memory_limit", result


@check
def a_program_that_takes_too_much_processor_time_is_ended():
    for user in (ROOT, NOBODY):
        result = run("sh", f"{SPIN} & {SPIN} & wait", "--cpu-time", "1s", user=user)
        assert result["reason"] == "cpu_limit", result


@check
def a_cell_has_no_more_processes_than_its_limit_without_a_cgroup():
    for user in (ROOT, NOBODY):
        result = run("sh", FORK, "--pids", "8", user=user)
        assert "all" not in result["stdout"] and "fork" in result["stderr"], result


@check
def a_share_of_the_processors_is_refused_with_the_reason():
    for user in (ROOT, NOBODY):
        result = hotcell("run", "--cpus", "0.5", "-l", "sh", "-c", "echo hi", user=user)
        assert result.code == EXIT_HOTCELL and result.out == "", result
        assert "cpus" in result.err and "no cgroup file system is mounted" in result.err, result
