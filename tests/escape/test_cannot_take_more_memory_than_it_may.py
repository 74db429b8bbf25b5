"""The memory limit holds for the whole cell, by whatever way memory is taken. Where only a watcher
holds it the result says so, and what no watcher can see is what it warns of."""
import pytest

LIMIT = "64M"

# Each takes some 300 MiB, not more: a host on which the limit did not hold would survive it.
WAYS = {
    "a large object": "keep = bytearray(300 << 20)",
    "many small objects": "keep = [bytes(1000) for i in range(300_000)]",
    "an anonymous mapping": r"""
import mmap
keep = mmap.mmap(-1, 300 << 20)
for at in range(0, 300 << 20, 4096):
    keep[at] = 1""",
    "many processes": r"""
import time
for i in range(10):
    if os.fork() == 0:
        keep = bytearray(30 << 20)
        time.sleep(1)
        os._exit(0)
for i in range(10):
    if os.wait()[1]:
        os._exit(1)""",
    "files in /tmp": r"""
for i in range(10):
    with open(f"/tmp/{i}", "wb") as f:
        for k in range(30):
            f.write(bytes(1 << 20))""",
    "files in /dev/shm": r"""
for i in range(10):
    with open(f"/dev/shm/{i}", "wb") as f:
        for k in range(30):
            f.write(bytes(1 << 20))""",
    "files that have no name": r"""
keep = [os.memfd_create(str(i)) for i in range(10)]
for fd in keep:
    for k in range(30):
        os.write(fd, bytes(1 << 20))""",
    "files that were removed": r"""
keep = []
for i in range(10):
    keep.append(open("/tmp/gone", "wb"))
    os.unlink("/tmp/gone")
    for k in range(30):
        keep[-1].write(bytes(1 << 20))""",
}

# Segments that nobody is attached to stay, and belong to no process.
SEGMENTS = r"""
libc.shmat.restype = ctypes.c_void_p
for i in range(10):
    segment = call("shmget", 0, 30 << 20, 0o1600)
    if isinstance(segment, str):
        print(segment, flush=True)
        os._exit(1)
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, 30 << 20)
    libc.shmdt(ctypes.c_void_p(at))
"""

# What only the kernel can count.
BUFFERS = {
    "pipes": r"""
import fcntl
keep = []
for i in range(100):
    r, w = os.pipe()
    keep += [r, w]
    attempt(fcntl.fcntl, w, 1031, 1 << 20)
    os.set_blocking(w, False)
    while isinstance(attempt(os.write, w, bytes(1 << 16)), int):
        pass""",
    "page tables": r"""
# Pages that are only read are one and the same page of zeros, but each stands in a table.
MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE = 2, 0x20, 0x4000
libc.mmap.restype = ctypes.c_void_p
flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
at = libc.mmap(None, ctypes.c_size_t(32 << 30), 1, flags, -1, ctypes.c_long(0))
for offset in range(0, 32 << 30, 2 << 20):
    ctypes.c_char.from_address(at + offset).value""",
    "files in flight": r"""
import array, socket
keep = []
for i in range(10):
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    keep += [a, b]
    fd = os.memfd_create("x")
    for k in range(10):
        os.write(fd, bytes(1 << 20))
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)""",
    "sockets": r"""
import socket
keep = []
for i in range(100):
    a, b = socket.socketpair()
    keep += [a, b]
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    a.setblocking(False)
    while isinstance(attempt(a.send, bytes(1 << 16)), int):
        pass""",
}

CODE = r"""
print("begun", flush=True)
%s
import time
time.sleep(1)
print("survived", flush=True)
"""


@pytest.mark.parametrize("way", WAYS)
def test_cannot_take_more_memory_than_it_may(attack, way):
    result = attack(CODE % WAYS[way], memory=LIMIT, disk="1G", timeout="60s")
    assert result.reason == "memory_limit", result
    assert result.stdout == "begun\n"
    assert result.status not in (0, 124, 125)


def test_cannot_take_more_memory_by_segments(attack):
    """They count, or there are no more of them than the limit allows, or none at all."""
    result = attack(CODE % SEGMENTS, memory=LIMIT)
    assert result.reason == "memory_limit" or result.stdout in ("begun\nENOSPC\n", "begun\nENOSYS\n"), result


@pytest.mark.parametrize("way", BUFFERS)
def test_buffers_in_the_kernel_count_or_the_result_says_that_they_do_not(attack, way):
    result = attack(CODE % BUFFERS[way], memory="16M")
    soft = [text for text in result.limits_not_enforced if text.startswith("memory")]
    assert result.reason == "memory_limit" or soft, result


def test_the_same_fits_into_more(attack):
    """So that the tests above can fail for the right reason."""
    result = attack(CODE % WAYS["files in /tmp"], memory="1G", disk="1G")
    assert (result.stdout, result.reason) == ("begun\nsurvived\n", "exited")


def test_the_limit_is_the_cells_and_not_one_processs(attack):
    result = attack(CODE % WAYS["many processes"], memory="1G")
    assert result.reason == "exited"


def test_cannot_have_its_keeper_killed_in_its_place(attack):
    """The largest process goes first; if the memory is in files, all of them go. It is told all the same."""
    result = attack(r"""
attempt(lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))
print("begun", flush=True)
for i in range(10):
    if os.fork() == 0:
        with open(f"/tmp/{i}", "wb") as f:
            while True:
                f.write(bytes(1 << 20))
import time
time.sleep(20)""", memory="64M", disk="1G", file_size="1G")
    assert result.reason == "memory_limit"
    assert result.stdout == "begun\n"
