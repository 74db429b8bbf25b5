"""A program that a driver has waited for finds two descriptors more than others: pipes to its keeper. Whatever it
does with them, it harms nobody but itself."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
import harness  # noqa: E402

ATTACKS = {
    "writes garbage": "for i in range(3000):\n    os.write(998, os.urandom(33))",
    "writes without end": "os.set_blocking(998, False)\ntry:\n    while True: os.write(998, bytes(65536))\n"
                          "except OSError: pass",
    "forges frames": "for kind in range(256):\n    os.write(998, bytes([kind]) + bytes(100))",
    "closes them": "os.close(998); os.close(999)",
    "puts others in their place": "os.close(998)\nwhile True:\n"
                                  "    try: os.dup2(os.open('/dev/zero', 2), 998)\n    except OSError: break",
    "reads what is left": "os.set_blocking(999, False)\ntry: print(os.read(999, 100))\nexcept OSError: pass",
    "opens their other ends": "fds = []\nfor name in ('998', '999'):\n"
                              "    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):\n"
                              "        try: fds.append(os.open('/proc/self/fd/' + name, flags | os.O_NONBLOCK))\n"
                              "        except OSError: pass\n"
                              "for fd in fds:\n    for what in (lambda: os.read(fd, 9), lambda: os.write(fd, b'x' * 99)):\n"
                              "        try: what()\n        except OSError: pass",
    "gives them to children": "import subprocess\nos.set_inheritable(998, True)\n"
                              "subprocess.run(['sh', '-c', 'cat /dev/urandom | head -c 9999 >/proc/self/fd/998'])",
}


@pytest.fixture(scope="module")
def programs():
    """As tests/cli has it."""
    import subprocess
    public = harness.public_dir()
    directory = harness.copy_programs(public).parent
    build = harness.HOTCELL.parent
    sanitized = b"libasan" in subprocess.run(["ldd", build / "libhotcell.so"], capture_output=True).stdout
    subprocess.run(
        ["gcc", "-o", directory / "session", harness.ROOT / "tests/cli/library/session.c", f"-I{harness.ROOT}/include",
         f"-L{build}", f"-Wl,-rpath,{build}", "-lhotcell", *(["-fsanitize=address,undefined"] if sanitized else [])],
        check=True)
    yield directory
    import shutil
    shutil.rmtree(public, ignore_errors=True)


@pytest.mark.parametrize("name", ATTACKS)
def test_cannot_abuse_the_way_to_its_driver(programs, name):
    with harness.Session(programs, isolation="container", language="python") as session:
        for end, status in (("os._exit(5)", 5), ("raise SystemExit(6)", 6)):
            session.make()
            result = session.run(f"import os\nprint('begun', flush=True)\n{ATTACKS[name]}\nprint('ended', flush=True)\n{end}")
            assert result["warm"] == 1
            assert (result["reason"], result["code"]) == ("exited", status)
            assert result["out"].startswith("begun\n") and result["out"].endswith("ended\n")
            # Its cell is as good as ever.
            after = session.run("print('after')")
            assert (after["reason"], after["out"]) == ("exited", "after\n")


def test_the_drivers_word_ends_the_run_and_no_other(programs):
    """The seed can be found in memory. Who uses it, ends: nothing of it goes on, and its status is a status."""
    code = """
import gc, os, sys
frames = sys._getframe()
while frames:
    request = frames.f_locals.get("request")
    if request: break
    frames = frames.f_back
print("found", len(request) > 32, flush=True)
os.fork()
os.write(998, bytes([99]) + request[-32:])
while True:
    print("still here", flush=True)
"""
    with harness.Session(programs, isolation="container", language="python", wall_ms=2000) as session:
        session.make()
        result = session.run(code)
        assert result["out"].startswith("found True\n")
        assert result["reason"] in ("exited", "timeout", "output_limit")
        assert session.run("print('after')", wall_ms=20000)["out"] == "after\n"


def test_children_do_not_have_them(programs):
    look = "import os, subprocess; print(subprocess.run(['ls', '/proc/self/fd'], close_fds=False, capture_output=True, text=True).stdout.split())"
    with harness.Session(programs, isolation="container", language="python") as session:
        session.make()
        assert not {"998", "999"} & set(eval(session.run(look)["out"]))
