"""Nothing in /proc can be written but what a process may say of itself."""
import re

ATTACK = r"""
writable, seen = [], 0
for top, dirs, files in os.walk("/proc"):
    for name in files:
        path = os.path.join(top, name)
        seen += 1
        if os.path.islink(path):
            continue
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            writable.append(path)
        except OSError:
            pass
tell({"writable": writable, "seen": seen, "me": os.getpid()})
"""


def test_cannot_write_to_proc(attack):
    said = attack(ATTACK).said
    assert said["seen"] > (60 if attack.in_vm else 500)
    own = (f"/proc/{said['me']}/", "/proc/self/", "/proc/thread-self/")
    others = [path for path in said["writable"] if not path.startswith(own)]
    # Some of the keeper's own are there for everybody to open: whose they are is asked at the write.
    assert [path for path in others if not re.match("/proc/1/(task/1/)?(attr/|timerslack_ns)", path)] == []


def test_cannot_write_of_its_keeper(attack):
    said = attack(r"""
def put(path):
    fd = attempt(os.open, path, os.O_WRONLY)
    return attempt(os.write, fd, b"1") if isinstance(fd, int) else fd
tell({path: put("/proc/1/" + path) for path in ("timerslack_ns", "attr/current", "attr/exec", "comm",
      "oom_score_adj", "clear_refs", "coredump_filter", "sched", "autogroup", "mem", "uid_map")})""").said
    assert set(said.values()) <= {"EACCES", "EPERM", "EINVAL", "ENOENT"}, said


def test_what_it_may_write_of_itself_gives_it_nothing(attack):
    said = attack(r"""
def put(path, text):
    try:
        with open(path, "w") as f:
            f.write(text)
        return "written"
    except OSError as e:
        return errno.errorcode[e.errno]
tell({name: put("/proc/self/" + name, text) for name, text in [
    ("uid_map", "0 0 1"), ("gid_map", "0 0 1"), ("setgroups", "allow"),
    ("oom_score_adj", "-1"), ("oom_adj", "-17"), ("loginuid", "0"), ("attr/current", "unconfined"),
    ("attr/exec", "unconfined"), ("fail-nth", "1"), ("make-it-fail", "1")]})""").said
    if attack.in_vm:
        # What a VMM makes up is a file of its own for each who opens it.
        assert said.pop("oom_score_adj") == "written"
        assert attack("""
open("/proc/self/oom_score_adj", "w").write("-1")
tell(open("/proc/self/oom_score_adj").read())""").said == "0\n"
    assert set(said.values()) <= {"EPERM", "EACCES", "ENOENT", "EINVAL"}, said


def test_the_kernels_settings_stay(attack):
    """The walk above tries to open them all; these are the ones that have been used to escape."""
    said = attack(r"""
paths = ["sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/vm/drop_caches",
         "sys/kernel/usermodehelper/bset", "sys/fs/binfmt_misc/register", "sys/kernel/randomize_va_space",
         "sys/net/ipv4/ip_forward", "sys/user/max_user_namespaces", "sys/kernel/ns_last_pid",
         "sys/fs/mqueue/msg_max", "sys/kernel/shmmax", "sysrq-trigger", "irq/default_smp_affinity",
         "sys/kernel/yama/ptrace_scope", "sys/kernel/domainname", "sys/kernel/sem",
         "sys/net/unix/max_dgram_qlen", "sys/kernel/poweroff_cmd", "sys/kernel/panic"]
tell({path: attempt(os.open, "/proc/" + path, os.O_WRONLY) for path in paths})""").said
    assert set(said.values()) <= {"EPERM", "EACCES", "EROFS", "ENOENT"}, said
    assert said["sys/kernel/core_pattern"] in ({"ENOENT"} if attack.in_vm else {"EROFS", "EACCES"})
