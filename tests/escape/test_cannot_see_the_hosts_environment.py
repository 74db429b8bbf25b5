"""What is set in the environment of whoever starts a run is not seen in it."""
import pytest

SECRET = "tell-nobody-4711"

OWN = """tell(dict(os.environ))"""

EVERYBODYS = r"""
said = {}
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("environ", "cmdline"):
            try:
                said[f"{pid}/{name}"] = open(f"/proc/{pid}/{name}", "rb").read().decode("latin-1")
            except OSError as e:
                said[f"{pid}/{name}"] = errno.errorcode[e.errno]
tell(said)
"""


@pytest.mark.every_isolation
def test_the_environment_is_made_from_nothing(attack):
    said = attack(OWN, host_env={"API_KEY": SECRET, "LD_LIBRARY_PATH": "/nowhere", "TERM": "xterm"}).said
    assert SECRET not in said.values()
    assert not {"API_KEY", "LD_LIBRARY_PATH", "TERM"} & set(said)


def test_no_process_in_sight_has_the_hosts_environment(attack):
    said = attack(EVERYBODYS, host_env={"API_KEY": SECRET}).said
    # In a vm a program sees nothing of its keeper.
    assert said.get("1/environ") == (None if attack.in_vm else "EACCES")
    assert [name for name in said if not name.startswith("1/")]
    assert not [name for name, text in said.items() if SECRET in text]
