"""What the tests of the command line share: how hotcell is started, and how to see what it left.

    tests            start        hotcell, as the user who runs the tests
    tests as root    start also   hotcell as nobody, from a copy that nobody can reach
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOTCELL = Path(os.environ.get("HOTCELL", ROOT / "build" / "hotcell")).resolve()
# Claims about runs hold in each of these.
EVERY_ISOLATION = ["container", "vm", "process"]
IS_ROOT = os.geteuid() == 0
NOBODY = 65534
CELL_UIDS = range(0x70000000, 0x7FFFFFFF)


def may_have(isolation, who):
    """Whether this user can make such cells here: /dev/kvm is not for everybody."""
    return isolation != "vm" or who != "nobody" or os.stat("/dev/kvm").st_mode & 0o006 == 0o006


# Nothing is measured by this: it only turns a hang into a failure.
PATIENCE_S = 120

SANITIZER = re.compile(rb"AddressSanitizer|LeakSanitizer|UndefinedBehavior|runtime error: ")


class Result:
    """How a hotcell ended. `out` and `err` are text, `raw_out` and `raw_err` the bytes."""

    def __init__(self, code, raw_out, raw_err):
        self.code = code
        self.raw_out = raw_out or b""
        self.raw_err = raw_err or b""
        self.out = self.raw_out.decode(errors="backslashreplace")
        self.err = self.raw_err.decode(errors="backslashreplace")
        found = SANITIZER.search(self.raw_err)
        # A program may print such words too, but ours do not.
        assert not found, f"a sanitizer spoke up:\n{self.err}"

    def __repr__(self):
        return f"<exit {self.code}\nstdout: {self.out[-2000:]}\nstderr: {self.err[-2000:]}>"


class Hotcell:
    """A hotcell of one user, with an environment of its own.

        hotcell("languages")                       -> Result
        hotcell.run("-l", "sh", "-c", "exit 3")    -> Result
        hotcell.json("-l", "sh", "-c", "exit 3")   -> dict, what --json printed
        hotcell.start("run", ...)                  -> subprocess.Popen with pipes
    """

    def __init__(self, program, home, user=None):
        self.program = Path(program)
        self.home = Path(home)
        self.user = user
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
        }
        for name in os.environ:
            if name.endswith("SAN_OPTIONS"):
                self.env[name] = os.environ[name]

    def _as_user(self):
        if self.user is None:
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": []}

    def command(self, *args):
        return [str(self.program), *(str(arg) for arg in args)]

    def start(self, *args, env=None, wrapper=(), **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("cwd", "/")
        return subprocess.Popen(
            [*wrapper, *self.command(*args)],
            env=self.env if env is None else env,
            **self._as_user(),
            **options,
        )

    def __call__(self, *args, input=None, **options):
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*args, **options)
        try:
            out, err = process.communicate(input, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"hotcell hangs: {args}\n{out[-2000:]}\n{err[-2000:]}") from None
        return Result(process.returncode, out, err)

    def run(self, *args, **options):
        return self("run", *args, **options)

    def json(self, *args, **options):
        """The object that --json prints. That hotcell itself failed is a failure here."""
        result = self.run("--json", *args, **options)
        assert result.out, result
        return json.loads(result.out)

    def languages(self):
        return {row["id"]: row for row in json.loads(self("languages", "--json").out)}


# ---- many runs in one cell ----


def in_one_cell(programs, isolation, *lines, language="python", count=False, once=False):
    """What library/reuse answers to each of these lines."""
    done = subprocess.run([programs / "reuse", isolation, language, *["count"] * count, *["once"] * once],
                          input="".join(line + "\n" for line in lines), capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stderr)
    return done.stdout.splitlines()


class Session:
    """A program that embeds the library and runs what it is told in cells that it made before: library/session.c
    has the words.

        with Session(programs, isolation="vm", language="python") as session:
            session.make()                              # a cell, and waits until it is ready
            session.run("print(1)", stdin="x")          # → dict
    """

    def __init__(self, programs, **settings):
        self.process = subprocess.Popen([programs / "session"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.say(**settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert (code, said) == (0, b""), (code, said)

    @staticmethod
    def _escape(value):
        data = value if isinstance(value, bytes) else str(value).encode()
        return data.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\0", b"\\0")

    def _write(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def say(self, **settings):
        for word, value in settings.items():
            for each in value if isinstance(value, list) else [value]:
                self._write(word.encode() + b" " + self._escape(each))

    def make(self, **settings):
        self.say(**settings)
        self._write(b"make")
        self._write(b"ready")

    def unmake(self):
        self._write(b"unmake")

    def run(self, code, **settings):
        """Settings stay, but for input, arguments, variables and files."""
        self.say(code=code, **settings)
        self._write(b"run")
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)


# ---- copies that everybody can reach ----


def public_dir():
    """A directory that other users may enter: pytest's own are private. Not below /tmp either: there
    a cell has its own, so that nothing in it can be among a language's `needs`."""
    where = "/var/lib" if IS_ROOT else HOTCELL.parent
    path = Path(tempfile.mkdtemp(prefix="hotcell-test-", dir=where))
    path.chmod(0o755)
    return path


def copy_programs(to):
    """The build tree's programs and what they need beside them. Returns the hotcell."""
    (to / "bin").mkdir()
    for name in ("hotcell", "hotcell-client", "hotcell-daemon", "hotcell-warden", "hotcell-vmm"):
        shutil.copy(HOTCELL.with_name(name), to / "bin" / name)
    for name in ("languages", "drivers"):
        shutil.copytree(ROOT / name, to / "share" / "hotcell" / name)
    subprocess.run(["chmod", "-R", "a+rX", str(to)], check=True)
    return to / "bin" / "hotcell"


# ---- what is left ----


def token():
    """A word that no other process has on its command line."""
    return f"token-{uuid.uuid4().hex}"


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def pids_with(word):
    """Processes that have `word` on their command line."""
    found = []
    for pid in pids():
        try:
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            pass
    return found


def pids_below(directory):
    """Processes of the hotcell that was copied to `directory`: the path is on the command line of
    hotcells and wardens; of keepers only root can see where their program is."""
    found = pids_with(f"{directory}/")
    for pid in pids():
        try:
            if os.readlink(f"/proc/{pid}/exe").startswith(f"{directory}/") and pid not in found:
                found.append(pid)
        except OSError:
            pass
    return found


def children_of(parent):
    """{pid: state}"""
    found = {}
    for pid in pids():
        try:
            state, its_parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(its_parent) == parent:
            found[pid] = state
    return found


def ancestors_of(pid):
    found = []
    while pid > 1:
        stat = read(f"/proc/{pid}/stat")
        pid = int(stat.rsplit(b")", 1)[1].split()[1]) if stat else 0
        found.append(pid)
    return found


def wait_until(condition, what):
    """Polls; only a hang guard has a time."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"it never came true that {what}"
        time.sleep(0.005)


def program_pid(word):
    """The pid of the program in a cell that was given `word` by --arg; waits for it.

    `word` is also on hotcell's own command line, and on that of nothing else. In a vm the program is
    its VMM, beneath that hotcell, which need not have the word."""
    found = []

    def look():
        with_word = pids_with(word)
        found[:] = [pid for pid in with_word
                    if not read(f"/proc/{pid}/comm").startswith(b"hotcell")]
        found.extend(pid for pid in pids() if read(f"/proc/{pid}/comm") == b"hotcell-vmm\n"
                     and set(with_word) & set(ancestors_of(pid)))
        return found

    wait_until(look, "the program runs")
    return found[0]


def read(path):
    """What is there to be read; nothing if it is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def cgroup_mounts():
    """{controller: (mount point, root of the mount)}; version 2 has the controller ''."""
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        root, point = left.split()[3:5]
        if kind == "cgroup":
            for option in options.split(","):
                mounts.setdefault(option, (point, root))
        elif kind == "cgroup2":
            mounts.setdefault("", (point, root))
    return mounts


def cgroups_of(pid):
    """{controller: directory} of a process."""
    mounts = cgroup_mounts()
    found = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounts:
                point, root = mounts[controller]
                found[controller] = Path(point) / os.path.relpath(path, root)
    return found


def is_dead(name):
    """Whether the warden that `hotcell-<pid namespace>-<pid>-<start time>` names is no more."""
    match = re.match(r"hotcell-(\d+)-(\d+)-(\d+)", name)
    if not match or int(match[1]) != os.stat("/proc/self/ns/pid").st_ino:
        return False
    try:
        stat = Path(f"/proc/{match[2]}/stat").read_text()
    except OSError:
        return True
    return stat.rsplit(")", 1)[1].split()[19] != match[3]


def orphaned_cgroups():
    """Directories of dead wardens in the cgroups that we are in, and above."""
    found = set()
    for directory in set(cgroups_of(os.getpid()).values()):
        for place in (directory, *directory.parents):
            if place == Path("/sys/fs/cgroup") or not str(place).startswith("/sys/fs/cgroup"):
                break
            found |= {path for path in place.glob("hotcell-*") if is_dead(path.name)}
    return found


def orphaned_directories():
    """Directories of dead process cells."""
    return {path for path in Path("/tmp").glob("hotcell-*") if is_dead(path.name)}


def mounts():
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def kill(pid, how=signal.SIGKILL):
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        pass
