"""A cell sees its own processes and no others."""
LOOK = r"""
seen = {}
for pid in os.listdir("/proc"):
    if pid.isdigit():
        seen[pid] = open(f"/proc/{pid}/cmdline", "rb").read().decode("latin-1")
hidden = [pid for pid in range(1, 100000) if os.path.exists(f"/proc/{pid}") and str(pid) not in seen]
tell({"seen": seen, "hidden": hidden, "me": os.getpid(), "parent": os.getppid()})
"""


def test_cannot_see_the_hosts_processes(attack, bystander):
    assert str(bystander.pid) in attack.outside("""tell(os.listdir("/proc"))""")
    said = attack(LOOK).said
    assert sorted(said["seen"], key=int) == ["1", str(said["me"])]
    assert said["parent"] == 1
    # A thread is no directory of its own in /proc, but can be entered by its number.
    assert said["hidden"] == []


def test_the_keepers_arguments_tell_nothing_of_the_host(attack):
    said = attack(LOOK).said
    assert str(attack.place) not in said["seen"]["1"]
