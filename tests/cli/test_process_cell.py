"""The process cell: the same interface, no wall; only when asked for by name."""
import os
import subprocess
from pathlib import Path

import harness
import pytest

PROCESS = ("--isolation", "process")


def test_the_result_says_that_it_is_not_isolated(anyone):
    result = anyone.run(*PROCESS, "-l", "sh", "-c", "echo hi")
    assert result.out == "hi\n"
    assert "not isolated" in result.err
    assert result.code == 0
    object = anyone.json(*PROCESS, "-l", "sh", "-c", "echo hi")
    assert object["isolation"] == "process"
    assert "network" in object["limits_not_enforced"]
    assert "disk" in object["limits_not_enforced"]


def test_quiet_silences_the_remark(anyone):
    assert anyone.run(*PROCESS, "-q", "-l", "sh", "-c", "echo hi").err == ""


def test_the_help_says_not_isolated(hotcell):
    assert "not isolated" in " ".join(hotcell.run("--help").out.split())


def test_it_is_never_root(anyone):
    out = anyone.run(*PROCESS, "-l", "sh", "-c", "id -u; id -g; id -G").out.split()
    if anyone.user is None and harness.IS_ROOT:
        assert all(int(one) in harness.CELL_UIDS for one in out)
    else:
        user = str(os.geteuid() if anyone.user is None else anyone.user)
        assert out[0] == user and "0" not in out


def test_it_gains_no_rights(anyone):
    status = anyone.run(*PROCESS, "-l", "sh", "-c", "cat /proc/self/status").out
    assert "NoNewPrivs:\t1\n" in status
    assert "CapEff:\t0000000000000000\n" in status


def test_its_environment_is_stripped(anyone):
    env = dict(anyone.env, SECRET="do not tell")
    result = anyone.run(*PROCESS, "-l", "sh", "-c", r"tr '\0' '\n' </proc/$$/environ", env=env)
    names = sorted(line.split("=")[0] for line in result.out.splitlines())
    assert names == ["HOME", "LANG", "LOGNAME", "PATH", "USER"]


def test_its_home_and_workspace_are_in_a_directory_of_its_own_that_is_removed(anyone):
    result = anyone.run(*PROCESS, "-l", "sh", "-c", "pwd; echo ~; stat -c %a ..; echo x >file; "
                        "mkdir -p a/b; chmod 0 a/b; cd ~; echo y >file; ln -s / link")
    workspace, home, mode = result.out.split()
    assert Path(workspace).name == "workspace"
    assert Path(home).parent == Path(workspace).parent
    assert mode == "700"
    harness.wait_until(lambda: not Path(workspace).parent.exists(), "it is removed")


def test_two_cells_have_two_directories(anyone):
    one, other = (anyone.run(*PROCESS, "-l", "sh", "-c", "pwd").out for _ in range(2))
    assert one != other


def test_it_has_a_session_and_group_of_its_own(anyone):
    out = anyone.run(*PROCESS, "-l", "sh", "-c", "cut -d' ' -f5-7 /proc/self/stat; echo $$").out
    group, session, terminal, pid = out.split()
    assert group == session == pid
    assert terminal == "0"


def test_no_descriptor_of_ours_reaches_it(anyone):
    files = [open("/dev/null") for _ in range(50)]
    for file in files:
        os.set_inheritable(file.fileno(), True)
    out = anyone.run(*PROCESS, "-l", "sh", "-c", "ls /proc/$$/fd", close_fds=False).out
    assert [fd for fd in out.split() if int(fd) < 10 or int(fd) > 20] == ["0", "1", "2"]


# A grandchild in a session of its own, with the signals ignored that could be, and no parent.
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3): os.dup2(null, fd)
        time.sleep(1000)
    os._exit(0)
os.wait()
print("parent is done")
"""


def test_nothing_outlives_it_however_it_detached_itself(anyone, isolation):
    word = harness.token()
    result = anyone.run("--isolation", isolation, "-q", "-l", "python", "-c", DAEMON, "--arg", word)
    assert (result.out, result.code) == ("parent is done\n", 0)
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")


def test_nothing_outlives_a_timeout(anyone, isolation):
    word = harness.token()
    result = anyone.run("--isolation", isolation, "-l", "python", "--timeout", "2s", "--arg", word,
                        "-c", DAEMON + "time.sleep(1000)")
    assert (result.out, result.code) == ("parent is done\n", 124)
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")


def test_network_none_is_refused_since_it_cannot_be_held(anyone):
    result = anyone.run(*PROCESS, "--network", "none", "-l", "sh", "-c", "echo ran")
    assert (result.out, result.code) == ("", 125)
    assert "network" in result.err


def test_network_host_is_what_it_has(anyone):
    result = anyone.run(*PROCESS, "-q", "--network", "host", "-l", "sh", "-c", "cat /proc/net/dev")
    assert result.code == 0
    own = Path("/proc/net/dev").read_text().splitlines()
    assert [line.split(":")[0] for line in result.out.splitlines()] == [
        line.split(":")[0] for line in own]


def test_a_disk_limit_is_refused_since_it_cannot_be_held(anyone):
    result = anyone.run(*PROCESS, "--disk", "1M", "-l", "sh", "-c", "echo ran")
    assert (result.out, result.code) == ("", 125)
    assert "disk limit cannot be held" in result.err


def test_rlimits_are_set(anyone):
    limits = anyone.run(*PROCESS, "-l", "sh", "--open-files", "99", "--file-size", "2M",
                        "-c", "cat /proc/self/limits").out
    rows = {line[:26].strip(): line[26:].split() for line in limits.splitlines()}
    assert rows["Max open files"][:2] == ["99", "99"]
    assert rows["Max file size"][:2] == [str(2 << 20)] * 2
    # 1, not 0: at 0 a machine's crash handler would still be started, if it has one.
    assert rows["Max core file size"][:2] == ["1", "1"]


@pytest.mark.parametrize("language, code", [
    ("python", "print(6 * 7)"), ("javascript", "console.log(6 * 7)"), ("c",
     '#include <stdio.h>\nint main(void) { printf("%d\\n", 6 * 7); return 0; }'),
    ("bash", "echo $((6 * 7))")])
def test_languages_work_in_it(anyone, language, code):
    result = anyone.run(*PROCESS, "-q", "-l", language, "-c", code)
    assert (result.out, result.err, result.code) == ("42\n", "", 0)


def test_files_go_in_and_out(anyone, public):
    source = public / f"in-{harness.token()}"
    source.write_bytes(bytes(range(256)))
    source.chmod(0o644)
    out = public / f"out-{harness.token()}"
    out.mkdir()
    out.chmod(0o777)
    object = anyone.json(*PROCESS, "-l", "sh", "-f", f"{source}:deep/in", "-o", out, "-c",
                         "mkdir new; cat deep/in deep/in >new/twice")
    assert object["files"] == [
        {"path": "new", "size_bytes": 0, "kind": "directory"},
        {"path": "new/twice", "size_bytes": 512, "kind": "file"}]
    assert (out / "new/twice").read_bytes() == bytes(range(256)) * 2


@pytest.mark.needs_root("only root may write cgroups here")
def test_as_root_memory_is_limited_all_the_same(hotcell):
    object = hotcell.json(*PROCESS, "-l", "python", "--memory", "64M", "-c",
                          "print('before', flush=True)\nx = bytearray(200 << 20)")
    assert (object["reason"], object["stdout"]) == ("memory_limit", "before\n")


def test_other_processes_of_the_user_are_left_alone(anyone):
    """Without root the cell's user is the caller, and what the caller runs besides must live."""
    other = anyone.start(
        "run", *PROCESS, "-l", "sh", "--stdin", "-", "-c", "read x; echo $x", stdin=subprocess.PIPE)
    bystander = subprocess.Popen(
        ["sleep", "1000"], **({"user": anyone.user} if anyone.user else {}))
    try:
        assert anyone.run(*PROCESS, "-l", "sh", "-c", "sleep 1000 & echo done").out == "done\n"
        assert bystander.poll() is None
        assert other.communicate(b"alive\n", timeout=harness.PATIENCE_S)[0] == b"alive\n"
    finally:
        bystander.kill()
        bystander.wait()
