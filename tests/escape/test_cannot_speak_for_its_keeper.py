"""A program holds its standard streams and nothing else: no control socket, no lifeline, no way to
either. What it prints, be it a frame of hotcell's own protocol, is its output."""
import struct

import pytest

DESCRIPTORS = r"""
open_at_start = {}
for fd in range(1024):
    try:
        stat = os.fstat(fd)
        open_at_start[fd] = [os.readlink(f"/proc/self/fd/{fd}").split(":")[0], stat.st_mode >> 12]
    except OSError:
        pass
tell(open_at_start)
"""

FIFO, CHARACTER = 1, 2


def frame(kind, *fields):
    """A frame as the keeper would send it: a type byte, then little-endian fields."""
    return bytes([kind]) + b"".join(fields)


# EXITED: ended by itself, status 0; and OUTPUT on stdout. See src/wire/cell_wire.h.
EXITED = frame(73, struct.pack("<BIQQQQB", 0, 0, 1, 1, 1, 1, 0), struct.pack("<I", 1), b"\0")
OUTPUT = frame(72, b"\1", struct.pack("<I", 6), b"forged")


@pytest.mark.every_isolation
def test_has_its_three_streams_and_nothing_else(attack):
    said = attack("import os\n" + DESCRIPTORS).said
    assert set(said) == {"0", "1", "2"}
    assert said["0"] == ["/dev/null", CHARACTER]
    assert said["1"][1] == said["2"][1] == FIFO


@pytest.mark.every_isolation
def test_a_compiled_program_has_no_more(attack):
    result = attack(r"""
#include <fcntl.h>
#include <stdio.h>
int main(void)
{
	for (int fd = 0; fd < 65536; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	return 0;
}""", language="c")
    assert result.stdout == "0 1 2 "


@pytest.mark.every_isolation
def test_cannot_send_a_frame(attack):
    """To every descriptor that it has, by every call that sends."""
    result = attack(r"""
import socket
frames = [bytes.fromhex(text) for text in %r]
for fd in range(1024):
    for frame in frames:
        attempt(os.write, fd, frame) if fd > 2 else None
        if isinstance(call("fcntl", fd, 1), int):
            call("sendto", fd, frame, len(frame), 0, None, 0)
            call("ioctl", fd, 0x5421, ctypes.byref(ctypes.c_int(0)))
for frame in frames:
    os.write(1, frame)
os._exit(11)""" % ([EXITED.hex(), OUTPUT.hex()],))
    assert (result.reason, result.exit_code) == ("exited", 11)
    assert result.stdout.encode("latin-1", "replace").count(b"forged") == 1


def test_cannot_steal_the_control_socket(attack):
    """The ways by which a descriptor moves from one process to another."""
    said = attack(r"""
said = {}
for fd in range(64):
    for path in (f"/proc/1/fd/{fd}", f"/proc/1/task/1/fd/{fd}"):
        got = attempt(os.open, path, os.O_RDWR | os.O_NONBLOCK)
        if got not in ("ENOENT", "EACCES"):
            said[path] = got
pidfd = call("pidfd_open", 1, 0)
said.update({f"getfd {fd}": got for fd in range(64)
             for got in [call("pidfd_getfd", pidfd, fd, 0)] if got not in ("EPERM", "ENOSYS")})
tell(said)""").said
    assert said == {}


@pytest.mark.every_isolation
def test_cannot_read_its_output_back_and_change_it(attack):
    """A pipe can be opened at its other end through /proc: it is the program's own output all the same."""
    result = attack(r"""
print("first", flush=True)
fd = attempt(os.open, "/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
if isinstance(fd, int):
    for i in range(100):
        attempt(os.read, fd, 100)
print("last", flush=True)
os._exit(3)""")
    assert result.exit_code == 3 and result.reason == "exited"
    assert result.stdout.endswith("last\n")


@pytest.mark.every_isolation
def test_closing_everything_changes_nothing(attack):
    result = attack("print('begun', flush=True)\nos.closerange(0, 65536)\nos._exit(5)")
    assert (result.stdout, result.reason, result.exit_code) == ("begun\n", "exited", 5)


@pytest.mark.every_isolation
def test_output_that_is_made_strange_is_read_all_the_same(attack):
    """Flags of the pipe, its size, and packets: set by the program that holds its other end."""
    result = attack(r"""
import fcntl
O_DIRECT, F_SETPIPE_SZ = 0o40000, 1031
attempt(fcntl.fcntl, 1, fcntl.F_SETFL, O_DIRECT | os.O_NONBLOCK)
os.write(1, b"a" * 100)
attempt(fcntl.fcntl, 1, F_SETPIPE_SZ, 4096)
attempt(fcntl.fcntl, 1, F_SETPIPE_SZ, 1 << 20)
for i in range(10):
    os.write(1, b"b" * 1000)
os.write(2, b"")
os._exit(0)""")
    assert result.stdout == "a" * 100 + "b" * 10000
