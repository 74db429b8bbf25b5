"""What a cell writes stays within its disk: bytes, files, one file's size; and the host's disk is not
touched at all."""
import os

import pytest

FILL = r"""
written, n = 0, 0
try:
    while True:
        with open(f"%s/{n}", "wb") as f:
            for i in range(8):
                written += f.write(bytes(1 << 16))
        n += 1
except OSError as e:
    tell([errno.errorcode[e.errno], written])
sys.exit(1)
"""


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_cannot_write_more_than_its_disk_holds(attack, place):
    before = os.statvfs("/").f_bavail
    result = attack(FILL % place, disk="4M")
    error, written = result.said
    assert error == "ENOSPC" and 1 << 20 <= written <= 4 << 20
    assert result.reason == "disk_limit"
    assert before - os.statvfs("/").f_bavail < 1 << 30


def test_its_places_share_one_disk(attack):
    said = attack(r"""
total = 0
for place in ("/tmp", "/workspace", "/dev/shm"):
    fd = attempt(os.open, place + "/f", os.O_CREAT | os.O_WRONLY)
    while isinstance(fd, int):
        n = attempt(os.write, fd, bytes(4096))
        if not isinstance(n, int):
            break
        total += n
tell(total)""", disk="4M").said
    assert 3 << 20 <= said <= 4 << 20


def test_a_program_that_copes_with_a_full_disk_is_not_ended(attack):
    result = attack(FILL.replace("sys.exit(1)", "") % "/tmp", disk="4M")
    assert (result.reason, result.exit_code) == ("exited", 0)


def test_cannot_make_files_without_end(attack):
    """Empty files, directories and links take no bytes, but they do take memory."""
    result = attack(r"""
made = 0
try:
    while True:
        os.mkdir(f"/tmp/d{made}")
        open(f"/workspace/{made}", "w").close()
        os.symlink("x" * 100, f"/dev/shm/{made}")
        made += 1
except OSError as e:
    tell([errno.errorcode[e.errno], made])
sys.exit(1)""", disk="8M", timeout="60s")
    error, made = result.said
    assert error == "ENOSPC" and 100 < made < 10000
    assert result.reason == "disk_limit"


@pytest.mark.every_isolation
def test_cannot_make_a_file_larger_than_it_may(attack):
    said = attack(r"""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("f", "wb") as f:
    tell([attempt(f.truncate, 1 << 40), attempt(f.truncate, 3 << 20),
          attempt(os.posix_fallocate, f.fileno(), 0, 3 << 20),
          attempt(f.truncate, 1 << 20)])""", file_size="2M").said
    assert said == ["EFBIG", "EFBIG", "EFBIG", 1 << 20]


@pytest.mark.every_isolation
def test_a_file_that_grows_too_large_ends_the_run_as_such(attack):
    result = attack(r"""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("f", "wb") as f:
    while True:
        f.write(bytes(1 << 16))""", file_size="2M")
    assert result.reason == "disk_limit"


@pytest.mark.every_isolation
def test_cannot_open_more_files_than_it_may(attack):
    said = attack(r"""
keep = []
while True:
    fd = attempt(os.open, "/dev/null", os.O_RDONLY)
    if isinstance(fd, str):
        break
    keep.append(fd)
os.close(keep[0])
tell([fd, len(keep)])""", open_files=50).said
    assert said[0] == "EMFILE" and said[1] <= 50


def test_open_files_of_many_processes_do_not_exhaust_the_host(attack):
    """Beside the bomb, others open what they like."""
    bomb = attack.start(r"""
for i in range(40):
    if attempt(os.fork) == 0:
        break
keep = []
while isinstance(keep[-1] if keep else 0, int):
    keep.append(attempt(os.open, "/dev/null", os.O_RDONLY))
print("full", flush=True)
import time
time.sleep(60)""")
    bomb.wait_for("full")
    assert attack("""tell(len([open("/dev/null") for i in range(100)]))""").said == 100
    bomb.end()
