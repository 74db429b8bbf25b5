"""A cell cannot watch what others do with files: fanotify is denied, and inotify finds only its own."""
from escape import DENIED

FANOTIFY = """tell([call("fanotify_init", 0x200, 0), call("fanotify_mark", 3, 1, 1, -100, b"/")])"""

INOTIFY = r"""
import struct, time
fd = call("inotify_init1", os.O_NONBLOCK)
IN_ALL = 0xfff
print(json.dumps({path: call("inotify_add_watch", fd, path.encode(), IN_ALL) for path in %r}), flush=True)
print("watching", flush=True)
sys.stdin.readline()
events = attempt(os.read, fd, 65536)
tell(len(events) if isinstance(events, bytes) else events)
"""


def test_cannot_use_fanotify(attack):
    assert isinstance(attack.outside(FANOTIFY)[0], int)
    assert set(attack(FANOTIFY).said) <= DENIED


def test_inotify_does_not_find_the_hosts_files(attack, host_secret):
    path, _ = host_secret
    paths = [str(path), str(path.parent), "/etc/shadow", "/root", "/proc/1/root"]
    assert isinstance(attack.outside("""
fd = call("inotify_init1", 0)
tell(call("inotify_add_watch", fd, %r.encode(), 0xfff))""" % str(path)), int)
    run = attack.start(INOTIFY % paths)
    said = run.wait_for("shadow")
    assert all(got in said for got in ("ENOENT",)) and ": 1" not in said, said
    run.wait_for("watching")
    path.read_text()
    run.send("now\n")
    assert "EAGAIN" in run.wait_for("E")
    assert run.wait() == 0
