"""A cell that is started from a terminal does not reach it: it cannot type into it, nor open it."""
import json
import os
import pty
import subprocess

from escape import as_whom, with_prelude

ATTACK = r"""
import fcntl, glob
TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCGPTPEER = 0x5412, 0x541c, 0x540e, 0x5441
said = {"tty": [os.isatty(fd) for fd in range(3)]}
for fd in range(3):
    for high in (0, 1 << 32):
        said[f"TIOCSTI {fd} {high}"] = call("ioctl", fd, TIOCSTI | high, b"x")
        said[f"TIOCLINUX {fd} {high}"] = call("ioctl", fd, TIOCLINUX | high, b"\x03")
    said[f"TIOCSCTTY {fd}"] = call("ioctl", fd, TIOCSCTTY, 1)
for path in ("/dev/tty", "/dev/console", "/dev/ptmx", "/dev/pts/0", "/dev/pts/ptmx"):
    said[path] = attempt(os.open, path, os.O_RDWR)
print("BEGIN" + json.dumps(said) + "END", flush=True)
"""


def test_cannot_type_into_a_terminal(attack):
    ours, theirs = pty.openpty()
    words = [*as_whom(attack.who), *attack.words("python", None, {}), "--stdin=-", "-c", with_prelude(ATTACK)]
    run = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=attack.home,
                           env=attack.environment(), start_new_session=True)
    os.close(theirs)
    text = b""
    while b"END" not in text:
        text += os.read(ours, 4096)
    os.write(ours, b"\x04")
    run.wait()
    os.close(ours)
    said = json.loads(text[text.index(b"BEGIN") + 5:text.index(b"END")].replace(b"\r\n", b""))
    assert said.pop("tty") == [False, False, False]
    for name, got in said.items():
        wanted = {"ENOENT", "ENOTTY"}
        if name.startswith(("TIOCSTI", "TIOCLINUX")) and not attack.in_vm:
            wanted = {"EPERM"}
        assert got in wanted, (name, got)
