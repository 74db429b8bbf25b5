"""Seen from the host, what runs in a cell is a user without rights: as root, one that no other cell and
no person has."""
from pathlib import Path

import pytest

import escape

UP = "print('up', flush=True)\nsys.stdin.read()"
OWN_IDS = range(1879048192, 1879048192 + 65536)


def program(run):
    """What the kernel says of the program that `run` started."""
    pid = min(escape.programs(run.pid))
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: line.split()[1:] for line in lines}


@pytest.mark.every_isolation
def test_is_nobody_on_the_host(attack):
    run = attack.start(UP)
    run.wait_for("up")
    status = program(run)
    ids = {int(word) for word in status["Uid"] + status["Gid"] + status["Groups"]}
    assert 0 not in ids
    if attack.is_root:
        assert len(ids) == 1 and ids.pop() in OWN_IDS
    assert status["CapEff"] == status["CapPrm"] == status["CapInh"] == ["0" * 16]
    assert status["NoNewPrivs"] == ["1"]
    run.end()


def test_every_cell_of_roots_is_another_user(attack):
    runs = [attack.start(UP) for i in range(3)]
    for run in runs:
        run.wait_for("up")
    ids = [program(run)["Uid"][0] for run in runs]
    assert len(set(ids)) == (3 if attack.is_root else 1)
    for run in runs:
        run.end()


@pytest.mark.only_in("container", why="a vm shows no map; it has one all the same, see above")
def test_knows_one_user_and_no_other(attack):
    said = attack("""
tell([open("/proc/self/" + name).read().split() for name in ("uid_map", "gid_map")])""").said
    for inside, outside, count in said:
        assert (inside, count) == ("1000", "1")


def test_its_files_on_the_host_are_its_users(attack):
    """What a program leaves is owned by whoever asked for it, with none of the program's own marks."""
    out = attack.new_directory() / "out"
    attack("""open("f", "w").write("x")\nos.chmod("f", 0o777)""", o=out)
    status = (out / "f").stat()
    assert status.st_uid == (0 if attack.is_root else attack.new_directory().stat().st_uid)
    assert status.st_mode & 0o7022 == 0
