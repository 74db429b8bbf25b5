"""A cell cannot make namespaces: not with unshare, not with clone, not with clone3."""
from escape import DENIED

FLAGS = {"time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
         "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}

UNSHARE = r"""
said = {}
for name, flag in %r.items():
    said[name] = call("unshare", flag)
tell(said)
""" % FLAGS

CLONE = r"""
SIGCHLD = 17
said = {}
for name, flag in %r.items():
    for high in (0, 1 << 32):
        value = call("clone", flag | high | SIGCHLD, 0, 0, 0, 0)
        if value == 0:
            os._exit(0)
        said[f"{name} {high}"] = value
tell(said)
""" % {name: flag for name, flag in FLAGS.items() if name != "time"}

CLONE3 = r"""
args = (ctypes.c_uint64 * 11)()
said = {}
for name, flag in %r.items():
    args[0], args[4] = flag, 17
    value = call("clone3", ctypes.byref(args), ctypes.sizeof(args))
    if value == 0:
        os._exit(0)
    said[name] = value
tell(said)
""" % {**FLAGS, "none": 0, "into_cgroup": 1 << 33}


def test_cannot_unshare(attack):
    outside = attack.outside(UNSHARE, own_namespaces=True)
    assert outside["mount"] == outside["uts"] == 0, outside
    said = attack(UNSHARE).said
    assert set(said.values()) <= DENIED, said


def test_cannot_clone_into_namespaces(attack):
    outside = attack.outside(CLONE, own_namespaces=True)
    assert isinstance(outside["mount 0"], int), outside
    said = attack(CLONE).said
    assert set(said.values()) <= DENIED, said


def test_has_no_clone3_whose_flags_no_filter_can_see(attack):
    said = attack(CLONE3).said
    assert set(said.values()) == {"ENOSYS"}, said


def test_can_still_make_processes_and_threads(attack):
    """Denying must not be by denying everything."""
    said = attack(r"""
import subprocess, threading
t = threading.Thread(target=lambda: None)
t.start()
t.join()
tell(subprocess.run(["/bin/echo", "hi"], capture_output=True, text=True).stdout)""").said
    assert said == "hi\n"
