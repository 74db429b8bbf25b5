"""Containers that were started with what doctor asks for: there a cell is a cell."""
import json
import os
import time
import uuid
from pathlib import Path

import pytest

from engines import PATIENCE_S, USER

# What each needs of the container to build cells in it.
FLAGS = {
    "root": ["--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined",
             "--security-opt", "apparmor=unconfined"],
    "user": ["--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
             "--security-opt", "systempaths=unconfined", *USER["user"]],
}

LOOK_AROUND = r"""
import json, os, socket
status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
masked = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger"]
print(json.dumps({
    "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "secret": os.path.exists("/secret") or os.path.exists("/.dockerenv"),
    "environment": "SECRET" in os.environ,
    "capabilities": [int(status[f"Cap{which}"], 16) for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
    "uid": os.getuid(),
    "no_new_privs": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "name": socket.gethostname(),
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "masked": [path for path in masked if os.path.exists(path) and os.path.getsize(path)],
    "writable": [path for path in ("/usr", "/etc", "/proc/sys/kernel/hostname")
                 if os.access(path, os.W_OK)],
}))
"""


def wait_until(condition, what):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"it never came true that {what}"
        time.sleep(0.01)


def processes_with(word):
    """Processes of the machine that have `word` on their command line, containers' included."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def sleeper():
    """Arguments of a hotcell whose program sleeps, and a word that only they have."""
    word = f"sleeper-{uuid.uuid4().hex}"
    return word, ["hotcell", "run", "--json", "-l", "python", "--arg", word, "--timeout", "1h",
                  "-c", "import time; print('up', flush=True); time.sleep(3600)"]


def program_of(word):
    """The sleeping program's pid, as the machine sees it."""
    def look():
        return [pid for pid in processes_with(word)
                if Path(f"/proc/{pid}/comm").read_text().startswith("python")]

    wait_until(look, "the program sleeps")
    return look()[0]


# ---- the wall ----


def test_a_cell_is_a_cell(engine, who, place):
    secret = ["--env", "SECRET=1", "--volume", f"{place.secret}:/secret:ro"]
    result = engine.run([*FLAGS[who], *secret], "hotcell", "run", "-l", "python", "-c", LOOK_AROUND)
    assert result.code == 0, result
    seen = json.loads(result.out)
    assert seen.pop("pids")[0] == 1 and len(json.loads(result.out)["pids"]) == 2, result.out
    assert seen == {
        "secret": False, "environment": False, "capabilities": [0, 0, 0, 0, 0], "uid": 1000,
        "no_new_privs": "1", "seccomp": "2", "name": "cell", "interfaces": ["lo"], "masked": [],
        "writable": [],
    }


def test_no_capability_is_needed_by_root_either(engine):
    flags = [*FLAGS["user"][:-len(USER["user"])]]
    result = engine.run(flags, "hotcell", "run", "-l", "python", "-c", "print(6 * 7)")
    assert (result.code, result.out) == (0, "42\n"), result


def test_the_containers_own_walls_may_stay_tight(docker):
    flags = [*FLAGS["user"], "--read-only", "--cap-drop", "ALL",
             "--security-opt", "no-new-privileges"]
    result = docker.run(flags, "hotcell", "run", "-l", "python", "-c", "print(6 * 7)")
    assert (result.code, result.out) == (0, "42\n"), result


def test_podmans_own_filter_may_stay(engine):
    """It allows what a cell is built with, where docker's does not."""
    profile = "/usr/share/containers/seccomp.json"
    assert os.path.exists(profile), f"{profile} is missing (package golang-github-containers-common)"
    flags = ["--cap-add", "SYS_ADMIN", "--security-opt", f"seccomp={profile}",
             "--security-opt", "apparmor=unconfined"]
    result = engine.run(flags, "hotcell", "run", "-l", "python", "-c", "print(6 * 7)")
    assert (result.code, result.out) == (0, "42\n"), result


def test_a_privileged_container_is_whole(podman):
    """Not docker's: that wants every capability there is, which not every machine's root has."""
    result = podman.run(["--privileged"], "hotcell", "doctor", "--json")
    assert json.loads(result.out)["whole"] and result.code == 0, result


# ---- limits ----

EATER = ["hotcell", "run", "--json", "-l", "python", "-c", "x = bytearray(400 << 20)"]


def test_limits_are_hard_for_root(rootful):
    result = rootful.json(FLAGS["root"], *EATER, "--memory", "64M", "--cpus", "0.5")
    assert result["reason"] == "memory_limit", result
    assert result["limits_not_enforced"] == [], result


def test_what_is_soft_for_a_user_is_said(engine):
    result = engine.json(FLAGS["user"], *EATER, "--memory", "64M")
    assert result["reason"] == "memory_limit", result
    assert any(text.startswith("memory") for text in result["limits_not_enforced"]), result
    refused = engine.run(FLAGS["user"], *EATER, "--cpus", "0.5")
    assert refused.code == 125 and "cpus" in refused.err, refused


def groups_of(pid):
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines}


def container_and_cell(engine, flags):
    """The groups of a container's first process, and those of the program in a cell of it."""
    word, argv = sleeper()
    name = engine.start(flags, *argv)
    try:
        program = program_of(word)
        first = next(pid for pid in processes_with(word)
                     if Path(f"/proc/{pid}/comm").read_text() == "hotcell\n")
        return groups_of(first), groups_of(program)
    finally:
        engine.kill(name)


def assert_is_within(container, cell):
    for controllers, path in cell.items():
        # Where hotcell was alone in a group, it moved aside to make room for groups of cells.
        top = container[controllers].removesuffix("/hotcell-main")
        assert path == top or path.startswith(top + "/"), (controllers, container, cell)


def test_cells_stay_within_the_containers_limits(rootful):
    """A cell's groups are below the container's own, so what holds for that holds for the cell."""
    container, cell = container_and_cell(rootful, FLAGS["root"])
    assert any("/hotcell-" in path for path in cell.values()), cell
    assert_is_within(container, cell)


@pytest.mark.parametrize("cgroupns", ["private", "host"])
def test_cells_stay_within_them_even_if_the_machines_groups_are_in_view(docker, cgroupns):
    """In a cgroup namespace of its own, the top of the machine's mount is not the container's."""
    flags = [*FLAGS["root"], "--cgroupns", cgroupns, "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"]
    assert_is_within(*container_and_cell(docker, flags))


# ---- beginnings and ends ----


def test_hotcell_may_be_the_first_process(engine):
    result = engine.run(FLAGS["root"], "hotcell", "run", "-l", "python", "-c",
                        "print('first'); raise SystemExit(3)")
    assert (result.code, result.out) == (3, "first\n"), result


def test_a_first_process_ends_when_it_is_told_to(rootful):
    word, argv = sleeper()
    name = rootful.start(FLAGS["root"], *argv)
    program_of(word)
    code, out = rootful.stop(name)
    assert code != 0
    result = json.loads(out)
    assert (result["reason"], result["stdout"]) == ("cancelled", "up\n"), result


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_nobody_is_left_to_a_first_process_that_does_not_bury(rootful, isolation):
    """Most containers' first process is a server that waits for its own children only."""
    server = (
        "import os, subprocess\n"
        "for i in range(5):\n"
        "    subprocess.run(['hotcell', 'run', '--isolation', '%s', '-l', 'sh', '-c', 'true'],\n"
        "                   check=True)\n"
        "print([open(f'/proc/{name}/stat').read().split()[1:3] for name in os.listdir('/proc')\n"
        "       if name.isdigit() and name != '1'])\n")
    result = rootful.run(FLAGS["root"], "python3", "-c", server % isolation)
    assert (result.code, result.out) == (0, "[]\n"), result


def test_nothing_is_left_when_the_container_is_killed(engine, who):
    word, argv = sleeper()
    before = set(engine.place.cgroups())
    name = engine.start(FLAGS[who], *argv)
    program_of(word)
    engine.kill(name)
    wait_until(lambda: not processes_with(word), "the program is gone")
    wait_until(lambda: not [path for path in engine.place.cgroups()
                            if path not in before and "hotcell-" in path], "its groups are gone")
