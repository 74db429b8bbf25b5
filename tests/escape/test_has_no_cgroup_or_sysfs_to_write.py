"""The control files by which containers were left (release_agent, devices.allow, uevent_helper) are
nowhere to be found, and cannot be mounted."""
import os

from escape import DENIED

NAMES = ["release_agent", "notify_on_release", "devices.allow", "cgroup.procs", "cgroup.subtree_control",
         "memory.max", "memory.limit_in_bytes", "uevent_helper", "core_pattern", "register", "modprobe",
         "ptmx", "autosuspend", "sysrq-trigger"]

ATTACK = r"""
found = {}
for top, dirs, files in os.walk("/"):
    if top == "/":
        dirs[:] = [d for d in dirs if d != "usr"]
    for name in files:
        if name in %r:
            path = os.path.join(top, name)
            found[path] = attempt(os.open, path, os.O_WRONLY)
os.makedirs("/tmp/at", exist_ok=True)
mounted = {kind: call("mount", b"none", b"/tmp/at", kind.encode(), 0, None)
           for kind in ("cgroup", "cgroup2", "sysfs", "debugfs", "tracefs", "bpf", "securityfs", "devpts",
                        "mqueue", "binfmt_misc", "fuse", "overlay", "devtmpfs", "configfs")}
kinds = sorted({line.split(" - ")[1].split()[0] for line in open("/proc/self/mountinfo")})
tell({"found": found, "mounted": mounted, "kinds": kinds})
""" % NAMES


def test_has_no_cgroup_or_sysfs_to_write(attack):
    assert os.path.exists("/sys/fs/cgroup")
    said = attack(ATTACK).said
    # In /proc/sys some are there to be read.
    assert all(path.startswith("/proc/sys/") for path in said["found"]), said
    assert set(said["found"].values()) <= {"EROFS", "EACCES", "EPERM"}
    assert set(said["mounted"].values()) <= DENIED
    assert not {"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "bpf", "devpts"} & set(said["kinds"])
