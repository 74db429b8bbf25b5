"""A cell cannot change its root, and so cannot step out of one."""
from escape import DENIED

CHANGE = r"""
os.makedirs("/tmp/new/old", exist_ok=True)
top = os.open("/", os.O_RDONLY)
said = {"chroot": call("chroot", b"/tmp/new"), "pivot_root": call("pivot_root", b"/tmp/new", b"/tmp/new/old")}
# The classic: a root below the working directory, then upwards.
os.fchdir(top)
for i in range(64):
    os.chdir("..")
said["again"] = call("chroot", b".")
tell(said)
"""


def test_cannot_change_root(attack):
    outside = attack.outside("""
os.makedirs("/tmp", exist_ok=True)
tell(call("chroot", b"/tmp"))""", own_namespaces=True)
    assert outside == 0
    said = attack(CHANGE).said
    assert set(said.values()) <= DENIED, said


def test_the_way_up_ends_at_its_own_root(attack):
    said = attack(r"""
os.chdir("/workspace")
for i in range(200):
    os.chdir("..")
same = os.path.samestat(os.stat("."), os.stat("/"))
tell([same, sorted(os.listdir(".")), os.path.exists("/host"), os.path.exists("/proc/1/root/etc")])""").said
    assert said[0] is True
    assert "workspace" in said[1] and not {"root", "home", "boot", "sys", "host", "needs"} & set(said[1])
    assert said[2:] == [False, False]
