"""Root, and cgroup version 2 as it is mounted by itself: what most machines have today."""
from guest import *


@check
def cgroup_version_2_is_mounted():
    mount_cgroup2()
    assert "memory" in (CGROUP / "cgroup.controllers").read_text()


@check
def doctor_finds_version_2_and_a_whole_container_isolation():
    code, rows = doctor()
    assert code == 0, rows
    for name in ("memory", "pids", "cpu time", "cpus"):
        assert rows[f"cgroup: {name}"]["detail"] == "version 2, writable", rows


@check
def a_cell_has_no_more_memory_than_its_limit():
    result = run("python", EAT_MEMORY, "--memory", "32M")
    assert result["reason"] == "memory_limit", result
    assert has_all_limits(result), result
    assert 30 << 20 < result["usage"]["peak_memory_bytes"] <= 32 << 20, result


@check
def files_in_memory_count_as_memory():
    result = run("sh", "exec head -c 64M /dev/zero >/tmp/x", "--memory", "16M", "--disk", "128M")
    assert result["reason"] == "memory_limit", result
    assert result["usage"]["peak_memory_bytes"] <= 16 << 20, result


@check
def a_cell_has_no_more_processes_than_its_limit():
    result = run("sh", FORK, "--pids", "8")
    assert "all" not in result["stdout"] and "fork" in result["stderr"], result
    assert result["usage"]["processes"] == 8 and has_all_limits(result), result


@check
def half_a_processor_is_half_a_processor():
    result = run("sh", SPIN, "--cpus", "0.5", "--cpu-time", "1s")
    assert result["reason"] == "cpu_limit" and has_all_limits(result), result
    assert result["usage"]["cpu_ms"] < 0.75 * result["duration_ms"], result


@check
def processor_time_of_all_processes_together_has_an_end():
    result = run("sh", f"{SPIN} & {SPIN} & wait", "--cpu-time", "1s")
    assert result["reason"] == "cpu_limit" and has_all_limits(result), result
    assert result["usage"]["cpu_ms"] >= 1000, result


@check
def what_a_run_used_is_told():
    usage = run("sh", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0 | sleep 0")["usage"]
    assert usage["cpu_ms"] > 0 and usage["processes"] >= 2, usage
    assert 100_000 < usage["peak_memory_bytes"] < 100_000_000, usage


@check
def the_limits_stand_in_a_group_of_the_cells_own():
    with Running("--memory", "48M", "--pids", "9", "--cpus", "1.5") as cell:
        assert cell.group in groups()
        limits = {name: (cell.group / name).read_text().split()
                  for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
        inside = {int(pid) for pid in (cell.group / "cgroup.procs").read_text().split()}
        assert {cell.keeper, cell.program} <= inside and cell.warden not in inside
    quota, period = (int(n) for n in limits.pop("cpu.max"))
    assert quota == 1.5 * period
    # One more process: the keeper.
    assert limits == {"memory.max": [str(48 << 20)], "memory.swap.max": ["0"], "pids.max": ["10"]}
    no_group_is_left()


@check
def a_cell_sees_its_own_group_as_the_top_and_cannot_touch_it():
    result = run("sh", "cat /proc/self/cgroup; ls /sys 2>&1; grep -c cgroup /proc/mounts")
    assert result["stdout"].splitlines()[0] == "0::/", result
    assert result["stdout"].splitlines()[-1] == "0", result


@check
def a_compiler_has_limits_of_its_own():
    code = "int puts(const char *); int main(void) { puts(\"made\"); return 3; }"
    # Less than the compiler takes, more than the program does.
    result = run("c", code, "--memory", "8M")
    assert (result["stdout"], result["exit_code"]) == ("made\n", 3), result
    assert has_all_limits(result), result


@check
def cells_at_the_same_time_have_groups_of_their_own():
    with Running() as one, Running() as other:
        assert one.group != other.group
        assert {one.group, other.group} <= set(groups())
    no_group_is_left()


@check
def what_a_killed_warden_left_is_swept_and_what_others_have_is_not():
    with Running() as other:
        with Running() as cell:
            cell.kill(cell.warden)
            assert finish(cell.process).code == EXIT_HOTCELL
            wait_until(lambda: not is_alive(cell.program), "that the program has died too")
            assert cell.group.is_dir()
        assert run("sh", "echo next")["stdout"] == "next\n"
        wait_until(lambda: not cell.group.exists(), "that the group is swept")
        assert is_alive(other.program) and other.group.is_dir()
    no_group_is_left()


@check
def nothing_outlives_a_hotcell_and_a_warden_that_are_killed_at_once():
    with Running(code="setsid sleep 1000 & echo up; sleep 1000") as cell:
        inside = [int(pid) for pid in (cell.group / "cgroup.procs").read_text().split()]
        assert len(inside) >= 3, inside
        cell.kill(cell.hotcell, cell.warden)
        finish(cell.process)
        wait_until(lambda: not any(map(is_alive, inside)), "that all have died")
    run("sh", ":")
    no_group_is_left()


@check
def a_process_cell_has_limits_and_leaves_nothing():
    result = run("python", EAT_MEMORY, "--memory", "32M", "--isolation", "process")
    assert result["reason"] == "memory_limit", result
    assert not [t for t in result["limits_not_enforced"] if t.startswith(("memory", "cpu"))], result
    result = run("sh", "setsid sleep 4321 >/dev/null 2>&1 & echo $!", "--isolation", "process")
    assert result["stdout"].strip().isdigit(), result
    assert not is_alive(int(result["stdout"])), result
    no_group_is_left()
