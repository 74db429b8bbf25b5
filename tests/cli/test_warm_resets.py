"""After a run a warm machine is as it was in its snapshot. Run with the sanitized programs, whose VMM
compares all of its memory and books after every reset and fails the next run if anything differs; with
others this shows that the next run finds nothing."""
import pytest
from harness import in_one_cell

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")

# What runs leave behind, each in its own way.
LEAVES = {
    "nothing": "print(1)",
    "objects": "x = [bytearray(4096) for i in range(3000)]; import sys; sys.x = x",
    "a large heap": "x = bytearray(60 << 20); x[::4096] = b'x' * len(x[::4096])",
    "many small objects": "x = {i: str(i) for i in range(200000)}",
    "a deep stack": "import sys; sys.setrecursionlimit(20000)\n"
                    "def f(n): return n and 1 + f(n - 1)\nprint(f(5000))",
    "modules": "import argparse, ast, asyncio, difflib, email.message, sqlite3, xml.dom.minidom",
    "compiled code": "exec(chr(10).join(f'def f{i}(x): return x + {i}' for i in range(3000)))",
    "files": "import os\nfor i in range(30): open(f'f{i}', 'w').write('x' * 5000)\n"
             "h = [open(f'f{i}') for i in range(30)]; os.chdir('/tmp'); os.umask(0)",
    "a private mapping": "import mmap\nopen('f', 'wb').write(b'a' * 9000)\n"
                         "f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY); m[:3] = b'new'",
    "a shared mapping": "import mmap\nopen('f', 'wb').write(b'a' * 9000)\n"
                        "f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:3] = b'new'; m.flush()",
    "shared memory": "import mmap\nx = [mmap.mmap(-1, 3 << 20) for i in range(5)]\nfor m in x: m[5000] = 7",
    "mapped libraries": "import ctypes\nfor n in ('libm.so.6', 'libcrypt.so.1', 'libz.so.1'):\n"
                        "    try: ctypes.CDLL(n)\n    except OSError: pass",
    "holes where there was memory": """
import ctypes, re
libc = ctypes.CDLL(None)
for line in open('/proc/self/maps'):
    start, end, rights, name = re.match(r'(\\w+)-(\\w+) (....) \\S+ \\S+ \\S+ *(.*)', line).groups()
    if 'locale' in name or 'gconv' in name:
        libc.munmap(ctypes.c_void_p(int(start, 16)), ctypes.c_size_t(int(end, 16) - int(start, 16)))
""",
    "other rights": """
import ctypes, mmap
libc = ctypes.CDLL(None)
m = mmap.mmap(-1, 8 << 20)
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
for i in range(0, 2048, 2):
    assert libc.mprotect(ctypes.c_void_p(at + i * 4096), ctypes.c_size_t(4096), i // 2 % 3) == 0
""",
    "a larger heap by brk": "import ctypes; l = ctypes.CDLL(None); l.sbrk.restype = ctypes.c_void_p\n"
                            "a = l.sbrk(5 << 20); ctypes.memset(a, 7, 5 << 20)",
    "threads that ended": "import threading\nt = [threading.Thread(target=sum, args=(range(9),)) for i in range(20)]\n"
                          "[x.start() for x in t]; [x.join() for x in t]",
    "threads that run": "import threading, time\n[threading.Thread(target=time.sleep, args=(99,), daemon=True).start() "
                        "for i in range(5)]",
    "handlers": "import signal\nfor n in (1, 2, 10, 12, 14): signal.signal(n, lambda *a: None)\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, [15]); signal.setitimer(signal.ITIMER_REAL, 99)",
    "another stack for signals": "import faulthandler; faulthandler.enable()",
    "a failure": "def f(): raise ValueError('x')\nf()",
    "pipes and sockets": "import os, select, socket\np = [os.pipe() for i in range(9)]; s = socket.socketpair()\n"
                         "e = select.epoll(); e.register(s[0]); os.write(p[0][1], b'x')",
    "limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (50, 60)); "
              "resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 34))",
    "a name": "import ctypes; ctypes.CDLL(None).prctl(15, b'other', 0, 0, 0)",
    "vector registers": "import math; print(sum(math.sin(i) for i in range(999)) < 9)",
}

FRESH = "import os, sys, resource, signal; print(hasattr(sys, 'x'), sorted(os.listdir('/tmp') + os.listdir()), " \
        "os.getcwd(), os.umask(18), len(os.listdir('/proc/self/fd')) < 9, signal.getsignal(1), " \
        "resource.getrlimit(7), open('/proc/self/comm').read().strip(), end='')"


def line(code):
    assert len(code) < 3500
    return f"20000 99 - {code.replace(chr(10), chr(92) + 'n')}"


@pytest.mark.parametrize("what", LEAVES)
def test_nothing_is_left_of_a_run_that_leaves(programs, what):
    first, *answers = in_one_cell(
        programs, "vm", line(FRESH), *[line(LEAVES[what]), line(FRESH)] * 2)
    ends = [answer for answer in answers if answer.startswith("exited ")]
    assert "['main.py'] /workspace 18 True" in first
    assert ends[1::2] == [first] * 2, answers
    for end in ends[0::2]:
        assert end.startswith("exited 1 " if what == "a failure" else "exited 0 "), answers


def test_all_of_them_one_after_the_other(programs):
    lines = [line(code) for code in LEAVES.values() for _ in range(2)]
    answers = in_one_cell(programs, "vm", *lines, line(FRESH))
    assert "exited 0 False ['main.py'] /workspace 18 True" in answers[-1]


def test_a_machine_with_much_loaded_goes_back_too(programs):
    data = "import numpy as np, pandas as pd\nimport matplotlib.pyplot as plt\n" \
           "np.random.rand(300, 300) @ np.random.rand(300, 300); pd.DataFrame({'a': range(9)}).groupby('a').sum()\n" \
           "plt.plot([1, 2]); plt.savefig('f.png'); print('done', end='')"
    assert in_one_cell(programs, "vm", *[line(data)] * 3) == ["exited 0 done|"] * 3


@pytest.mark.parametrize("loads", ["", "import pandas\n"])
def test_what_one_run_has_written_and_no_other_is_given_back(programs, loads):
    """Not at once, but after some runs: it is put_back.c that decides."""
    writes_all = loads + "import gc; gc.unfreeze(); gc.collect(); print('all', end='')"
    writes_little = loads + "print('little', end='')"
    lines = [line(writes_all)] + [line(writes_little)] * 20
    answers = in_one_cell(programs, "vm", *lines * 2)
    assert answers == (["exited 0 all|"] + ["exited 0 little|"] * 20) * 2


# ---- JavaScript: threads, descriptors and compiled code in the snapshot ----

LEAVES_IN_JAVASCRIPT = {
    "nothing": "console.log(1)",
    "objects": "globalThis.x = Array.from({ length: 200000 }, (_, i) => ({ i })); console.log(x.length)",
    "a large buffer": "globalThis.x = Buffer.alloc(60 << 20, 7); console.log(x[5])",
    "compiled code": "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } console.log(f(24))",
    "changed built-ins": "Array.prototype.left = 1; Object.defineProperty(globalThis, 'left', { value: 1 }); console.log(1)",
    "files": "const fs = require('fs'); for (let i = 0; i < 20; i++) fs.openSync('f' + i, 'w'); process.chdir('/tmp');"
             " fs.writeFileSync('left', 'x'); console.log(1)",
    "timers": "setInterval(() => {}, 1000).unref(); setTimeout(() => console.log(1), 5)",
    "promises": "require('fs').promises.readFile('/etc/hostname').catch(() => 0).then(() => console.log(1))",
    "work in other threads": "require('crypto').pbkdf2('a', 'b', 1000, 32, 'sha256', () => console.log(1))",
    "pipes": "const { PassThrough } = require('stream'); const p = new PassThrough(); p.on('data', () => console.log(1)); p.write('x')",
    "handlers": "process.on('SIGUSR2', () => 0); process.on('exit', () => console.log(1))",
}

FRESH_JAVASCRIPT = "console.log(typeof x, typeof left, [].left, require('fs').readdirSync('.').length, process.cwd(), " \
                   "require('fs').readdirSync('/tmp').length, process.listenerCount('SIGUSR2'))"


def test_nothing_is_left_of_javascript_that_leaves(programs):
    for what, code in LEAVES_IN_JAVASCRIPT.items():
        answers = in_one_cell(programs, "vm", line(FRESH_JAVASCRIPT), *[line(code), line(FRESH_JAVASCRIPT)] * 2,
                              language="javascript")
        ends = [answer for answer in answers if answer.startswith("exited ")]
        assert ends[0] == "exited 0 undefined undefined undefined 1 /workspace 0 0", (what, answers)
        assert ends[2::2] == [ends[0]] * 2, (what, answers)
        assert all(end.startswith("exited 0 ") for end in ends), (what, answers)
