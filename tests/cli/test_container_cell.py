"""What a program finds in a container cell. (What it cannot do there is in tests/escape.)"""
import fcntl
import os
import socket
import subprocess
import termios
from pathlib import Path

import harness
import pytest

SHOW_ENVIRONMENT = r"tr '\0' '\n' </proc/$$/environ"


def sh(hotcell, code, *more, **options):
    result = hotcell.run("--isolation", "container", "-l", "sh", "-c", code, *more, **options)
    assert (result.err, result.code) == ("", 0)
    return result.out


def test_the_environment_is_made_from_nothing(anyone):
    env = dict(anyone.env, SECRET="do not tell", LD_PRELOAD="", PYTHONPATH="/x", TERM="vt100")
    assert sorted(sh(anyone, SHOW_ENVIRONMENT, env=env).splitlines()) == [
        "HOME=/tmp", "LANG=C.UTF-8", "LOGNAME=cell", "PATH=/usr/local/bin:/usr/bin:/bin",
        "USER=cell"]


def test_env_adds_to_it_and_replaces_and_the_last_one_counts(anyone):
    lines = sh(anyone, SHOW_ENVIRONMENT, "--env", "COLOUR=red", "--env", "COLOUR=a=b c",
               "--env", "LANG=C", "--env", "EMPTY=").splitlines()
    assert "COLOUR=a=b c" in lines and "COLOUR=red" not in lines
    assert "LANG=C" in lines and "LANG=C.UTF-8" not in lines
    assert "EMPTY=" in lines


def test_the_hostname_is_cell(anyone):
    assert sh(anyone, "uname -n; cat /etc/hostname /proc/sys/kernel/hostname") == "cell\n" * 3


def test_the_program_is_an_ordinary_user_named_cell(anyone):
    assert sh(anyone, "id -u; id -g; id -un; echo ~") == "1000\n1000\ncell\n/tmp\n"


@pytest.mark.needs_root("only root may drop groups")
def test_as_root_it_is_in_no_other_group(hotcell):
    assert sh(hotcell, "id -G") == "1000\n"


def test_it_has_no_capabilities_and_gains_none(anyone):
    status = sh(anyone, "cat /proc/self/status")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000\n" in status
    assert "NoNewPrivs:\t1\n" in status
    assert "Seccomp:\t2\n" in status


def test_it_starts_in_the_workspace_which_is_empty_but_for_the_code(anyone):
    assert sh(anyone, "pwd; ls -A; stat -c '%U %a' .") == "/workspace\nmain.sh\ncell 755\n"


def test_tmp_is_there_and_writable_and_programs_run_from_it(anyone):
    assert sh(anyone, "stat -c %a /tmp; cp /bin/echo /tmp/x && /tmp/x ran; ls -d /var/tmp/x") == (
        "1777\nran\n/var/tmp/x\n")


def test_nothing_else_can_be_written(anyone):
    out = sh(anyone, "for d in / /usr /usr/local /etc /bin /lib /run /var /var/lib /opt /dev /proc;"
             " do if ( : >$d/x ) 2>/dev/null; then echo $d; fi; done")
    assert out == ""


def test_it_has_a_session_of_its_own_and_no_terminal(anyone):
    out = sh(anyone, "cut -d' ' -f4-8 /proc/self/stat; echo $$; tty || true")
    numbers, pid, tty = out.splitlines()
    parent, group, session, terminal, foreground = numbers.split()
    assert group == session == pid == parent
    assert (terminal, foreground) == ("0", "-1")
    assert tty == "not a tty"


def test_it_has_a_session_of_its_own_even_when_started_from_a_terminal(hotcell):
    controller, terminal = os.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = hotcell.start(
        "run", "-l", "sh", "--stdin", "-", "-c",
        "tty; test -t 0 || test -t 1 || test -t 2 || echo none; "
        "(: </dev/tty) 2>/dev/null || echo no /dev/tty",
        stdin=terminal, preexec_fn=take_terminal)
    os.close(terminal)
    os.write(controller, b"\x04")
    out, err = process.communicate(timeout=harness.PATIENCE_S)
    os.close(controller)
    assert out == b"not a tty\nnone\nno /dev/tty\n"


def test_without_stdin_its_input_is_empty_not_ours(anyone):
    assert sh(anyone, "cat; echo end", input=b"not for it\n") == "end\n"


def test_it_sees_only_its_own_processes_and_pid_1_is_ours(anyone):
    out = sh(anyone, "echo /proc/[0-9]*; cat /proc/1/comm")
    assert out == "/proc/1 /proc/2 /proc/3\nkeeper\n" or out == "/proc/1 /proc/2\nkeeper\n"


def test_pid_1_cannot_be_looked_into(anyone):
    for what in ("ls /proc/1/fd", "ls /proc/1/root/", "cat /proc/1/environ", "cat /proc/1/maps",
                 "head -c1 /proc/1/mem"):
        result = anyone.run("--isolation", "container", "-l", "sh", "-c", what)
        assert result.out == ""
        assert "Permission denied" in result.err


def test_rlimits_are_always_set(anyone):
    limits = sh(anyone, "cat /proc/self/limits", "--open-files", "100", "--file-size", "1M",
                "--pids", "20")
    rows = {line[:26].strip(): line[26:].split() for line in limits.splitlines()}
    # 1, not 0: at 0 a machine's crash handler would still be started, if it has one.
    assert rows["Max core file size"][:2] == ["1", "1"]
    assert rows["Max open files"][:2] == ["100", "100"]
    assert rows["Max file size"][:2] == ["1048576", "1048576"]
    assert rows["Max cpu time"][:2] == ["31", "32"]
    assert rows["Max processes"][0] == "21"
    assert rows["Max locked memory"][:2] == ["65536", "65536"]
    assert rows["Max realtime priority"][:2] == ["0", "0"]
    assert rows["Max msgqueue size"][:2] == ["65536", "65536"]


def test_no_descriptor_of_ours_reaches_it(anyone):
    files = [open("/dev/null") for _ in range(200)]
    for file in files:
        os.set_inheritable(file.fileno(), True)
    out = sh(anyone, "ls /proc/$$/fd", close_fds=False)
    # 10 and up are the shell's own: its script.
    assert [fd for fd in out.split() if int(fd) < 10 or int(fd) > 20] == ["0", "1", "2"]


def test_there_is_no_network_but_a_loopback_that_is_down(anyone):
    assert sh(anyone, "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '") == "lo\n"
    out = anyone.run("--isolation", "container", "-l", "python", "-c", """
import fcntl, socket, struct
s = socket.socket()
flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, b"lo".ljust(18, b"\\0")))[1]
print("up" if flags & 1 else "down")
try: s.connect(("127.0.0.1", 80))
except OSError as e: print(e.strerror)
""").out
    assert out == "down\nNetwork is unreachable\n"


def test_network_none_is_the_default(anyone):
    show = "cat /proc/net/dev | wc -l; cat /etc/resolv.conf"
    assert sh(anyone, show) == sh(anyone, show, "--network", "none") == "3\n"


def test_network_host_is_the_machines(anyone):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = anyone.run("-l", "python", "--network", "host", "-c", f"""
import socket
socket.create_connection(("127.0.0.1", {port})).sendall(b"from the cell")
""")
        assert (result.err, result.code) == ("", 0)
        with server.accept()[0] as connection:
            assert connection.recv(100) == b"from the cell"


def test_two_cells_share_nothing(anyone):
    """The first cell leaves a file in each place that it can write; the second finds none."""
    sh(anyone, "for d in /tmp /workspace /dev/shm; do echo mine >$d/left; done")
    assert sh(anyone, "ls /tmp/left /workspace/left /dev/shm/left 2>/dev/null || true") == ""


def test_the_time_zone_is_the_machines(hotcell):
    assert sh(hotcell, "date +%z") == subprocess.run(
        ["date", "+%z"], capture_output=True, text=True, env={"PATH": "/bin"}).stdout


def test_with_the_machines_network_come_its_public_certificates(hotcell):
    shown = sh(hotcell, "ls /etc/ssl/certs 2>/dev/null | wc -l", "--network", "host")
    certificates = Path("/etc/ssl/certs")
    assert int(shown) == (len([name for name in os.listdir(certificates) if name[0] != "."])
                          if certificates.exists() else 0)


def test_mounts_are_nosuid_and_nodev_and_what_is_not_its_own_is_read_only(anyone):
    for line in sh(anyone, "cat /proc/self/mountinfo").splitlines():
        point, options = line.split()[4:6]
        options = options.split(",")
        assert "nosuid" in options, line
        if not point.startswith("/dev/") or point == "/dev/shm":
            assert "nodev" in options, line
        if point not in ("/tmp", "/workspace", "/dev/shm", "/proc") and not point.startswith("/dev/"):
            assert "ro" in options, line


# ---- as root ----


@pytest.mark.needs_root("only root has more than one user id to give")
def test_as_root_each_cell_has_a_host_user_id_of_its_own(hotcell):
    words = [harness.token() for _ in range(3)]
    cells = [hotcell.start("run", "-l", "sh", "--stdin", "-", "-c", "read x", "--arg", word,
                           stdin=subprocess.PIPE) for word in words]
    uids = [os.stat(f"/proc/{harness.program_pid(word)}").st_uid for word in words]
    for cell in cells:
        cell.communicate(b"go\n", timeout=harness.PATIENCE_S)
    assert len(set(uids)) == 3
    assert all(uid in harness.CELL_UIDS for uid in uids)


@pytest.mark.needs_root("only root may look into a cell's namespaces and cgroup")
def test_as_root_a_cell_has_namespaces_of_its_own(hotcell):
    word = harness.token()
    cell = hotcell.start("run", "-l", "sh", "--stdin", "-", "-c", "read x", "--arg", word,
                         stdin=subprocess.PIPE)
    pid = harness.program_pid(word)
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind
    mapping = Path(f"/proc/{pid}/uid_map").read_text().split()
    assert mapping[0] == "1000" and mapping[2] == "1" and int(mapping[1]) in harness.CELL_UIDS
    cell.communicate(b"go\n", timeout=harness.PATIENCE_S)


@pytest.mark.needs_root("only root may write cgroups here")
def test_as_root_the_cgroup_holds_memory_processes_and_processors(hotcell):
    word = harness.token()
    cell = hotcell.start(
        "run", "--isolation", "container", "-l", "sh", "--stdin", "-", "-c", "read x", "--arg", word, "--memory", "100M",
        "--pids", "33", "--cpus", "0.5", stdin=subprocess.PIPE)
    groups = harness.cgroups_of(harness.program_pid(word))

    def read(controller, file):
        return (groups[controller] / file).read_text().strip()

    if "memory" in groups:
        assert read("memory", "memory.limit_in_bytes") == str(100 << 20)
        with_swap = groups["memory"] / "memory.memsw.limit_in_bytes"
        assert not with_swap.exists() or with_swap.read_text().strip() == str(100 << 20)
        assert read("pids", "pids.max") == "34"
        assert int(read("cpu", "cpu.cfs_quota_us")) * 2 == int(read("cpu", "cpu.cfs_period_us"))
    else:
        assert read("", "memory.max") == str(100 << 20)
        assert read("", "pids.max") == "34"
        quota, period = read("", "cpu.max").split()
        assert int(quota) * 2 == int(period)
    cell.communicate(b"go\n", timeout=harness.PATIENCE_S)
    own = [group for group in groups.values() if "hotcell-" in str(group)]
    assert own
    harness.wait_until(lambda: not any(group.exists() for group in own), "they are removed")


def test_the_limit_of_processes_counts_all_but_ours(anyone):
    result = anyone.run("-l", "python", "--pids", "10", "-c", """
import os, time
children = []
try:
    while True:
        pid = os.fork()
        if pid == 0: time.sleep(60); os._exit(0)
        children.append(pid)
except BlockingIOError:
    print(len(children) + 1)
""")
    assert result.out == "10\n", result
