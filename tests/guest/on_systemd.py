#!/usr/bin/python3
"""on_systemd.py HOTCELL: the units, installed, in a machine that systemd runs. See tools/guest.

Here systemd is the first process, cgroups are of version 2 alone and those of the service are its own by Delegate=yes,
and all that hotcell.service switches off is off. HOTCELL is the installed program."""
import grp
import http.client
import pwd
import re
import socket
import stat
import threading

from guest import *

SERVICE, SOCKET = "hotcell.service", "hotcell.socket"
GROUP = CGROUP / "system.slice" / SERVICE
UNIX_SOCKET = "/run/hotcell/hotcell.sock"
CONFIG = Path("/etc/hotcell/config.yaml")
DROP_IN = Path(f"/run/systemd/system/{SERVICE}.d/test.conf")
# One kind that is warm: more would take minutes here. Everything has more time than elsewhere.
SETTINGS = {"warm": "[python@container]", "timeout_default_ms": "5m", "timeout_max_ms": "5m",
            "cpu_default_ms": "5m", "cpu_max_ms": "5m"}


# ---- systemd ----


def tool(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    return Result(done.returncode, done.stdout, done.stderr)


def systemctl(*words):
    result = tool("systemctl", *words)
    assert result.code == 0, (words, result)
    return result.out


def shown(name, unit=SERVICE):
    return systemctl("show", unit, "--property", name, "--value").strip()


def state(unit=SERVICE):
    return shown("ActiveState", unit)


def journal():
    """The last that the service said, and what systemd said of it."""
    return tool("journalctl", "--no-pager", "-o", "short-monotonic", "-n", "40", "-u", SERVICE, "-u", SOCKET).out


def times_said(text):
    """How often the service said it, since the machine began: who waits for more of it cannot come too late."""
    return tool("journalctl", "--no-pager", "-o", "cat", "-u", SERVICE).out.count(text)


def wait_for_state(wanted, unit=SERVICE):
    wait_until(lambda: state(unit) == wanted, f"{unit} is {wanted}")


def stop_all():
    systemctl("stop", SOCKET, SERVICE)
    tool("systemctl", "reset-failed", SERVICE, SOCKET)


def settings(**changed):
    CONFIG.parent.mkdir(exist_ok=True)
    CONFIG.write_text("".join(f"{name}: {value}\n" for name, value in {**SETTINGS, **changed}.items()))
    CONFIG.chmod(0o644)


# ---- the service ----


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(UNIX_SOCKET)


class Reply:
    def __init__(self, status, body):
        self.status, self.body = status, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]}>"


def ask(method, path, body=None, kind=http.client.HTTPConnection, headers=(), port=8000):
    connection = kind("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json"}
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return Reply(answer.status, answer.read())
    finally:
        connection.close()


def execute(code, language="python", isolation="container", **fields):
    reply = ask("POST", "/v1/execute", {"code": code, "language": language, "isolation": isolation, **fields})
    assert reply.status == 200, reply
    result = reply.json()
    assert result["isolation"] == isolation and result["limits_not_enforced"] == [], result
    return result


def says(code, language, **fields):
    result = execute(code, language, **fields)
    assert (result["reason"], result["exit_code"]) == ("exited", 0), result
    return result["stdout"]


def upload(name, data):
    body = (f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n').encode() + data + \
        b"\r\n--b--\r\n"
    reply = ask("POST", "/v1/files", body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert reply.status in (200, 201), reply
    return reply.json()["file_id"]


def download(file_id):
    reply = ask("GET", f"/v1/files/{file_id}")
    assert reply.status == 200, reply
    return reply.body


class Background:
    """A call that goes on meanwhile."""

    def __init__(self, function, *args, **named):
        self.answer = self.error = None
        self.thread = threading.Thread(target=self.call, args=(function, args, named), daemon=True)
        self.thread.start()

    def call(self, function, args, named):
        try:
            self.answer = function(*args, **named)
        except BaseException as error:
            self.error = error

    def result(self):
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "it hangs"
        if self.error:
            raise self.error
        return self.answer


def running_cell(code="print('up', flush=True); import time; time.sleep(1000)", **fields):
    """A run that goes on meanwhile: its answer, later."""
    call = Background(execute, code, **fields)
    wait_until(lambda: not call.thread.is_alive() or runs_running() == 1, "it runs")
    return call


def runs_running():
    text = ask("GET", "/metrics").body.decode()
    return int(re.search(r"^hotcell_runs_running (\d+)", text, re.M)[1])


# ---- who is there ----


def pids_in(group):
    found = []
    for top, _, _ in os.walk(group):
        try:
            found += [int(pid) for pid in Path(top, "cgroup.procs").read_text().split()]
        except (FileNotFoundError, OSError):
            pass
    return found


def facts(pid):
    """/proc/PID/status by name."""
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


# What one check leaves for others.
kept = {}


def main_pid():
    return int(shown("MainPID"))


def is_daemon(pid):
    try:
        return facts(pid)["Uid"].split()[0] == str(user_id())
    except (FileNotFoundError, ProcessLookupError):
        return False


def daemon_pid():
    return next(pid for pid in children(main_pid()) if is_daemon(pid))


def user_id():
    return pwd.getpwnam("hotcell").pw_uid


def is_installed_program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe").startswith("/usr/local/")
    except (FileNotFoundError, ProcessLookupError):
        return False


def programs_in(group):
    return [pid for pid in pids_in(group) if is_installed_program(pid)]


def nothing_is_left():
    wait_until(lambda: not GROUP.exists(), f"that its group is gone, and all below it: {groups()}")
    assert not groups()
    assert Path("/proc/mounts").read_text() == kept["mounts"]
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and is_installed_program(pid)]


def in_its_view(script):
    """What a shell says that sees the service's files as root does there."""
    return tool("nsenter", "-t", str(daemon_pid()), "-m", "sh", "-c", script)


# ---- installing ----


@check
def systemd_runs_the_machine_with_cgroup_version_2_alone():
    assert Path("/proc/1/comm").read_text() == "systemd\n"
    assert [line.split()[2] for line in Path("/proc/mounts").read_text().splitlines() if "cgroup" in line] == ["cgroup2"]
    wait_until(lambda: tool("systemctl", "is-system-running").out in ("running\n", "degraded\n"), "that it has begun")


@check
def sysusers_makes_the_user():
    result = tool("systemd-sysusers")
    assert result.code == 0, result
    user = pwd.getpwnam("hotcell")
    assert 0 < user.pw_uid < 1000 and user.pw_shell.endswith("nologin"), user
    assert grp.getgrgid(user.pw_gid).gr_name == "hotcell"


@check
def systemd_finds_nothing_wrong_with_the_units():
    result = tool("systemd-analyze", "verify", "--man=no", SERVICE, SOCKET)
    assert (result.code, result.out, result.err) == (0, "", ""), result


@check
def the_service_is_enabled_with_its_sockets():
    kept["mounts"] = Path("/proc/mounts").read_text()
    settings()
    systemctl("enable", SERVICE)
    assert systemctl("is-enabled", SERVICE, SOCKET) == "enabled\nenabled\n"


# ---- starting ----


@check
def it_is_active_when_it_serves_and_not_before():
    systemctl("start", "--no-block", SERVICE)
    wait_until(lambda: programs_in(GROUP), "that it is begun")
    main = programs_in(GROUP)[0]
    os.kill(main, signal.SIGSTOP)
    time.sleep(1)
    seen = state()
    os.kill(main, signal.SIGCONT)
    assert seen == "activating", seen
    wait_for_state("active")
    assert main_pid() == main
    assert ask("GET", "/health").json()["status"] == "ok"


@check
def its_sockets_are_those_of_systemd_however_it_was_started():
    assert state(SOCKET) == "active"
    assert ask("GET", "/health", kind=UnixConnection).status == 200


@check
def the_supervisor_is_root_and_what_reads_the_network_has_no_rights():
    supervisor, daemon = facts(main_pid()), facts(daemon_pid())
    assert supervisor["Uid"].split() == ["0"] * 4, supervisor
    assert daemon["Uid"].split() == [str(user_id())] * 4 and daemon["Groups"].strip() == "", daemon
    assert int(daemon["CapEff"], 16) == int(daemon["CapPrm"], 16) == 0, daemon
    for one in (supervisor, daemon):
        assert one["NoNewPrivs"] == "1" and one["Seccomp"] == "2", one
    wardens = [pid for pid in children(main_pid()) if Path(f"/proc/{pid}/comm").read_text() == "hotcell-warden\n"]
    assert wardens and all(facts(pid)["Uid"].split()[0] == "0" for pid in wardens)


@check
def its_directories_are_its_own_and_have_their_modes():
    hotcell = user_id()
    wanted = {"/var/lib/hotcell": (hotcell, 0o700), "/etc/hotcell": (0, 0o755), "/run/hotcell": (0, 0o755)}
    found = {path: (os.stat(path).st_uid, stat.S_IMODE(os.stat(path).st_mode)) for path in wanted}
    assert found == wanted
    for path in Path("/var/lib/hotcell").rglob("*"):
        assert path.stat().st_uid == hotcell and not path.stat().st_mode & 0o077, (path, path.stat())


@check
def it_sees_the_machine_read_only_and_neither_homes_nor_the_tmp_of_others():
    Path("/tmp/of-others").touch()
    Path("/root/of-root").touch()
    said = in_its_view("ls /tmp /root 2>&1 | grep of-; "
                       "for d in /usr /etc /var/lib /root /var/lib/hotcell; do (: >$d/new) 2>/dev/null && echo $d; done; "
                       "rm /var/lib/hotcell/new")
    assert (said.out, said.err) == ("/var/lib/hotcell\n", ""), said


@check
def of_devices_it_has_kvm_and_none_that_matter():
    script = ('echo 0 >"$1/cgroup.procs"; for d in null kvm ttyS0 mem; do '
              'if (exec 3<"/dev/$d") 2>/dev/null; then echo $d; fi; done')
    result = tool("sh", "-c", script, "sh", str(GROUP / "hotcell-main"))
    assert result.out.split() == ["null", "kvm"], result


# ---- running ----


@check
def python_runs_in_a_container():
    wait_until(lambda: ask("GET", "/readyz").status == 200, "that it is warm")
    result = execute("print(6 * 7)")
    assert (result["stdout"], result["exit_code"]) == ("42\n", 0), result


@check
def bash_runs_with_pipes_and_files():
    assert says("for i in 3 1 2; do echo $i; done | sort >f; cat f; echo <(true) >/dev/null", "bash") == "1\n2\n3\n"


@check
def c_is_compiled_and_runs():
    assert says('#include <stdio.h>\nint main(void) { puts("made"); return 0; }', "c") == "made\n"


@check
def javascript_writes_machine_code_and_runs_it():
    assert says("let s = 0; for (let i = 0; i < 1e5; i++) s += i; console.log(s)", "javascript") == "4999950000\n"


@check
def a_cell_has_a_proc_of_its_own_and_no_network():
    out = says("import os, socket; print(os.getpid() < 10, os.path.exists('/proc/self/status'))\n"
               "try: socket.create_connection(('127.0.0.1', 8000)); print('reached')\n"
               "except OSError: print('none')", "python")
    assert out == "True True\nnone\n", out


@check
def a_machine_of_its_own_runs_python():
    assert says("print(6 * 7)", "python", isolation="vm") == "42\n"


# ---- limits, by the groups that systemd delegates ----


@check
def a_cells_group_is_below_the_units_and_has_its_limits():
    call = running_cell(limits={"memory_bytes": 48 << 20, "processes": 9})
    try:
        limits = {(Path(group, "memory.max").read_text(), Path(group, "pids.max").read_text()) for group in groups()}
        assert all(group.parent == GROUP for group in groups()), groups()
        # One more process: the keeper.
        assert (f"{48 << 20}\n", "10\n") in limits, limits
        assert GROUP / "hotcell-main" in [CGROUP / Path(f"/proc/{pid}/cgroup").read_text().strip()[len("0::/"):]
                                          for pid in (main_pid(), daemon_pid())]
    finally:
        end_runs()
    assert call.result()["reason"] == "cancelled"


def end_runs():
    for one in ask("GET", "/v1/runs").json()["runs"]:
        if one.get("reason") is None:
            assert ask("DELETE", f"/v1/runs/{one['id']}").status == 202


def is_steady(function):
    """It does that, and is the same as before."""
    before = main_pid(), daemon_pid()
    function()
    assert (state(), shown("NRestarts")) == ("active", "0")
    assert (main_pid(), daemon_pid()) == before


@check
def who_takes_too_much_memory_is_ended_and_the_service_is_not():
    def eat():
        result = execute(EAT_MEMORY, limits={"memory_bytes": 32 << 20})
        assert result["reason"] == "memory_limit", result
        assert shown("Result") == "success"
    is_steady(eat)


@check
def a_fork_bomb_gets_no_further_than_its_limit():
    def fork():
        result = execute(FORK, "sh", limits={"processes": 8})
        assert "all" not in result["stdout"] and "fork" in result["stderr"], result
    is_steady(fork)


# ---- who may connect ----


@check
def its_unix_socket_is_for_root_and_a_group():
    found = os.stat(UNIX_SOCKET)
    assert stat.S_IMODE(found.st_mode) == 0o660 and found.st_uid == 0, found
    assert grp.getgrgid(found.st_gid).gr_name == "hotcell"


def run_by_client(*groups_of_it, user=NOBODY):
    os.makedirs(f"/tmp/home-{user}", exist_ok=True)
    who = ["setpriv", f"--reuid={user}", f"--regid={user}", *(["--groups", ",".join(groups_of_it)] if groups_of_it
                                                            else ["--clear-groups"])]
    return tool(*who, HOTCELL, "run", "--server", f"unix:{UNIX_SOCKET}", "-l", "sh", "-c", "echo $((6 * 7))")


@check
def root_needs_no_key():
    assert run_by_client(user=ROOT).out == "42\n"


@check
def members_of_the_group_need_no_key():
    result = run_by_client(str(grp.getgrnam("hotcell").gr_gid))
    assert result.out == "42\n", result


@check
def others_cannot_connect():
    result = run_by_client()
    assert result.code == EXIT_HOTCELL and "ermission" in result.err, result


# ---- settings ----


def says_it_takes_no_more_than(count):
    """Whether that is the setting batch_max that is in force."""
    reply = ask("POST", "/v1/batch", {"runs": [{"code": "", "language": "nonsense"}] * (count + 1)})
    return reply.status == 422 and f"at most {count} " in reply.body.decode()


@check
def a_reload_reads_the_settings_again_and_is_over_when_they_are_in_force():
    before = main_pid(), daemon_pid()
    settings(batch_max=7)
    os.kill(daemon_pid(), signal.SIGSTOP)
    try:
        systemctl("reload", "--no-block", SERVICE)
        wait_until(lambda: shown("SubState") == "reload", "that it reloads")
        time.sleep(1)
        assert state() == "reloading"
    finally:
        os.kill(daemon_pid(), signal.SIGCONT)
    wait_for_state("active")
    assert says_it_takes_no_more_than(7)
    assert (main_pid(), daemon_pid()) == before


@check
def a_reload_of_wrong_settings_changes_nothing_and_the_status_says_why():
    settings(batch_max="many")
    try:
        systemctl("reload", SERVICE)
        wait_until(lambda: "batch_max" in shown("StatusText"), "that it says so")
        wait_for_state("active")
    finally:
        settings()
    assert "batch_max = 'many'" in systemctl("status", "--no-pager", "--full", SERVICE)
    assert says_it_takes_no_more_than(7)


@check
def a_daemon_that_crashed_comes_back_with_the_settings_of_the_last_reload():
    before = main_pid()
    os.kill(daemon_pid(), signal.SIGKILL)
    wait_until(lambda: [pid for pid in children(main_pid()) if is_daemon(pid)], "that there is another")
    assert says_it_takes_no_more_than(7)
    assert main_pid() == before and shown("NRestarts") == "0"
    systemctl("reload", SERVICE)
    wait_until(lambda: shown("StatusText") == "", "that all is well")


# ---- coming back ----


@check
def what_was_stored_is_there_after_a_restart():
    kept["file"] = upload("kept.txt", b"for ever")
    before = main_pid()
    systemctl("restart", SERVICE)
    assert main_pid() != before and download(kept["file"]) == b"for ever"


@check
def the_unix_socket_is_there_after_a_restart():
    assert ask("GET", "/health", kind=UnixConnection).status == 200


def is_broken_off(call):
    try:
        answer = call.result()
    except (OSError, http.client.HTTPException):
        return
    raise AssertionError(f"it was answered: {answer}")


@check
def a_killed_supervisor_comes_back_with_what_was_stored_and_without_its_cells():
    call = running_cell()
    before, old = main_pid(), groups()
    assert old
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: shown("NRestarts") == "1" and state() == "active", "that it is back")
    assert main_pid() != before and download(kept["file"]) == b"for ever"
    is_broken_off(call)
    wait_until(lambda: not any(group.exists() for group in old), "that no cell of before is left")
    assert says("echo again", "sh") == "again\n"


@check
def a_stop_lets_end_what_runs_however_short_systemds_patience_is():
    DROP_IN.parent.mkdir(exist_ok=True)
    DROP_IN.write_text("[Service]\nTimeoutStopSec=1s\n")
    systemctl("daemon-reload")
    try:
        call = running_cell("import time; time.sleep(4); print('ended')")
        systemctl("stop", SERVICE)
        assert call.result()["stdout"] == "ended\n"
        assert state() == "inactive" and shown("Result") == "success"
    finally:
        DROP_IN.unlink()
        systemctl("daemon-reload")


# ---- socket activation ----


@check
def the_first_connection_starts_it_by_tcp():
    stop_all()
    systemctl("start", SOCKET)
    assert state() == "inactive"
    assert ask("GET", "/health").json()["status"] == "ok"
    assert state() == "active"
    assert download(kept["file"]) == b"for ever"


@check
def the_first_connection_starts_it_by_its_unix_socket():
    stop_all()
    systemctl("start", SOCKET)
    assert state() == "inactive"
    assert ask("GET", "/health", kind=UnixConnection).json()["status"] == "ok"
    assert state() == "active"


@check
def who_connects_while_it_restarts_is_served_by_the_next():
    goes_on = running_cell("import time; time.sleep(5); print('ended')")
    before, drained = daemon_pid(), times_said("draining")
    systemctl("restart", "--no-block", SERVICE)
    wait_until(lambda: times_said("draining") > drained, "that it takes nobody any more")
    waits = [Background(says, "echo new", "sh"), Background(ask, "GET", "/health", kind=UnixConnection)]
    assert goes_on.result()["stdout"] == "ended\n"
    assert waits[0].result() == "new\n" and waits[1].result().status == 200
    assert daemon_pid() != before


@check
def no_connection_is_lost_in_restarts():
    is_over = threading.Event()

    def knock(kind):
        statuses = []
        while not is_over.is_set():
            statuses.append(ask("GET", "/health", kind=kind).status)
        return statuses

    calls = [Background(knock, kind) for kind in (http.client.HTTPConnection, UnixConnection)]
    for _ in range(3):
        systemctl("restart", SERVICE)
    is_over.set()
    for call in calls:
        statuses = call.result()
        assert len(statuses) > 3 and set(statuses) == {200}, statuses


# ---- wrong settings ----


@check
def with_wrong_settings_it_fails_at_once_and_says_why():
    stop_all()
    settings(timeout_max_ms="soon")
    result = tool("systemctl", "start", SERVICE)
    assert result.code != 0, result
    assert (state(), shown("ExecMainStatus"), shown("NRestarts")) == ("failed", "125", "0")
    said = tool("systemctl", "status", "--no-pager", "--full", SERVICE).out
    assert f"{CONFIG}" in said and "timeout_max_ms = 'soon'" in said, said
    settings()
    stop_all()


@check
def without_its_socket_unit_it_listens_where_its_settings_say():
    settings(port=8001)
    systemctl("mask", SOCKET)
    systemctl("start", SERVICE)
    try:
        assert ask("GET", "/health", port=8001).status == 200
        assert ask("GET", "/health", kind=UnixConnection).status == 200
        # It lets everybody connect, and looks at who it is.
        assert run_by_client(user=ROOT).out == "42\n"
        assert "key is needed" in run_by_client().err
    finally:
        systemctl("stop", SERVICE)
        systemctl("unmask", SOCKET)
        settings()
    assert not os.path.exists(UNIX_SOCKET)


# ---- the end ----


@check
def a_stop_ends_what_does_not_end_and_leaves_nothing():
    settings(drain_s=1)
    systemctl("start", SERVICE)
    call = running_cell("import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(1000)")
    assert groups()
    stop_all()
    assert state() == "inactive" and shown("Result") == "success"
    nothing_is_left()
    assert not os.path.exists(UNIX_SOCKET)
    assert call.result()["reason"] == "cancelled"


stop_all()
sys.exit(1 if run_checks(journal) else 0)
