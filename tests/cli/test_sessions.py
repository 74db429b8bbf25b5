"""Runs in one cell that keep their state: what one leaves, the next one finds."""
import pytest
from harness import Session

WALLS = ["container", "vm"]
LANGUAGES = ["python", "javascript", "bash"]

# For each language: code and what it prints, one after the other in the same cell.
STORIES = {
    "python": [
        ("x = 1\ndef f(): return x + 1\nclass C:\n    n = 5\nc = C()", ""),
        ("import collections as col, os; c.n += 1; print(f(), c.n)", "2 6\n"),
        ("print(col.Counter('aab')['a'], x); file = open('data', 'w+'); file.write('text')", "2 1\n"),
        ("file.seek(0); print(file.read()); os.mkdir('d'); os.chdir('d'); os.environ['Y'] = 'z'", "text\n"),
        ("print(os.getcwd(), os.environ['Y'], __name__, f.__module__)", "/workspace/d z __main__ __main__\n"),
        ("import random; random.seed(5); a = random.random()", ""),
        ("random.seed(5); print(a == random.random(), random.random() != random.random())", "True True\n"),
        ("g = (i * i for i in range(9)); print(next(g), next(g))", "0 1\n"),
        ("print(next(g)); del x", "4\n"),
        ("print('x' in globals(), sys.argv) if 'sys' in globals() else print('x' in globals())", "False\n"),
    ],
    "javascript": [
        ("const x = 1; let y = 2; var z = 3; function f() { return x + 1 } class C { n = 5 } const c = new C()", ""),
        ("const fs = require('fs'); c.n += 1; console.log(f(), c.n, y, z)", "2 6 2 3\n"),
        ("const x = 10; y = 20; console.log(f(), x, y); fs.writeFileSync('data', 'text'); const fd = fs.openSync('data')",
         "11 10 20\n"),
        ("console.log(fs.readFileSync(fd, 'utf8')); fs.mkdirSync('d'); process.chdir('d'); process.env.Y = 'z'", "text\n"),
        ("console.log(process.cwd(), process.env.Y, typeof require, __filename)", "/workspace/d z function /workspace/main.js\n"),
        ("const w = await new Promise((r) => setTimeout(() => r(7), 20)); console.log(w)", "7\n"),
        ("import { join } from 'node:path'; setTimeout(() => console.log('late', w), 10)", "late 7\n"),
        ("console.log(join('a', 'b')); function x() { return 'f' } console.log(x())", "a/b\nf\n"),
        ("let { p, q: [r] } = { p: 1, q: [2] }; for (var i = 0; i < 3; i++) var last = i; console.log(p, r, i, last)", "1 2 3 2\n"),
        ("console.log(typeof C, x(), p + r)", "function f 3\n"),
    ],
    "bash": [
        ("x=1; f() { echo $((x + 1)); }; declare -A m=([a]=5); shopt -s nullglob", ""),
        ("((m[a]++)); f; echo ${m[a]}; echo *.nothing", "2\n6\n\n"),
        ("echo text >data; exec 7<data; mkdir d; cd d; export Y=z", ""),
        ("pwd; sh -c 'echo $Y'; cat <&7; echo $0 $#", "/workspace/d\nz\ntext\nmain.sh 0\n"),
        ("set -o pipefail; alias_count=0; g() { exit 3; }", ""),
        ("set -o | grep -c 'pipefail.*on'", "1\n"),
        ("(exit 4); echo $?; echo a | while read -r l; do exit 5; done; echo $?; v=$(exit 6); echo $?", "4\n5\n6\n"),
        ("echo ${BASH_SOURCE[0]} $x", "/workspace/main.sh 1\n"),
    ],
}
# How a program may end without an end of its state: code and status.
ENDS = {
    "python": [("raise ValueError('bad')", 1), ("import sys; sys.exit(7)", 7), ("sys.exit('words')", 1), ("if x\n", 1),
               ("raise SystemExit", 0), ("def h(): h()\nh()", 1), ("exit(9)", 9)],
    "javascript": [("throw new Error('bad')", 1), ("process.exit(7); console.log('no')", 7),
                   ("try { process.exit(3) } catch { console.log('no') } console.log('no')", 3), ("if x\n", 1),
                   ("await Promise.reject(new Error('bad'))", 1), ("Promise.reject(5); 1", 1), ("process.exitCode = 4", 4),
                   ("setTimeout(() => { throw 1 })", 1), ("setTimeout(() => process.exit(6), 5); setTimeout(() => {}, 9999)", 6),
                   ("await new Promise(() => {})", 13), ("const h = () => h(); h()", 1)],
    "bash": [("false", 1), ("exit 7; echo no", 7), ("g() { exit 3; }; for i in 1 2; do g; done; echo no", 3), ("if x\n", 2),
             ("nosuchprogram", 127), ("return 5; echo no", 5), ("set -e; echo a | grep b; echo no", 1), ("set +e; (exit 9)", 9)],
}
SET = {"python": "kept = 41", "javascript": "let kept = 41", "bash": "kept=41"}
GET = {"python": "print(kept + 1)", "javascript": "console.log(kept + 1)", "bash": "echo $((kept + 1))"}
HAS = {"python": "print('kept' in globals())", "javascript": "console.log(typeof kept)", "bash": "echo ${kept-none}"}
HAS_NOT = {"python": "False\n", "javascript": "undefined\n", "bash": "none\n"}
DIE = {"python": "import os; os.kill(os.getpid(), 9)", "javascript": "process.kill(process.pid, 'SIGKILL'); for (;;);",
       "bash": "kill -9 $$"}
SPIN = {"python": "print('on', flush=True)\nwhile True: pass", "javascript": "console.log('on'); for (;;);",
        "bash": "echo on; while :; do :; done"}
SLEEP = {"python": "print('on', flush=True); import time; time.sleep(100)",
         "javascript": "console.log('on'); await new Promise((r) => setTimeout(r, 100000))",
         "bash": "echo on; sleep 100; echo off"}
STUBBORN = {"python": "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass",
            "javascript": "await null; for (;;);",
            "bash": "trap '' INT; while :; do :; done"}

pytestmark = pytest.mark.parametrize("isolation", WALLS)
each_language = pytest.mark.parametrize("language", LANGUAGES)


@pytest.fixture
def open_session(programs, isolation):
    opened = []

    def get(language, **settings):
        session = Session(programs, isolation=isolation, language=language, keep=1, **settings)
        opened.append(session)
        session.make()
        return session

    yield get
    for session in opened:
        session.__exit__()


def kept(result):
    assert result.get("state") == "kept", result
    return result


def assert_lives(session, language):
    assert kept(session.run(GET[language]))["out"] == "42\n"


@each_language
def test_each_run_finds_what_those_before_it_left(open_session, language):
    session = open_session(language)
    for code, out in STORIES[language]:
        result = kept(session.run(code))
        assert (result["out"], result["err"], result["code"]) == (out, "", 0), code


@each_language
def test_a_failure_ends_the_run_and_not_the_state(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    for code, status in ENDS[language]:
        result = kept(session.run(code))
        assert (result["reason"], result["code"], result["out"]) == ("exited", status, ""), code
        assert_lives(session, language)


@each_language
def test_a_death_loses_the_state_and_not_the_files(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    result = session.run(DIE[language])
    assert (result["state"], result["reason"], result["code"]) == ("lost", "signaled", 137)
    result = kept(session.run(HAS[language]))
    assert result["out"] == HAS_NOT[language]
    kept(session.run(SET[language]))
    assert_lives(session, language)


@each_language
def test_a_run_that_takes_too_long_is_interrupted_first(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    for code in (SPIN[language], SLEEP[language]):
        result = kept(session.run(code, wall_ms=700))
        assert (result["reason"], result["code"], result["out"]) == ("timeout", -1, "on\n")
        session.say(wall_ms=0)
        assert_lives(session, language)


@each_language
def test_a_run_that_minds_no_interruption_is_ended(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    result = session.run(STUBBORN[language], wall_ms=300)
    assert (result["reason"], result["state"]) == ("timeout", "lost")
    assert kept(session.run(HAS[language], wall_ms=0))["out"] == HAS_NOT[language]


@each_language
def test_an_interruption_ends_the_run_and_not_the_state(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    for code in (SPIN[language], SLEEP[language]):
        # Not at once: a shell loses one while it is about to start a command.
        result = kept(session.run(code, interrupt=1500))
        assert (result["reason"], result["code"], result["out"]) == ("exited", 130, "on\n")
        assert "session" not in result["err"] and "warm" not in result["err"]
        assert_lives(session, language)


@each_language
def test_a_run_that_is_cancelled_leaves_the_state(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    assert kept(session.run(SLEEP[language], cancel=1500))["reason"] == "cancelled"
    session.say(sleep=2300)  # as long as a warden would wait for a cell that does not obey
    assert_lives(session, language)


@each_language
def test_input_arguments_and_variables_are_each_runs_own(open_session, language):
    session = open_session(language)
    read = {"python": "import sys, os; print(sys.stdin.readline(), sys.argv[1:], os.environ.get('V'))",
            "javascript": "console.log(require('fs').readFileSync(0, 'utf8').split('\\n')[0], process.argv.slice(2),"
                          " process.env.V)",
            "bash": "read -r line; echo $line \"$@\" $V"}[language]
    outs = [kept(session.run(read, **settings))["out"] for settings in (
        {"stdin": "first\nleft over\n", "arg": ["a", "b c"], "env": "V=1"}, {}, {"stdin": "second\n" * 30000, "arg": ["d"]},
        {"stdin": ""})]
    assert outs == {
        "python": ["first\n ['a', 'b c'] 1\n", " [] 1\n", "second\n ['d'] 1\n", " [] 1\n"],
        "javascript": ["first [ 'a', 'b c' ] 1\n", " [] 1\n", "second [ 'd' ] 1\n", " [] 1\n"],
        "bash": ["first a b c 1\n", "1\n", "second d 1\n", "1\n"]}[language]


def test_streams_of_javascript_are_each_runs_own(open_session):
    session = open_session("javascript")
    code = "let all = ''; for await (const piece of process.stdin) all += piece; console.log(all.length)"
    assert [kept(session.run(code, **settings))["out"] for settings in (
        {"stdin": "abc"}, {"stdin": "x" * 100000}, {}, {"stdin": ""})] == ["3\n", "100000\n", "0\n", "0\n"]


@each_language
def test_other_programs_run_beside_it(open_session, language):
    session = open_session(language)
    kept(session.run(SET[language]))
    other = session.run("echo beside; ls; exit 3", language="sh", keep=0)
    assert (other["state"], other["code"], other["out"]) == ("none", 3, "beside\nmain.sh\n" if language == "bash" else
                                                              other["out"])
    timeout = session.run("echo on; sleep 100 & sleep 100", wall_ms=300)
    assert (timeout["reason"], timeout["out"]) == ("timeout", "on\n")
    session.say(language=language, keep=1, wall_ms=0)
    assert_lives(session, language)


@each_language
def test_files_of_a_run_are_those_that_it_made_or_changed(open_session, language):
    session = open_session(language)
    make = {"python": "open('{0}', 'w').write('{1}')", "javascript": "require('fs').writeFileSync('{0}', '{1}')",
            "bash": "echo {1} >{0}"}[language]
    assert kept(session.run(make.format("a", "1")))["files"] == ["a"]
    assert kept(session.run(make.format("b", "1")))["files"] == ["b"]
    assert kept(session.run(SET[language]))["files"] == []
    assert kept(session.run(make.format("a", "22"), file="in data"))["files"] == ["a"]


@each_language
def test_what_runs_in_the_background_goes_on(open_session, language):
    session = open_session(language)
    begin = {"python": "import subprocess; p = subprocess.Popen(['sh', '-c', 'while [ ! -e go ]; do sleep 0.05; done; echo late;"
                       " echo done >done'])",
             "javascript": "const p = require('child_process').spawn('sh', ['-c', 'while [ ! -e go ]; do sleep 0.05; done;"
                           " echo late; echo done >done'], { stdio: 'inherit' }); p.unref()",
             "bash": "(while [ ! -e go ]; do sleep 0.05; done; echo late; echo done >done) &"}[language]
    wait = {"python": "import os, time\nwhile not os.path.exists('done'): time.sleep(0.01)\nprint(p.wait(), open('done').read())",
            "javascript": "const fs = require('fs'); while (!fs.existsSync('done')) await new Promise((r) => setTimeout(r, 10));"
                          " console.log(0, fs.readFileSync('done', 'utf8'))",
            "bash": "wait; echo $? \"$(cat done)\"; echo"}[language]
    kept(session.run(begin))
    kept(session.run(SET[language]))
    go = session.run("touch go; while [ ! -e done ]; do sleep 0.05; done", language="sh", keep=0)
    assert go["code"] == 0
    session.say(language=language, keep=1)
    result = kept(session.run(wait))
    assert result["out"] == "late\n0 done\n\n"


def test_threads_live_on(open_session):
    session = open_session("python")
    kept(session.run("import threading, time\nstop = threading.Event()\nn = 0\ndef count():\n    global n\n"
                     "    while not stop.is_set():\n        n += 1; time.sleep(0.005)\n"
                     "t = threading.Thread(target=count); t.start()"))
    kept(session.run("before = n; time.sleep(0.3)"))
    assert kept(session.run("print(n > before, t.is_alive()); stop.set(); t.join(); print(t.is_alive())"))["out"] == (
        "True True\nFalse\n")


@each_language
def test_what_was_printed_meanwhile_does_not_disturb(open_session, language):
    """More than a pipe holds: who prints it waits until there is a run that takes it."""
    session = open_session(language)
    spam = {"python": "import subprocess; p = subprocess.Popen(['sh', '-c', 'head -c 300000 /dev/zero; echo done >done'])",
            "javascript": "require('child_process').spawn('sh', ['-c', 'head -c 300000 /dev/zero; echo done >done'],"
                          " { stdio: 'inherit' }).unref()",
            "bash": "(head -c 300000 /dev/zero; echo done >done) &"}[language]
    kept(session.run(SET[language]))
    out = kept(session.run(spam, max_output=1 << 20))["out"]
    for _ in range(200):
        result = kept(session.run(GET[language]))
        assert result["out"].replace("\0", "") == "42\n"
        out += result["out"]
        if out.count("\0") == 300000:
            break
        session.say(sleep=20)
    assert out.count("\0") == 300000


def test_a_hundred_runs_in_a_row(open_session):
    session = open_session("python")
    kept(session.run("n = 0"))
    for i in range(100):
        assert kept(session.run("n += 1; print(n)"))["out"] == f"{i + 1}\n"


@each_language
def test_all_output_comes_in_each_run(open_session, language):
    session = open_session(language)
    show = {"python": "print('x' * {0}, end='')", "javascript": "process.stdout.write('x'.repeat({0}))",
            "bash": "head -c {0} /dev/zero | tr '\\0' x"}[language]
    for size in (1, 8191, 8192, 70000, 900000, 5):
        assert kept(session.run(show.format(size)))["out"] == "x" * size


def test_last_lines_are_shown(open_session):
    for language, lines in {"python": [("x = 5", ""), ("x + 1", "6\n"), ("_ * 2", "12\n"), ("None", ""), ("1 / 0", "")],
                            "javascript": [("let x = 5", ""), ("x + 1", "6\n"), ("await x", "5\n"), ("undefined", ""),
                                           ("Promise.resolve(7)", "7\n"), ("throw 1", "")]}.items():
        session = open_session(language, last_line=1)
        for code, out in lines:
            assert kept(session.run(code))["out"] == out, code


def test_tracebacks_show_the_lines_of_the_run_that_has_them(open_session):
    session = open_session("python")
    kept(session.run("def f():\n    return 1 / 0  # here"))
    err = kept(session.run("f()  # and here"))["err"]
    assert "return 1 / 0  # here" in err and "f()  # and here" in err and "warm.py" not in err


def test_limits_hold_in_each_run(open_session):
    session = open_session("python", memory=128 << 20)
    kept(session.run("kept = 41"))
    result = session.run("x = []\nwhile True: x.append(bytes(1 << 20))")
    assert (result["reason"], result["state"]) == ("memory_limit", "lost")
    assert kept(session.run("print('kept' in globals()); kept = 41"))["out"] == "False\n"
    assert kept(session.run("while True: pass", cpu_ms=300))["reason"] == "cpu_limit"
    session.say(cpu_ms=0)
    assert_lives(session, "python")
    assert session.run("while True: print('a' * 1000)", output_bytes=100000)["state"] == "lost"


def test_what_cannot_be_kept_is_refused(programs, open_session, isolation):
    session = open_session("python")
    kept(session.run("x = 1"))
    assert "other limits" in session.run("x", open_files=99)["error"]
    session.say(open_files=0)
    assert "another language" in session.run("x", language="bash")["error"]
    assert kept(session.run("print(x)", language="python"))["out"] == "1\n"
    with Session(programs, isolation=isolation, language="python", keep=1) as other:
        assert "made before" in other.run("1")["error"]
        other.make(language="lua", keep=0)
        assert "cannot keep its state" in other.run("x = 1", keep=1).get("error", "")


def test_children_of_a_program_are_not_the_session(open_session):
    session = open_session("python")
    kept(session.run("import os, sys\nx = 1"))
    result = kept(session.run("pid = os.fork()\nif pid == 0:\n    x = 2; print('child'); sys.exit(5)\n"
                              "print(os.waitpid(pid, 0)[1] >> 8)"))
    assert sorted(result["out"].split()) == ["5", "child"]
    assert kept(session.run("print(x)"))["out"] == "1\n"
