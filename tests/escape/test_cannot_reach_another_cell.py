"""Two cells that live at the same time do not meet: not in files, sockets, memory, queues or pids."""

VICTIM = r"""
import socket
open("/workspace/%(name)s", "w").write("theirs")
open("/tmp/%(name)s", "w").write("theirs")
open("/dev/shm/%(name)s", "w").write("theirs")
server = socket.socket(socket.AF_UNIX)
server.bind("\0%(name)s")
server.listen()
call("shmget", 4711, 4096, 0o1666)  # not there where nothing would count it
small = (ctypes.c_long * 8)(0, 1, 16)
call("mq_open", b"%(name)s", os.O_CREAT | os.O_RDWR, 0o666, small)  # landlock forbids it, where it is
print("up", os.getpid(), flush=True)
sys.stdin.readline()
print("still here", open("/workspace/%(name)s").read(), flush=True)
"""

ATTACK = r"""
import socket
found = []
for top, dirs, files in os.walk("/"):
    if top == "/":
        dirs[:] = [d for d in dirs if d != "usr"]
    found += [os.path.join(top, f) for f in dirs + files if f == "%(name)s"]
client = socket.socket(socket.AF_UNIX)
said = {
    "files": found,
    "socket": attempt(client.connect, "\0%(name)s"),
    "memory": call("shmget", 4711, 4096, 0o666),
    "queue": call("mq_open", b"%(name)s", os.O_RDWR, 0, None),
    "listening": "%(name)s" in attempt(lambda: open("/proc/net/unix").read()),
    "workspace": os.listdir("/workspace"),
}
for pid in range(2, 4000):
    if pid != os.getpid():
        attempt(os.kill, pid, 9)
tell(said)
"""


def test_cannot_reach_another_cell(attack):
    names = {"name": "found-by-nobody"}
    victim = attack.start(VICTIM % names)
    victim.wait_for("up")
    said = attack(ATTACK % names).said
    assert said.pop("queue") in ("ENOENT", "EACCES", "ENOSYS")
    assert said.pop("memory") in ("ENOENT", "ENOSYS")
    assert said == {"files": [], "socket": "ECONNREFUSED", "listening": False, "workspace": ["main.py"]}
    victim.send("go on\n")
    victim.wait_for("still here theirs")
    assert victim.wait() == 0


def test_the_attack_finds_what_is_in_its_own_cell(attack):
    """So that the test above can fail."""
    names = {"name": "found-by-me"}
    own = VICTIM.replace("sys.stdin.readline()", "") % names
    said = attack(own + ATTACK % names).said
    assert sorted(said["files"]) == ["/dev/shm/found-by-me", "/tmp/found-by-me",
                                     "/workspace/found-by-me"]
    assert (said["socket"], said["listening"]) == (None, not attack.in_vm)  # a vm has no such list
    assert isinstance(said["memory"], int) or said["memory"] == "ENOSYS"


def test_nothing_of_a_cell_is_there_for_the_next(attack):
    assert attack("""
for place in ("/tmp", "/workspace", "/dev/shm"):
    open(place + "/left", "w")""").status == 0
    said = attack("""tell([os.listdir(d) for d in ("/tmp", "/workspace", "/dev/shm")])""").said
    assert "left" not in sum(said, [])
