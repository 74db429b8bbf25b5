"""What every attack needs: a way into a cell, the same thing tried outside, and a look at what is left.

An attack is a program, mostly Python. It is run twice: outside(), where it must succeed (else it
proves nothing), and in a cell, where it must fail. Programs in Python may use what PRELUDE defines:
call() makes a system call by number, past the C library; tell() says what came of it.
"""
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
HOTCELL = Path(os.environ.get("HOTCELL", REPO / "build/hotcell")).resolve()
PYTHON = "/usr/bin/python3"

# The isolations that promise a wall: every claim holds in each of them.
ISOLATIONS = ["container", "vm"]
# Those, and the one that promises only that limits hold and that nothing outlives a run.
EVERY_ISOLATION = ISOLATIONS + ["process"]

AS_ROOT = os.geteuid() == 0
NOBODY = 65534
WHO = ["root", "nobody"] if AS_ROOT else ["user"]


def may_have(isolation, who):
    """Whether this user can make such cells here: /dev/kvm is not for everybody."""
    return isolation != "vm" or who != "nobody" or os.stat("/dev/kvm").st_mode & 0o006 == 0o006


# A run that hangs fails its test instead of the whole suite.
PATIENCE_S = 180
# Clearing goes on behind the back of a program that has its result already.
CLEARING_S = 60

# How the filter says no: in a way that lets programs which only probe go on.
DENIED = {"EPERM", "ENOSYS"}
# How a VMM says no besides, to what it does not have at all.
ABSENT_IN_A_VM = {
    "socket": {"EAFNOSUPPORT", "EPROTONOSUPPORT"},  # of that family, kind or protocol
    "ioctl": {"ENOTTY"},
    "file": {"ENOENT"},  # in /proc, /dev and /sys, which it makes up
}

PRELUDE = r"""
import ctypes, errno, json, os, sys
NR = %s
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *args):
    "The value of a system call, or the name of its error."
    if isinstance(name, str) and name not in NR:
        return "ENOSYS"  # this architecture never had it
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    words += [ctypes.c_long(0)] * (6 - len(words))
    number = name if isinstance(name, int) else NR[name]
    value = libc.syscall(ctypes.c_long(number), *words)
    return errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno()) if value == -1 else value

def attempt(what, *args, **kwargs):
    "What a function returns, or the name of its error."
    try:
        return what(*args, **kwargs)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))

def tell(what):
    print(json.dumps(what), flush=True)

"""

# Newer than the headers of the oldest system that we build on; the same on all architectures.
NEW_CALLS = {
    "cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454,
    "futex_wait": 455, "futex_requeue": 456, "statmount": 457, "listmount": 458,
    "lsm_get_self_attr": 459, "lsm_set_self_attr": 460, "lsm_list_modules": 461, "mseal": 462,
    "setxattrat": 463, "getxattrat": 464, "listxattrat": 465, "removexattrat": 466,
    "open_tree_attr": 467, "file_getattr": 468, "file_setattr": 469,
}


@functools.lru_cache(maxsize=None)
def call_numbers():
    """System calls of this architecture, by name."""
    text = subprocess.run(["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
                          check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^#define __NR_(\w+) (\d+)$", text, re.M)
    return {**{name: int(number) for name, number in found}, **NEW_CALLS}


def with_prelude(code):
    """The program with what PRELUDE defines: only the numbers that it uses, so that it stays small."""
    used = {name: number for name, number in call_numbers().items()
            if re.search(r"""["']%s["']""" % name, code)}
    return PRELUDE % used + code


class Result:
    """What `hotcell run --json` said, and its exit status."""

    def __init__(self, status, out, err):
        self.status = status
        self.remarks = err
        self.fields = json.loads(out) if out else {}

    def __getattr__(self, name):
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(f"no '{name}' in: {self!r}") from None

    def __repr__(self):
        return f"status {self.status}, {json.dumps(self.fields)[:4000]}, remarks: {self.remarks[:2000]}"

    @property
    def said(self):
        """The last line of output, which the program made with tell()."""
        lines = self.stdout.splitlines()
        assert lines, f"the attack said nothing: {self!r}"
        return json.loads(lines[-1])


class Running:
    """A run that has not ended."""

    def __init__(self, process):
        self.process = process

    @property
    def pid(self):
        return self.process.pid

    def wait_for(self, text):
        """Reads what it prints until a line has `text` in it; returns that line."""
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f"it ended before it said '{text}': {self.process.stderr.read()}")

    def send(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def wait(self):
        """Lets it come to its end; returns the exit status."""
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def end(self, sig=signal.SIGINT):
        """Ends it, unless it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.wait()


def as_whom(who):
    """The words before a command that make it run as `who`."""
    if who != "nobody":
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


def options(limits):
    """timeout='1s' becomes --timeout=1s; a list becomes one option for each of its items."""
    words = []
    for name, value in limits.items():
        option = ("-" if len(name) == 1 else "--") + name.replace("_", "-")
        for item in value if isinstance(value, list) else [value]:
            if item is True:
                words.append(option)
            else:
                words += [option, str(item)] if len(name) == 1 else [f"{option}={item}"]
    return words


class Attacker:
    """Runs programs in cells of one isolation, as one user."""

    def __init__(self, place, isolation, who):
        self.place = place  # where this user's copy of hotcell, home and files are
        self.isolation = isolation
        self.who = who
        self.running = []

    @property
    def in_vm(self):
        return self.isolation == "vm"

    def denied(self, *kinds):
        """The errors by which such a cell may refuse: DENIED, and in a vm those for what is absent."""
        return DENIED.union(*(ABSENT_IN_A_VM[kind] for kind in kinds if self.in_vm))

    @property
    def is_root(self):
        return self.who == "root"

    @property
    def home(self):
        return self.place / "home"

    @property
    def hotcell(self):
        """A copy that this user owns: the real one may be where it cannot reach."""
        own = self.place / "bin/hotcell"
        return own if own.exists() else HOTCELL

    def environment(self):
        return {"HOME": str(self.home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

    def words(self, language, isolation, limits):
        return [str(self.hotcell), "run", "-l", language, f"--isolation={isolation or self.isolation}",
                *options(limits)]

    def __call__(self, code, language="python", *, before=(), host_env=None, isolation=None,
                 **limits):
        """Runs `code` in a fresh cell, to its end. `before` are words that start hotcell, `host_env` is
        added to its environment; all else are its options."""
        if language == "python":
            code = with_prelude(code)
        words = [*before, *as_whom(self.who), *self.words(language, isolation, limits), "--json",
                 "-c", code]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, text=True, errors="surrogateescape",
                              capture_output=True, cwd=self.home,
                              env={**self.environment(), **(host_env or {})}, timeout=PATIENCE_S)
        result = Result(done.returncode, done.stdout, done.stderr)
        assert done.returncode >= 0, f"hotcell itself was killed: {result!r}"
        return result

    def start(self, code, language="python", *, before=(), isolation=None, **limits):
        """Starts `code` in a fresh cell; its output streams."""
        if language == "python":
            code = with_prelude(code)
        words = [*before, *as_whom(self.who), *self.words(language, isolation, limits), "-c", code,
                 "--stdin=-"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="surrogateescape",
                                   cwd=self.home, env=self.environment())
        self.running.append(Running(process))
        return self.running[-1]

    def outside(self, code, *, own_namespaces=False, who=None):
        """What the same Python program says without a cell around it; a program that needs rights
        which this user lacks gets them over namespaces that are made for it."""
        words = as_whom(who or self.who)
        if own_namespaces:
            words += ["unshare", "--user", "--map-root-user", "--mount", "--uts", "--ipc", "--net",
                      "--pid", "--fork", "--kill-child"]
        done = subprocess.run([*words, PYTHON, "-I", "-"], input=with_prelude(code), text=True,
                              capture_output=True, cwd=self.home, env=self.environment(),
                              timeout=PATIENCE_S)
        assert done.returncode == 0, f"outside a cell the attack failed: {done.stderr}"
        return json.loads(done.stdout.splitlines()[-1])

    def new_directory(self):
        """A directory of this user's on the host."""
        path = Path(tempfile.mkdtemp(dir=self.place))
        if self.who == "nobody":
            os.chown(path, NOBODY, NOBODY)
        return path

    def own(self, path):
        """Gives a file that we made to this user."""
        if self.who == "nobody":
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        return path


def make_place(top, who):
    """A home and a copy of hotcell for one user."""
    place = top / who
    (place / "home").mkdir(parents=True)
    warden = HOTCELL.with_name("hotcell-warden")
    if warden.exists():
        (place / "bin").mkdir()
        for program in (HOTCELL, warden, HOTCELL.with_name("hotcell-vmm")):
            shutil.copy(program, place / "bin" / program.name)
        for part in ("languages", "drivers"):
            shutil.copytree(REPO / part, place / part)
    if who == "nobody":
        for path in [place, *place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    return place


# ---- what is left ----

def parents():
    """The parent of each process of the machine."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_bytes()
            except OSError:
                continue  # it ended
            found[int(entry)] = int(text[text.rindex(b")") + 1:].split()[1])
    return found


def descendants(top):
    """All processes beneath `top` that are alive: {pid: name}. Our own dead are buried on the way."""
    parent = parents()
    found, new = set(), {top}
    while new:
        new = {pid for pid, of in parent.items() if of in new} - found
        found |= new
    named = {}
    for pid in found:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            continue
        name, rest = text[text.index("(") + 1:].rsplit(")", 1)
        if rest.split()[0] != "Z":
            named[pid] = name
        elif parent[pid] == os.getpid():
            os.waitpid(pid, os.WNOHANG)
    return named


def programs(top):
    """Those of them that run a cell's program in Python: of a vm it is the VMM that does."""
    return {pid for pid, name in descendants(top).items() if "python" in name or name == "hotcell-vmm"}


def owner_is_dead(name):
    """Directories are named hotcell-<pid namespace>-<pid>-<start time>[-...] after their warden."""
    match = re.match(r"hotcell-(\d+)-(\d+)-(\d+)", name)
    if not match or int(match[1]) != os.stat("/proc/self/ns/pid").st_ino:
        return False
    try:
        stat = Path("/proc", match[2], "stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rsplit(")", 1)[1].split()[19] != match[3]


def cgroup_directories():
    """Where a warden that we start may make its groups: in our own group or above it."""
    own = [line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            top = Path(left.split()[4])
            for path in own:
                yield from [top / path.lstrip("/"), *(top / path.lstrip("/")).parents]


def orphans():
    """Directories of wardens that are dead: cgroups, and those of process cells."""
    found = set()
    for directory in {Path("/tmp"), *cgroup_directories()}:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        found |= {str(directory / name) for name in names if owner_is_dead(name)}
    return found


def mounts():
    """Mounts of the host, but for those that other programs come and go with."""
    others = r" /(var/lib/(docker|containers|containerd)|run/(docker|netns|user|containerd))"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if not re.search(others, line)}


def until(condition, seconds):
    """Waits until condition() is true, at most so long; returns what it was last."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.01)


if sys.version_info < (3, 9):
    raise SystemExit("the escape suite needs Python 3.9 or later")
