"""libhotcell from a program's point of view: it runs cells and grows by nothing."""
import os
import subprocess
from pathlib import Path

import harness
import pytest
from harness import in_one_cell


@pytest.fixture(scope="module")
def program(programs):
    return programs / "runs"


class Embedding:
    def __init__(self, program, isolation):
        self.process = subprocess.Popen(
            [program, isolation], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, times):
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def wardens(self):
        return sorted(harness.children_of(self.process.pid))

    def facts(self):
        """What could grow, of the program and of its wardens."""
        wardens = self.wardens()

        def living():
            return [pid for warden in wardens for pid, state in harness.children_of(warden).items()
                    if state != "Z"]

        harness.wait_until(lambda: not living(), "all cells are gone")
        return {(name, number): value
                for number, pid in enumerate([self.process.pid, *wardens])
                for name, value in facts_of(pid).items()}


def facts_of(pid):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    groups = [path for path in harness.cgroups_of(os.getpid()).values()]
    return {
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "mounts": len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines()),
        "data KiB": int(status["VmData"].split()[0]),
        "memory KiB": int(status["RssAnon"].split()[0]),
        "threads": int(status["Threads"]),
        "mappings": len(Path(f"/proc/{pid}/maps").read_text().splitlines()),
        "children": len(harness.children_of(pid)),
        "cgroups": len({path for group in groups for path in group.glob(f"hotcell-*-{pid}-*")}),
    }


@pytest.mark.needs_root("only root may look into the warden, which is not dumpable")
def test_a_hundred_runs_in_a_row_leave_no_growth(program, isolation):
    embedding = Embedding(program, isolation)
    embedding.run(20)
    before = embedding.facts()
    assert len([name for name in before if name[0] == "mounts"]) >= 2, "it has a warden"
    embedding.run(100)
    after = embedding.facts()
    # The sanitizer keeps what was freed for a while; it has better means to find what was not.
    memory = ("data KiB", "memory KiB", "mappings")
    if b"libasan" in Path(f"/proc/{embedding.process.pid}/maps").read_bytes():
        before = {key: value for key, value in before.items() if key[0] not in memory}
        after = {key: value for key, value in after.items() if key[0] not in memory}
    # A hundred leaks of the smallest kind would be more than the page or two that come and go.
    grown = {key: (before[key], after[key]) for key in before
             if after[key] > before[key] + (16 if "KiB" in key[0] else 0)}
    assert grown == {}
    embedding.process.stdin.close()
    assert embedding.process.wait(harness.PATIENCE_S) == 0


def test_closing_waits_until_nothing_is_left(program, isolation):
    embedding = Embedding(program, isolation)
    embedding.run(3)
    wardens = embedding.wardens()
    assert wardens
    embedding.process.stdin.close()
    assert embedding.process.wait(harness.PATIENCE_S) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in wardens)


def test_a_killed_program_takes_its_warden_along(program, isolation):
    embedding = Embedding(program, isolation)
    embedding.run(1)
    wardens = embedding.wardens()
    embedding.process.kill()
    embedding.process.wait()
    harness.wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in wardens), "it is gone")


# ---- many runs in one cell ----

WALLS = ["container", "vm"]


@pytest.mark.parametrize("isolation", WALLS)
def test_processor_time_is_counted_for_each_run(programs, isolation):
    burn = "import time\\nend = time.time() + 0.5\\nwhile time.time() < end: pass"
    assert in_one_cell(programs, isolation, *[f"1000 256 - {burn}"] * 5) == ["exited 0 |"] * 5


@pytest.mark.parametrize("isolation", WALLS)
def test_a_run_has_its_own_limits_and_settings(programs, isolation):
    files = "import os\\ntry:\\n  while 1: n = os.dup(0)\\nexcept OSError: print(n + 1, end='')"
    zone = "import time; print(time.tzname[0], end='')"
    assert in_one_cell(programs, isolation, f"9000 40 - {files}", f"9000 90 - {files}", f"9000 40 - {files}",
                       f"9000 40 TZ=XYZ1 {zone}", f"9000 40 - {zone}") == [
        "exited 0 40|", "exited 0 90|", "exited 0 40|", "exited 0 XYZ|", "exited 0 UTC|"]


def test_a_run_in_a_vm_has_its_own_counts(programs):
    """The cell's first machine rehearses; one that forked is not used again."""
    code = "import ctypes, os; [ctypes.CDLL(None).syscall(n, 0, 0, 0, 0) for n in (%s)]"
    assert in_one_cell(programs, "vm", "9000 99 - pass", f"9000 99 - {code % '101, 999'}", "9000 99 - pass",
                       f"9000 99 - {code % '998,'}; os.fork() or os._exit(0); os.wait()",
                       f"9000 99 - pass", count=True) == [
        "0  exited 0 |", "2  exited 0 |", "0  exited 0 |", "1  exited 0 |", "0  exited 0 |"]


def test_a_run_in_a_vm_finds_nothing_of_the_one_before(programs):
    leave = "import os; print(sorted(os.listdir()), os.listdir('/tmp'), end=''); open('left', 'w'); open('/tmp/left', 'w')"
    empty = "exited 0 ['main.py'] []|"
    assert in_one_cell(programs, "vm", f"9000 40 - {leave}", f"9000 40 - {leave}", f"9000 40 TZ=UTC {leave}",
                       f"9000 40 - {leave}") == [empty] * 4


# What each run does to its surroundings, and what the next must find nonetheless: a run that only
# prints is treated more cheaply than one that does more, before it and after it.
DISTURBANCES = {
    "nothing": "pass",
    "closed stdout": "import os; os.close(1)",
    "moved stdout": "import os; os.dup2(os.open('elsewhere', os.O_CREAT | os.O_WRONLY), 1)",
    "stdout does not wait": "import os; os.set_blocking(1, False)",
    "small pipe": "import fcntl; fcntl.fcntl(1, 1031, 4096)",
    "output of another kind": "import sys; sys.stdout = None",
    "directory": "import os; os.makedirs('a/b'); os.chdir('a/b')",
    "mask": "import os; os.umask(0o777)",
    "alarm": "import signal; signal.signal(14, lambda *_: None); signal.setitimer(0, 0.01, 0.01)",
    "own file": "open(__file__, 'w').write('changed')",
    "own file gone": "import os; os.remove(__file__)",
    "locked": "import os; os.chmod('.', 0)",
    "failure": "raise SystemExit(3)",
    "output left": "import sys; sys.stdout.write('x' * 100)",
    "much output": "import sys; sys.stdout.write('x' * 100000)",
}
LOOK = ("import os, fcntl, signal; print(os.getcwd(), sorted(os.listdir()), os.listdir('/tmp'), os.umask(0), "
        "os.get_blocking(1), fcntl.fcntl(1, 1032), signal.getitimer(0), open(__file__).read()[:9], "
        "os.stat(__file__).st_mode, sorted(os.listdir('/proc/self/fd'))[:3], end='')")


@pytest.mark.parametrize("name", DISTURBANCES)
def test_a_run_in_a_vm_finds_all_in_place_whatever_was_before(programs, name):
    quiet = "9000 40 - print('quiet', end='')"
    look = f"9000 40 - {LOOK}"
    disturb = f"9000 40 - {DISTURBANCES[name]}"
    told = in_one_cell(programs, "vm", look, disturb, look, quiet, disturb, quiet, quiet, look)
    assert told[0].startswith("exited 0 /workspace ['main.py'] [] 18 True ")
    assert (told[2], told[7]) == (told[0], told[0])
    assert told[3] == told[5] == told[6] == "exited 0 quiet|"
    assert told[1] == told[4]


# ---- machines that serve one run each, in one cell ----

LEAVES = {
    "nothing": "pass",
    "files": "open('left', 'w'); open('/tmp/left', 'w'); __import__('os').chmod('.', 0)",
    "processes": "import os, time\\nif os.fork() == 0:\\n  os.setsid()\\n  if os.fork() == 0: time.sleep(99)\\n  os._exit(0)",
    "failure": "raise SystemExit(3)",
    "crash": "import ctypes; ctypes.string_at(0)",
    "no time": "while True: pass",
    "output": "print('x' * 50000, end='')",
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_machine_for_each_run_finds_nothing_of_the_one_before(programs, name):
    """Numbers of processes tell machines apart: those of one follow each other."""
    look = ("9000 40 - import os, random; print(sorted(os.listdir()), os.listdir('/tmp'), "
            "len([n for n in os.listdir('/proc') if n.isdigit()]), os.getpid(), random.random(), end='')")
    leave = f"100 40 - {LEAVES[name]}"
    first, _, second, quiet, third = in_one_cell(
        programs, "vm", look, leave, look, "9000 40 - print(1, end='')", look, once=True)
    assert quiet == "exited 0 1|"
    places, pids, numbers = zip(*[(line.rsplit(" ", 2)[0], *line.rstrip("|").split()[-2:]) for line in (first, second, third)])
    assert places == ("exited 0 ['main.py'] [] 1",) * 3
    assert len(set(numbers)) == 3
    assert all(abs(int(a) - int(b)) > 10 for a, b in zip(pids, pids[1:])), pids


# Its memory is another one's from the second machine of a cell on (vmm/spare.h).
HIDE = ("secret = bytes(b ^ 85 for b in b'not for anybody else' * 2)\\nkept = [bytearray(secret) for i in range(40000)]\\n"
        "print(len(kept), end='')")
SEEK = ("import ctypes, re\\nsecret = bytes(b ^ 85 for b in b'not for anybody else' * 2)\\nfound = seen = 0\\n"
        "for line in open('/proc/self/maps').read().splitlines():\\n"
        "  start, end = (int(x, 16) for x in line.split()[0].split('-'))\\n"
        "  if line.split()[1][:2] == 'rw' and end - start < 1 << 28:\\n"
        "    seen += 1; found += len(re.findall(re.escape(secret[:24]), ctypes.string_at(start, end - start)))\\n"
        "print(seen > 3, found < 50, end='')")


def test_a_machine_for_each_run_has_no_memory_of_the_one_before(programs):
    told = in_one_cell(programs, "vm", *[f"9000 40 - {code}" for code in (HIDE, SEEK) * 3], once=True)
    assert told == ["exited 0 40000|", "exited 0 True True|"] * 3


def test_what_is_forked_in_a_machine_for_one_run_has_memory_of_its_own(programs):
    fork = ("import mmap, os; r, w = os.pipe(); shared = mmap.mmap(-1, 4096); own = bytearray(b'p' * 100000); list = ['p'] * 5000\\n"
            "if os.fork() == 0:\\n"
            "  own[:] = b'c' * 100000; list[:] = ['c'] * 5000; shared[0] = 99; more = [str(i) for i in range(20000)]\\n"
            "  os.write(w, own[:1] + list[-1].encode()); os._exit(len(set(own)))\\n"
            "said = os.read(r, 9); ended = os.wait()[1] >> 8; more = [str(i) for i in range(20000)]\\n"
            "print(said, ended, bytes(own[-2:]), list[0], shared[0], len(more), end='')")
    told = in_one_cell(programs, "vm", *[f"9000 40 - {fork}"] * 4, once=True)
    assert told == ["exited 0 b'cc' 1 b'pp' p 99 20000|"] * 4


def test_a_machine_for_each_run_has_the_limits_of_its_run(programs):
    """Whoever makes the machines has limits of its own, and another one is needed then."""
    code = "import os, resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], os.fstat(0).st_rdev == os.stat('/dev/null').st_rdev, end='')"
    counts = (40, 40, 40, 50, 50, 60, 40)
    told = in_one_cell(programs, "vm", *[f"9000 {count} - {code}" for count in counts], once=True)
    assert told == [f"exited 0 {count} True|" for count in counts]


# ---- many runs of JavaScript in one warm machine ----

def in_one_machine(programs, *codes):
    done = in_one_cell(programs, "vm", *[f"9000 99 - {code}" for code in codes], language="javascript")
    return [line.rstrip("|") for line in done if line != "|"]


# What a program can find out about the machine that it is in, descriptors and all.
LOOK_AROUND = """const fs = require('fs'); const seen = [];
for (let fd = 3; fd < 60; fd++) try {
  const b = Buffer.alloc(64); const s = fs.fstatSync(fd); let got;
  try { got = fs.readSync(fd, b, 0, 64, null) } catch (e) { got = e.code }
  seen.push([fd, s.mode, s.size, got, b.toString('hex', 0, 4)]) } catch (e) { seen.push(e.code) }
console.log(JSON.stringify([seen, Object.keys(globalThis), Object.keys(process.env), [].x, process.cwd(), process.umask(),
  Object.keys(require.cache), process.eventNames(), fs.readdirSync('.'), fs.readdirSync('/tmp'), process.argv,
  Object.keys(Object.prototype), typeof fs.readSync, process.exitCode, process.title]))""".replace("\n", "\\n")

SPOILS = {
    "descriptors": "const fs = require('fs'); for (let fd = 3; fd < 40; fd++) { try { fs.writeSync(fd, Buffer.alloc(8, 1)) } catch {}"
                   " try { fs.readSync(fd, Buffer.alloc(8)) } catch {} }",
    "closed ones": "const fs = require('fs'); for (let fd = 3; fd < 40; fd++) try { fs.closeSync(fd) } catch {};"
                   " for (let i = 0; i < 30; i++) fs.openSync('/workspace/f' + i, 'w'); process.reallyExit(0)",
    "globals": "globalThis.x = 1; Array.prototype.x = 1; Object.prototype.x = 1; require('fs').readSync = null; process.env.X = '1';"
               " process.chdir('/tmp'); process.umask(0); process.exitCode = 3; process.title = 'x'; process.on('foo', () => {})",
    "files": "const fs = require('fs'); fs.writeFileSync('package.json', '{\"type\": \"module\"}');"
             " fs.writeFileSync('m.cjs', 'exports.a = 1'); require('./m.cjs'); fs.writeFileSync('/tmp/x', 'x')",
    "timers": "setInterval(() => {}, 1); setTimeout(() => process.exit(0), 20)",
    "threads": "const { Worker } = require('worker_threads'); new Worker('setInterval(() => {}, 1000)', { eval: true })"
               ".on('online', () => process.exit(0))",
    "work elsewhere": "require('crypto').pbkdf2('a', 'b', 1e7, 8, 'sha512', () => {}); setTimeout(() => process.exit(0), 20)",
    "failure": "process.on('uncaughtException', () => process.exit(1)); throw 1",
    "memory": "const a = []; for (let i = 0; i < 100; i++) a.push(Buffer.alloc(1 << 20, 1)); globalThis.a = a",
    "handlers": "process.on('SIGTERM', () => {}); process.on('SIGINT', () => {}); setTimeout(() => process.exit(0), 5)",
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_run_of_javascript_finds_nothing_of_the_one_before(programs, spoil):
    first, _, second, _, third = in_one_machine(programs, LOOK_AROUND, SPOILS[spoil], LOOK_AROUND, SPOILS[spoil], LOOK_AROUND)
    assert first.startswith("exited 0 [[[3,")
    assert (second, third) == (first, first)


def test_a_machine_works_after_every_spoiling(programs):
    """Timers, files and threads of node need the descriptors that a snapshot has made again."""
    work = ("const fs = require('fs'); setTimeout(() => fs.promises.readFile(__filename).then((t) =>"
            " require('zlib').gzip(t, (e, z) => console.log(e, z.length > 0))), 1)")
    done = in_one_machine(programs, work, *[code for spoil in SPOILS.values() for code in (spoil, work)])
    assert done[::2] == ["exited 0 null true"] * (len(SPOILS) + 1)


def test_a_program_that_ends_itself_does_not_end_its_machine(programs):
    """Runs of one machine have numbers that follow each other."""
    ends = ["process.reallyExit(3)", "process.exit(4)", "process.on('exit', () => process.exit(5))",
            "process.on('unhandledRejection', () => process.exit(6)); Promise.reject(1)", ""]
    done = in_one_machine(programs, *[f"require('fs').writeSync(1, process.pid + ' '); {end}" for end in ends])
    codes, pids = zip(*[(line.split()[1], int(line.split()[2])) for line in done])
    assert codes == ("3", "4", "5", "6", "0")
    assert [pid - pids[0] for pid in pids] == [0, 1, 2, 3, 4]


def test_no_two_runs_have_the_same_random_numbers(programs):
    draw = ("const c = require('crypto'); console.log([Math.random(), c.randomUUID(), c.randomBytes(8).toString('hex'), c.randomInt(2 ** 40),"
            " c.getRandomValues(new Uint32Array(2)).join(), require('vm').runInNewContext('Math.random()'),"
            " c.generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x].join(' '))")
    draws = []
    for _ in range(2):
        draws += [line.split() for line in in_one_machine(programs, *[draw] * 10)]
    for column in list(zip(*draws))[2:]:
        assert len(set(column)) == len(draws), column


def test_threads_of_a_run_have_numbers_of_their_own(programs):
    code = ("const { Worker } = require('worker_threads'); const seen = [Math.random()]; for (let i = 0; i < 3; i++) new Worker("
            "'require(\"worker_threads\").parentPort.postMessage(Math.random())', { eval: true }).on('message', (m) =>"
            " { seen.push(m); if (seen.length === 4) console.log(new Set(seen).size) })")
    assert in_one_machine(programs, code, code) == ["exited 0 4", "exited 0 4"]


@pytest.mark.parametrize("order", ["own, context, context", "context, own, context", "context, context, own"])
def test_contexts_of_a_run_have_numbers_of_their_own(programs, order):
    code = ("const vm = require('vm'); const { createContext } = vm; const own = () => Math.random();"
            " const context = () => vm.runInContext('Math.random()', vm.createContext()); const seen = "
            f"[{order.replace(',', '(),')}(), vm.runInNewContext('Math.random()')];"
            " console.log(new Set(seen).size, vm.runInContext('Math.random()', createContext()) === seen[0])")
    assert in_one_machine(programs, code, code) == ["exited 0 4 false", "exited 0 4 false"]


def test_what_node_does_by_itself_takes_no_number_away(programs):
    """Random numbers are begun when a program first asks for them: nobody else may have."""
    code = ("const form = new FormData(); form.append('a', new Blob(['text'])); new Response(form).text(); new URL('http://a/');"
            " require('http').createServer().listen(0, function () { this.close(); require('fs').mkdtempSync('/tmp/a-');"
            " console.log(Math.random()) })")
    assert len(set(in_one_machine(programs, code, code, code))) == 3


def test_what_uses_numbers_is_as_quick_as_ever(programs):
    """By what V8 says of the object: a redefined property must not leave it slow."""
    code = ("require('v8').setFlagsFromString('--allow-natives-syntax'); const fast = new Function('return %HasFastProperties(Math)');"
            " console.log(fast(), Math.random() < 1, fast())")
    assert in_one_machine(programs, code) == ["exited 0 true true true"]
