"""A cell sees its own processes and no others."""
import pytest

LOOK = r"""
seen = {}
for pid in os.listdir("/proc"):
    if pid.isdigit():
        seen[pid] = open(f"/proc/{pid}/cmdline", "rb").read().decode("latin-1")
hidden = [pid for pid in [*range(1, 3000), %d] if os.path.exists(f"/proc/{pid}") and str(pid) not in seen]
tell({"seen": seen, "hidden": hidden, "me": os.getpid(), "parent": os.getppid()})
"""


def test_cannot_see_the_hosts_processes(attack, bystander):
    assert str(bystander.pid) in attack.outside("""tell(os.listdir("/proc"))""")
    said = attack(LOOK % bystander.pid).said
    assert set(said["seen"]) == {str(said["me"])} | (set() if attack.in_vm else {"1"})
    assert said["parent"] == 1
    # What is not listed in /proc can still be entered by its number, if it is there.
    assert said["hidden"] == []


@pytest.mark.only_in("container", why="a vm does not show its keeper")
def test_the_keepers_arguments_tell_nothing_of_the_host(attack):
    said = attack(LOOK % 1).said
    assert str(attack.place) not in said["seen"]["1"]
