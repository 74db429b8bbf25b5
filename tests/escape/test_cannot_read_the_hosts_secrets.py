"""A cell sees neither the host's passwords, nor anybody's home, nor a file of the user who started it."""
import os
from pathlib import Path

import pytest

# Everything that a program in the cell can list, and whether it can be read.
LOOK = r"""
found, wanted = [], %r
for top, dirs, files in os.walk("/", onerror=None):
    dirs[:] = [d for d in dirs if os.path.join(top, d) not in %r]
    found += [os.path.join(top, name) for name in dirs + files if name in wanted]
said = {"found": found}
for path in %r:
    try:
        said[path] = open(path, "rb").read(100).decode("latin-1")
    except OSError as e:
        said[path] = errno.errorcode[e.errno]
said["sys"] = [os.path.join(top, name) for top, dirs, files in os.walk("/sys") for name in files]
said["directories"] = {path: attempt(os.listdir, path) for path in ("/root", "/home", "/sys", "/boot")}
tell(said)
"""


def test_cannot_read_a_file_of_the_user_who_started_it(attack, host_secret):
    path, text = host_secret
    ways = [str(path), f"/proc/self/root{path}", f"/proc/1/root{path}", f"/proc/self/cwd/../..{path}",
            f"/tmp/../../../..{path}", f"/host{path}"]
    code = LOOK % ([path.name], ["/proc", "/usr/share"], ways)
    outside = attack.outside(f"tell(open({str(path)!r}).read())")
    assert outside == text
    # Each directory takes a VMM some calls, and there are many.
    said = attack(code, timeout="150s", cpu_time="150s").said
    assert said.pop("found") == []
    assert said.pop("directories") == {"/root": "ENOENT", "/home": "ENOENT", "/boot": "ENOENT",
                                       "/sys": ["devices"] if attack.in_vm else "ENOENT"}
    # A VMM makes up how many processors there are.
    assert said.pop("sys") == [f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")
                               if attack.in_vm]
    assert set(said) == set(ways)
    assert set(said.values()) <= {"ENOENT", "EACCES"}, said


def test_cannot_read_the_hosts_passwords(attack):
    assert Path("/etc/shadow").exists()
    files = ["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/sudoers", "/etc/ssh",
             "/root/.ssh/id_ed25519", "/root/.bash_history", "/var/lib/dpkg/status", "/var/log/dpkg.log"]
    names = ["shadow", "gshadow", "sudoers", "authorized_keys", "docker.sock"]
    said = attack(LOOK % (names, ["/proc", "/usr"], files)).said
    assert {said[path] for path in files} == {"ENOENT"}, said
    assert said["found"] == []


def test_the_users_that_it_sees_are_not_the_hosts(attack):
    names = {line.split(":")[0] for line in Path("/etc/passwd").read_text().splitlines()}
    said = attack("""tell([line.split(":")[0] for line in open("/etc/passwd")])""").said
    assert said == ["root", "cell", "nobody"]
    assert names - set(said), "the host has no other users: this proves nothing"


@pytest.mark.every_isolation
def test_root_cannot_be_read_even_by_a_process_cell(attack):
    """A process cell has no wall, but it is never root."""
    if attack.is_root:
        assert os.access("/etc/shadow", os.R_OK)
    said = attack("""tell([os.getuid(), os.geteuid(), attempt(open, "/etc/shadow")])""").said
    assert 0 not in said[:2]
    assert said[2] in ("EACCES", "ENOENT")
