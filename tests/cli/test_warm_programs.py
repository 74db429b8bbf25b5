"""A program that starts in a warm interpreter ends, fails and prints as one that started cold."""
import re

import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")

PROGRAMS = {
    "exits with a number": "raise SystemExit(300)",
    "exits with words": "import sys; sys.exit('bye')",
    "ends at once": "import os; print('a', flush=True); os._exit(9)",
    "is interrupted": "raise KeyboardInterrupt",
    "interrupts itself": "import os; os.kill(os.getpid(), 2)",
    "aborts": "import os; os.abort()",
    "becomes another": "import os; print('a', flush=True); os.execvp('echo', ['echo', 'b'])",
    "fails": "def f():\n    return 1 / 0\nprint('before')\nf()",
    "fails for a reason": "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('x') from e",
    "has no syntax": "print(1)\nif x\n",
    "is no UTF-8": b"print('a')\n# \xff\n",
    "is Latin-1": b"# coding: latin-1\nprint('\xe9')",
    "begins with a mark": b"\xef\xbb\xbfprint('bom')",
    "prints no UTF-8": "import sys; sys.stdout.buffer.write(b'\\xff\\n')",
    "has a hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1 / 0",
    "has a hook that fails": "import sys\nsys.excepthook = lambda *a: 1 / 0\n{}['x']",
    "says good-bye": "import atexit; atexit.register(print, 'bye'); print('hi')",
    "leaves objects": "class A:\n    def __del__(self): print('del')\na = A(); b = [A()]; b.append(b)\ndel b",
    "leaves a generator": "def g():\n    try: yield 1\n    finally: print('end')\nx = g(); next(x)",
    "leaves a thread": "import threading, time\n"
                       "threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
    "leaves a daemon": "import threading, time\n"
                       "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "forks": "import os, sys\nif os.fork() == 0:\n    print('child')\n    sys.exit(4)\nprint(os.wait()[1])",
    "knows its family": "import os\nme = os.getpid()\nif os.fork() == 0:\n    print(os.getppid() == me)\n"
                        "    os._exit(0)\nos.wait()\nprint(os.getpgid(me) == os.getsid(me) == me)",
    "looks at itself": "import sys; print(sys.argv, sys.orig_argv, __name__, __file__, sorted(globals()))",
    "looks at how it was started": "import os\nfor _ in range(2):\n"
                                   "    print(open('/proc/self/cmdline').read().split('\\0'))\n"
                                   "    print(sorted(open('/proc/self/environ').read().split('\\0')), flush=True)\n"
                                   "    if _ == 0 and os.fork(): os._exit(os.wait()[1])",
    "has workers": "import concurrent.futures as c\nwith c.ThreadPoolExecutor(2) as e: print(list(e.map(abs, [-1, -2])))\n"
                   "e = c.ThreadPoolExecutor(1); e.submit(print, 'late')",
    "looks at threads": "import threading as t; print(t._SHUTTING_DOWN, t.main_thread().is_alive(), t.active_count(),"
                        " t.current_thread() is t.main_thread())",
    "signals its main thread": "import signal, threading, time\nsignal.signal(10, lambda *_: print('got it'))\n"
                               "main = threading.main_thread().ident\n"
                               "t = threading.Thread(target=lambda: signal.pthread_kill(main, 10)); t.start(); t.join()\n"
                               "print(time.clock_gettime(time.pthread_getcpuclockid(main)) > 0)",
    "dies of a fault": "import ctypes\nprint('before')\nctypes.string_at(0)",
    "looks at names": "import builtins; print(hasattr(builtins, '_'))",
    "has a pool": "import multiprocessing as m\ndef f(x): return x * x\n"
                  "if __name__ == '__main__': print(m.Pool(2).map(f, [1, 2]))",
    "spawns": "import multiprocessing as m\ndef f(q): q.put(5)\nif __name__ == '__main__':\n"
              "    c = m.get_context('spawn'); q = c.Queue(); p = c.Process(target=f, args=(q,))\n"
              "    p.start(); print(q.get()); p.join()",
}


def outcome(hotcell, isolation, *args):
    object = hotcell.json("-l", "python", "--isolation", isolation, *args)
    stderr = re.sub("0x[0-9a-f]+", "0x", object["stderr"])
    return object["stdout"], stderr, object["exit_code"], object["reason"], object["files"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_warm_program_does_as_a_cold_one(hotcell, tmp_path, name):
    code = PROGRAMS[name]
    path = tmp_path / "main.py"
    path.write_bytes(code if isinstance(code, bytes) else code.encode())
    cold = outcome(hotcell, "container", path)
    assert outcome(hotcell, "vm", path, "--profile", "plain") == cold
    assert outcome(hotcell, "vm", path, "--profile", "data") == cold


def test_exit_hooks_of_warm_modules_are_the_programs(hotcell):
    """They are run at its end, and not before."""
    code = "import {0}atexit; print(atexit._ncallbacks())"
    cold = hotcell.json("-l", "python", "--isolation", "container", "-c", code.format("matplotlib.pyplot, "))
    warm = hotcell.json("-l", "python", "--isolation", "vm", "-c", code.format("matplotlib.pyplot, "))
    assert int(warm["stdout"]) >= int(cold["stdout"]) > 0


def test_how_it_was_started_is_told_with_words_and_settings(hotcell):
    code = "import os, sys; words = open('/proc/self/cmdline').read().split('\\0')\n" \
           "print(words, words[:-1] == sys.orig_argv)\n" \
           "print([s for s in open('/proc/self/environ').read().split('\\0') if not s.startswith('MPL')])"
    more = ["--arg", "a b", "--arg", "", "--arg", "-c", "--env", "X=1=2", "--env", "USER=me", "--env", "X=", "--env", "Y=é"]
    warm, cold = (outcome(hotcell, isolation, "-c", code, *more) for isolation in ("vm", "container"))
    assert warm == cold
    assert "['/usr/bin/python3', 'main.py', 'a b', '', '-c', ''] True" in warm[0] and "'USER=me'" in warm[0]


def test_the_generators_of_a_run_have_numbers_of_their_own(hotcell):
    code = "import random, numpy\n" \
           "a, b = [[f() for _ in range(1000)] for f in (random.random, numpy.random.rand)]\n" \
           "print(len({*a, *b}), a[0], b[0])"
    runs = [hotcell.json("-l", "python", "--isolation", "vm", "--profile", "data", "-c", code)["stdout"].split()
            for _ in range(2)]
    assert [run[0] for run in runs] == ["2000"] * 2
    assert len({*runs[0][1:], *runs[1][1:]}) == 4


# A warm driver looks for the last statement in the text, and only where that cannot tell makes a tree of it.
ENDINGS = [
    "6 * 7", "x = 1", "1 / 0", "'a'; None", "1; 2", "from __future__ import annotations\n5", "", "# nothing", "\n\n",
    "x = 1\nx", "x = 5\nx\n\n# done\n", "for i in [1, 2]: i", "for i in [1, 2]:\n    i\n", "while True:\n    5\n    break",
    "if 0:\n    1\nelse:\n    2\n", "try:\n    1 / 0\nexcept ZeroDivisionError:\n    3\nfinally:\n    4",
    "def f(text):\n    return text\nf(\n1\n)", "str(\"\"\"\nfor me\n   \"\"\")", "len(\"\"\"\nfor me\n\"\"\")", "x = \"\"\"\nif 1:\n  \"\"\"",
    "x = [\n1,\n2,\n]\nx[0]", "x = 1 \\\n\nx", "2 \\\n+ 3", "match 1:\n    case 1:\n        2", "match = str\nmatch(5)",
    "def d(f): return 7\n@d\ndef g(): pass", "class A:\n    1\nA.__name__", "'é'", "# coding: latin-1\nlen('é')", "x = 1\r\nx\r\n",
    "a = 1\n\fa", "if 1:\n a = 2\n\fa", "x = 1\n  y = 2", "x = (\n5", "return 1", "lambda: 1\n1 is 1", "\n\n\nundefined",
    "import sys\nsys.displayhook = lambda value: print('<', value)\n3", "class R:\n    def __repr__(self): 1 / 0\nR()",
    "print('a', end='')\n'b'", "x: int = 3\nx", "ifx = 4\nifx", "5\n" + "# far away\n" * 300, "'\"' ';'",
]


@pytest.mark.parametrize("code", ENDINGS)
def test_a_last_line_is_shown_alike(hotcell, code):
    args = ("--last-line", "-c", code)
    assert outcome(hotcell, "vm", *args) == outcome(hotcell, "container", *args)


@pytest.mark.parametrize("setting", ["TZ=Asia/Tokyo", "PYTHONHASHSEED=1", "PYTHONPATH=/tmp", "X=1", "PATH=/bin",
                                     "HOME=/workspace", "PYTHONOPTIMIZE=1", "LANG=C", "PYTHONIOENCODING=latin-1"])
def test_settings_are_heeded(hotcell, setting):
    args = ("--env", setting, "-c", "import os, sys, time; print(sorted(os.environ.items()), hash('a') if"
            " 'PYTHONHASHSEED' in os.environ else 0, time.tzname, sys.path, sys.flags, sys.stdout.encoding)")
    assert outcome(hotcell, "vm", *args) == outcome(hotcell, "container", *args)
