"""What the checks share: how hotcell is started, who starts it in which cgroup, and what it left.

A check is a function whose name is its sentence:

    @check
    def a_cell_has_no_more_memory_than_its_limit():
        assert ...
"""
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

HOTCELL = sys.argv[1]
CGROUP = Path("/sys/fs/cgroup")
ROOT = 0
NOBODY = 65534
EXIT_HOTCELL = 125

# Nothing is measured by this: it only turns a hang into a failure.
PATIENCE_S = 300
# Likewise: an emulated machine on a busy one may be slower than the usual limits allow.
UNHURRIED = ("--timeout", "5m", "--cpu-time", "5m")

checks = []


def check(function):
    checks.append(function)
    return function


def run_checks(explain=lambda: ""):
    """How many failed. What `explain` says then is shown with each."""
    print(f"1..{len(checks)}")
    failed = 0
    for number, function in enumerate(checks, 1):
        began = time.monotonic()
        sentence = function.__name__.replace("_", " ")
        why = None
        try:
            function()
        except Exception:
            why = f"{traceback.format_exc()}{explain()}".rstrip()
            failed += 1
        took_s = time.monotonic() - began
        print(f"{'not ok' if why else 'ok'} {number} - {sentence} ({took_s:.1f} s)")
        if why:
            print("# " + why.replace("\n", "\n# "))
        sys.stdout.flush()
    return failed


# ---- starting hotcell ----


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"<exit {self.code}\nstdout: {self.out[-2000:]}\nstderr: {self.err[-2000:]}>"


# Enters the cgroup as root, then becomes the user and the program: nobody else is in there.
ENTER = 'set -e; echo 0 >"$1/cgroup.procs"; shift; exec "$@"'


def command(args, user, group):
    words = ["env", "-i", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", f"HOME=/tmp/home-{user}", *args]
    if user != ROOT:
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
    if group:
        words = ["sh", "-c", ENTER, "sh", str(group), *words]
    return words


def start(*args, user=ROOT, group=None):
    """Any program, as `user`, in the cgroup `group`."""
    return subprocess.Popen(
        command([str(a) for a in args], user, group), cwd="/", text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process):
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it hangs: {process.args}\n{out[-2000:]}\n{err[-2000:]}") from None
    return Result(process.returncode, out, err)


def hotcell(*args, **who):
    return finish(start(HOTCELL, *args, **who))


def run(language, code, *options, **who):
    """What `hotcell run --json` prints."""
    result = hotcell("run", "--json", "-l", language, *UNHURRIED, *options, "-c", code, **who)
    assert result.out, result
    return json.loads(result.out)


def doctor(**who):
    """The exit code, and the rows by name."""
    result = hotcell("doctor", "--json", **who)
    assert result.out, result
    return result.code, {row["name"]: row for row in json.loads(result.out)["checks"]}


# ---- programs that go to a limit ----

EAT_MEMORY = "x = []\nwhile True: x.append(b'x' * 1000000)"
SPIN = "while :; do :; done"
# As many as it is let; the shell ends at the first that it is not.
FORK = "for i in $(seq 40); do sleep 1000 & done; echo all"


def has_all_limits(result):
    return result["isolation"] == "container" and result["limits_not_enforced"] == []


def is_soft(result):
    """Memory and processor time are only watched, and the caller is told so."""
    limits = [text.split(":")[0] for text in result["limits_not_enforced"]]
    return sorted(limits) == ["cpu", "memory"] and "soft" in str(result["limits_not_enforced"])


# ---- looking at a running cell ----


def children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(fact, what):
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.05)


class Running:
    """A cell with a program that has begun and does not end: who is who in it."""

    def __init__(self, *options, code="echo up; sleep 1000", **who):
        self.process = start(HOTCELL, "run", "-l", "sh", *options, "-c", code, **who)
        assert self.process.stdout.readline() == "up\n", finish(self.process)
        self.hotcell = self.process.pid
        self.warden = children(self.hotcell)[0]
        self.keeper = children(self.warden)[0]
        self.program = children(self.keeper)[0]
        self.group = CGROUP / Path(f"/proc/{self.program}/cgroup").read_text().strip()[len("0::/"):]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        finish(self.process)

    def kill(self, *pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


# ---- cgroups ----


def groups():
    """The cells' groups that there are, of any warden."""
    # Not rglob(), which fails when one goes away before its eyes.
    found = [Path(top, name) for top, names, _ in os.walk(CGROUP) for name in names]
    return sorted(path for path in found if path.match("hotcell-*-*"))


def no_group_is_left():
    # A warden clears up when its hotcell has ended already.
    wait_until(lambda: not groups(), "that no group is left")


def mount_cgroup2():
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", CGROUP], check=True)
    # Who starts hotcell (a login, a service manager) has given its children controllers.
    (CGROUP / "cgroup.subtree_control").write_text("+cpu +memory +pids")


def unmount_cgroup2():
    subprocess.run(["umount", CGROUP], check=True)


def make_group(name, owner=ROOT, controllers=None):
    """A group below the top one; `owner` may make others in it, as with systemd's Delegate=yes."""
    group = CGROUP / name
    group.mkdir()
    if controllers:
        (group / "cgroup.subtree_control").write_text(controllers)
    if owner != ROOT:
        for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
            os.chown(path, owner, owner)
    return group
