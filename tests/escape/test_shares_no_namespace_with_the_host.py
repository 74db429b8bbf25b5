"""Every kind of namespace that can hold something of the host is the cell's own."""
import json
import os

import escape

KINDS = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
LOOK = """
tell({kind: attempt(os.readlink, "/proc/self/ns/" + kind) for kind in %r})
sys.stdin.read()""" % KINDS


def namespaces(attack, run):
    """As the program sees them. A vm shows none: there, as the host sees its VMM's."""
    said = json.loads(run.wait_for("user"))
    if not attack.in_vm:
        return said
    assert set(said.values()) == {"ENOENT"}, said
    return {kind: os.readlink(f"/proc/{min(escape.programs(run.pid))}/ns/{kind}") for kind in KINDS}


def test_shares_no_namespace_with_the_host(attack):
    run = attack.start(LOOK)
    seen = namespaces(attack, run)
    assert [kind for kind in KINDS if seen[kind] == os.readlink(f"/proc/self/ns/{kind}")] == []
    run.end()


def test_shares_no_namespace_with_another_cell(attack):
    runs = [attack.start(LOOK) for _ in range(2)]
    ours, theirs = [namespaces(attack, run) for run in runs]
    assert [kind for kind in KINDS if ours[kind] == theirs[kind]] == []
    for run in runs:
        run.end()


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
    fd = attempt(os.open, f"/proc/self/ns/{kind}", os.O_RDONLY)
    said[kind + " parent"] = call("ioctl", fd, NS_GET_PARENT) if isinstance(fd, int) else fd
user = attempt(os.open, "/proc/self/ns/user", os.O_RDONLY)
said["owner of user"] = call("ioctl", user, NS_GET_USERNS) if isinstance(user, int) else user
tell(said)""").said
    # EINVAL: that kind has no parents.
    assert set(said.values()) <= ({"ENOENT"} if attack.in_vm else {"EPERM", "EINVAL"}), said
