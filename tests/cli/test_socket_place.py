"""Where the service's socket is if nobody named a place: in /tmp for an ordinary user without XDG_RUNTIME_DIR, where a
stranger may have been before."""
import contextlib
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import harness
import pytest

pytestmark = pytest.mark.needs_root("two users that are nobody's")

KEY = "hc_secret"
_uids = itertools.count(1500000000 + os.getpid() * 10, 2)

# Tells all that it is sent, until its input ends.
LISTENER = """
import os, select, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
server.listen()
print("listens", flush=True)
while True:
    ready = select.select([server, sys.stdin], [], [])[0]
    if server not in ready:
        break
    with server.accept()[0] as one:
        print(one.recv(65536), flush=True)
        try:
            one.sendall(b"HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\n\\r\\n")
        except OSError:
            pass  # it was sent nothing, and the other end is closed
"""


class Listener:
    """Of another user, at this path. .end() is what it was sent."""

    def __init__(self, path, uid):
        self.process = subprocess.Popen([sys.executable, "-c", LISTENER, path], user=uid, group=uid, extra_groups=[],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "listens\n"

    def end(self):
        return self.process.communicate(timeout=harness.PATIENCE_S)[0]


class Place:
    """/tmp/hotcell-UID of a user that nobody is, and a stranger."""

    def __init__(self, program, where):
        self.uid = next(_uids)
        self.stranger = self.uid + 1
        self.dir = Path(f"/tmp/hotcell-{self.uid}")
        self.socket = self.dir / "hotcell.sock"
        self.theirs = Path(f"/tmp/hotcell-stranger-{self.uid}")
        home = where / f"home-{self.uid}"
        self.make(home, self.uid, 0o700)
        self.hotcell = harness.Hotcell(program, home, self.uid)
        self.hotcell.env["HOTCELL_API_KEY"] = KEY

    def make(self, path, uid, mode=0o755):
        path.mkdir()
        self.own(path, uid, mode)

    def own(self, path, uid, mode):
        os.chown(path, uid, uid)
        path.chmod(mode)

    def serve(self):
        return "serve", "--host=", "--warm="

    def clear(self):
        for path in (self.dir, self.theirs):
            if path.is_symlink():
                path.unlink()
            shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def place(nobody, public):
    one = Place(nobody.program, public)
    yield one
    one.clear()


def occupy(place, how):
    """What a stranger, or a careless user, has made of it."""
    if how == "directory":
        place.make(place.dir, place.stranger)
        return "belongs to user {0.stranger}: want one of user {0.uid}"
    if how == "link":
        place.make(place.theirs, place.stranger, 0o777)
        place.dir.symlink_to(place.theirs)
        os.lchown(place.dir, place.stranger, place.stranger)
        return "belongs to user {0.stranger}: want one of user {0.uid}"
    place.make(place.dir, place.uid, 0o777)
    return "has mode 0777: want one that nobody but user {0.uid} can write to"


EVERY_WAY = ["directory", "link", "open to all"]


def asks(place):
    """Each of these would send the key, and the last one a file."""
    file = place.hotcell.home / "file"
    file.write_text("contents")
    file.chmod(0o644)
    return [("top",), ("session", "list"), ("files", "list"), ("files", "add", file)]


@pytest.mark.parametrize("how", EVERY_WAY)
def test_a_stranger_at_the_place_is_sent_nothing(place, how):
    says = occupy(place, how).format(place)
    listener = Listener(place.socket, place.stranger)
    results = [place.hotcell(*words) for words in asks(place)]
    assert listener.end() == ""
    for result in results:
        assert result.code == 125 and f"'{place.dir}' {says}" in result.err, result


def test_a_strangers_socket_in_a_directory_of_all_is_sent_nothing(place):
    """As /tmp itself, for whom it is the runtime directory."""
    place.make(place.theirs, 0, 0o1777)
    place.hotcell.env["XDG_RUNTIME_DIR"] = str(place.theirs)
    listener = Listener(place.theirs / "hotcell.sock", place.stranger)
    results = [place.hotcell(*words) for words in asks(place)]
    assert listener.end() == ""
    for result in results:
        assert result.code == 125 and f"hotcell.sock' belongs to user {place.stranger}" in result.err, result


def test_a_stranger_who_listens_where_all_looks_well_is_sent_nothing(place):
    """As it may be when the place was looked at before it became another's."""
    place.make(place.dir, place.stranger)
    listener = Listener(place.socket, place.stranger)
    place.own(place.dir, place.uid, 0o700)
    place.own(place.socket, place.uid, 0o777)
    results = [place.hotcell(*words) for words in asks(place)]
    assert listener.end().replace("b''\n", "") == ""
    for result in results:
        assert result.code == 125 and f"user {place.stranger} listens there" in result.err, result


def test_a_stranger_who_was_named_is_asked(place):
    """Whoever names a place knows whose it is: a service's own user, perhaps."""
    occupy(place, "directory")
    listener = Listener(place.socket, place.stranger)
    place.hotcell("files", "list", "--server", f"unix:{place.socket}")
    assert f"Authorization: Bearer {KEY}" in listener.end()


@pytest.mark.parametrize("how", EVERY_WAY)
def test_a_service_does_not_begin_at_a_strangers_place(place, how):
    says = occupy(place, how).format(place)
    result = place.hotcell(*place.serve())
    assert result.code == 125 and f"'{place.dir}' {says}" in result.err, result
    assert list(place.dir.iterdir()) == []


@contextlib.contextmanager
def serving(place):
    """A service of the user's at the place, that its own commands find there."""
    del place.hotcell.env["HOTCELL_API_KEY"]
    process = place.hotcell.start(*place.serve())
    until = time.monotonic() + harness.PATIENCE_S
    try:
        while not place.socket.exists() or place.hotcell("files", "list").code:
            assert process.poll() is None and time.monotonic() < until, place.hotcell("files", "list")
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=harness.PATIENCE_S)
    assert process.returncode == 0, said


def test_a_service_makes_a_directory_of_its_own_and_takes_it_away(place):
    with serving(place):
        found = place.dir.stat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, place.uid)
        assert place.hotcell("top").code == 0
    assert not place.dir.exists()


def test_a_directory_that_was_there_stays(place):
    place.make(place.dir, place.uid)
    with serving(place):
        pass
    assert list(place.dir.iterdir()) == []
