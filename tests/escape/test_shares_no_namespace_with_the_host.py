"""Every kind of namespace that can hold something of the host is the cell's own."""
import os

KINDS = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
LOOK = """tell({kind: os.readlink("/proc/self/ns/" + kind) for kind in %r})""" % KINDS


def test_shares_no_namespace_with_the_host(attack):
    said = attack(LOOK).said
    shared = [kind for kind in KINDS if said[kind] == os.readlink(f"/proc/self/ns/{kind}")]
    assert shared == []


def test_shares_no_namespace_with_another_cell(attack):
    other = attack.start(LOOK + "\nsys.stdin.read()")
    theirs = other.wait_for("user")
    said = attack(LOOK).said
    assert [kind for kind in KINDS if said[kind] in theirs] == []
    other.end()


def test_does_not_learn_which_cgroup_it_is_in(attack):
    said = attack("""tell(open("/proc/self/cgroup").read())""").said
    assert {line.split(":", 2)[2] for line in said.splitlines()} <= {"/"}, said


def test_is_called_cell(attack):
    said = attack("""
tell([os.uname().nodename, open("/proc/sys/kernel/hostname").read().strip(),
      open("/etc/hostname").read().strip(), set(open("/etc/machine-id").read().strip()) == {"0"}])""").said
    assert said == ["cell", "cell", "cell", True]


def test_cannot_find_the_namespaces_above_its_own(attack):
    said = attack(r"""
import fcntl
NS_GET_USERNS, NS_GET_PARENT, NS_GET_OWNER_UID = 0xb701, 0xb702, 0xb704
said = {}
for kind in ("user", "mnt", "pid", "net"):
    fd = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY)
    said[kind + " parent"] = call("ioctl", fd, NS_GET_PARENT)
user = os.open("/proc/self/ns/user", os.O_RDONLY)
said["owner of user"] = call("ioctl", user, NS_GET_USERNS)
tell(said)""").said
    # EINVAL: that kind has no parents.
    assert set(said.values()) <= {"EPERM", "EINVAL"}, said
