"""hotcell doctor: what this machine gives each isolation."""
import json
import os
import re
from pathlib import Path

import harness
import pytest


def checks(hotcell, **options):
    result = hotcell("doctor", "--json", **options)
    assert result.err == ""
    object = json.loads(result.out)
    assert set(object) == {"whole", "checks"}
    for row in object["checks"]:
        assert set(row) == {"name", "state", "needed", "detail", "fix"}
        assert row["state"] in ("fine", "weak", "missing")
        assert row["detail"]
    return result, object, {row["name"]: row for row in object["checks"]}


def test_it_looks_at_all_that_the_isolations_stand_on(anyone):
    _, _, rows = checks(anyone)
    for word in ("kernel", "user namespaces", "cgroup: memory", "cgroup: pids", "cgroup: cpu time",
                 "cgroup: cpus", "seccomp", "landlock", "user ids", "/dev/kvm", "hotcell-vmm",
                 "container cell", "vm cell"):
        assert word in rows, word


def test_it_exits_with_0_only_if_container_isolation_is_whole(anyone):
    result, object, rows = checks(anyone)
    whole = all(row["state"] == "fine" for row in rows.values() if row["needed"])
    assert object["whole"] is whole
    assert result.code == (0 if whole else 1)
    assert anyone("doctor").code == result.code


def test_what_is_not_fine_comes_with_the_command_that_fixes_it(anyone):
    """Controllers are all had in the same way, which is told once."""
    _, _, rows = checks(anyone)
    told = set()
    for row in rows.values():
        topic = row["name"].split(":")[0]
        assert row["fix"] == "" or row["state"] != "fine", row
        assert row["state"] == "fine" or row["fix"] or topic in told, row
        if row["fix"]:
            told.add(topic)


def test_it_tries_a_real_cell(anyone):
    _, _, rows = checks(anyone)
    assert rows["container cell"]["state"] == "fine"
    assert rows["container cell"]["needed"] is True


def test_the_table_says_the_same(anyone):
    _, object, rows = checks(anyone)
    out = anyone("doctor").out
    for row in rows.values():
        assert re.search(rf"^{row['state']} +{re.escape(row['name'])} +{re.escape(row['detail'])}$",
                         out, re.M), row
        assert row["fix"] in out
    assert out.splitlines()[-1] == ("Container isolation is whole." if object["whole"]
                                    else "Container isolation is NOT whole: see above.")


def test_what_it_says_is_so(anyone):
    _, _, rows = checks(anyone)
    assert os.uname().release in rows["kernel"]["detail"]
    user = 0 if anyone.user is None and harness.IS_ROOT else 1
    if user == 0:
        assert rows["user ids"]["state"] == "fine"
    else:
        assert rows["user ids"]["state"] == "weak"
    kvm = Path("/dev/kvm")
    if not kvm.exists():
        assert rows["/dev/kvm"]["state"] == "weak" and "not there" in rows["/dev/kvm"]["detail"]
    elif user == 0:
        assert rows["/dev/kvm"]["state"] == "fine"


@pytest.mark.needs_root("an ordinary user's cgroup is not known to be closed to them")
def test_without_a_writable_cgroup_the_memory_limit_is_weak_and_so_container_isolation(nobody):
    result, object, rows = checks(nobody)
    assert rows["cgroup: memory"]["state"] == "weak"
    assert "soft" in rows["cgroup: memory"]["detail"]
    assert rows["cgroup: memory"]["fix"]
    assert rows["cgroup: cpus"]["state"] == "weak"
    if "hierarchy" in rows["cgroup: memory"]["detail"]:  # version 1 has one for each
        for row, name in (("memory", "memory"), ("pids", "pids"), ("cpu time", "cpuacct"), ("cpus", "cpu")):
            assert f"the {name} hierarchy" in rows[f"cgroup: {row}"]["detail"]
    assert object["whole"] is False
    assert result.code == 1


@pytest.mark.needs_root("an ordinary user's cgroup is not known to be closed to them")
def test_what_it_calls_weak_is_what_a_run_calls_soft(nobody):
    _, _, rows = checks(nobody)
    listed = nobody.json("-l", "sh", "-c", "")["limits_not_enforced"]
    assert any(limit.startswith("memory") and "soft" in limit for limit in listed)
    assert any(limit.startswith("cpu:") and "soft" in limit for limit in listed)


# ---- --explain ----


def test_explain_prints_the_steps_in_their_order(anyone):
    result = anyone("doctor", "--explain")
    assert (result.code, result.err) == (0, "")
    steps = re.findall(r"^ +(\d+)  (.{14}) (.+)$", result.out, re.M)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    names = [name.strip() for _, name, _ in steps]
    for name in ("cgroup", "root", "credentials", "pivot", "no_new_privs", "capabilities", "landlock",
                 "seccomp"):
        assert name in names
    assert names[-1] == "seccomp"
    assert names.index("pivot") > names.index("root")
    assert names.index("no_new_privs") < names.index("capabilities")


def test_explain_prints_the_table_of_system_calls_with_reasons(anyone):
    out = anyone("doctor", "--explain").out
    for call, action in (("read", "allow"), ("mount", "EPERM"), ("bpf", "EPERM|ENOSYS"),
                         ("clone3", "ENOSYS"), ("ptrace", "EPERM|ENOSYS"), ("io_uring_setup", "EPERM|ENOSYS"),
                         ("keyctl", "EPERM|ENOSYS"), ("userfaultfd", "EPERM|ENOSYS")):
        assert re.search(rf"^ +{call} +({action})\b.*\w", out, re.M), call


def test_the_table_of_system_calls_is_what_holds(anyone):
    """Three rows of the table, tried in a cell."""
    out = anyone.run("-l", "python", "-c", """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for number in (435, 321, 165):  # clone3, bpf, mount
    ctypes.set_errno(0)
    print(libc.syscall(number, 0, 0, 0, 0, 0), errno.errorcode.get(ctypes.get_errno()))
""").out.split()
    assert out[:2] == ["-1", "ENOSYS"]
    assert out[2] == out[4] == "-1"
    assert out[3] in ("EPERM", "ENOSYS") and out[5] in ("EPERM", "ENOSYS")
