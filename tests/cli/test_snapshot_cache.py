"""hotcell doctor --verify: the snapshots that are kept between runs."""
import json
import os
import re
import subprocess

import harness
import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")

NAME = r"python-plain-[0-9a-f]{16}"
MIDDLE = 24 << 20  # in the image of its memory, past what a run looks at


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A home with one snapshot in its cache, made as users make it."""
    home = tmp_path_factory.mktemp("kept")
    one = harness.Hotcell(harness.HOTCELL, home)
    assert one.run("--isolation", "vm", "-l", "python", "-c", "print(1)").out == "1\n"
    return home / ".cache/hotcell/snapshots"


@pytest.fixture
def cache(kept, tmp_path):
    """A copy of that, holes and all."""
    copy = tmp_path / ".cache/hotcell/snapshots"
    copy.parent.mkdir(parents=True, mode=0o700)
    subprocess.run(["cp", "-a", "--sparse=always", kept, copy], check=True)
    return copy


@pytest.fixture
def snapshot(cache):
    (path,) = cache.iterdir()
    assert re.fullmatch(NAME, path.name)
    return path


@pytest.fixture
def own(tmp_path):
    return harness.Hotcell(harness.HOTCELL, tmp_path)


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


def broken(own, snapshot, why):
    result = own("doctor", "--verify")
    assert result.code == 1 and result.err == ""
    assert result.out == (f"broken   {snapshot.name}: '{snapshot.name}' {why}; "
                          "removed: the next run makes it anew\n")
    assert not os.path.lexists(snapshot)
    assert own("doctor", "--verify").code == 0


def test_a_good_one_is_ok_and_stays(own, snapshot):
    result = own("doctor", "--verify")
    assert (result.code, result.out, result.err) == (0, f"ok       {snapshot.name}\n", "")
    assert snapshot.exists()


def test_a_byte_in_its_middle_that_changed_is_found(own, snapshot):
    assert snapshot.stat().st_size > MIDDLE
    flip(snapshot, MIDDLE)
    broken(own, snapshot, "is damaged")


@pytest.mark.parametrize("at", [0, 5000, (2 << 20) - 4096 + 16], ids=["header", "books", "seal"])
def test_a_byte_of_its_head_that_changed_is_found(own, snapshot, at):
    flip(snapshot, at)
    broken(own, snapshot, "is damaged")


@pytest.mark.parametrize("size", [0, 100, 2 << 20, 30 << 20])
def test_one_that_was_cut_short_is_found(own, snapshot, size):
    os.truncate(snapshot, size)
    broken(own, snapshot, "is damaged")


def test_one_that_others_can_read_is_not_believed(own, snapshot):
    snapshot.chmod(0o644)
    broken(own, snapshot, "is not ours alone")


def test_one_with_two_names_is_not_believed(own, snapshot, tmp_path):
    os.link(snapshot, tmp_path / "other")
    broken(own, snapshot, "is not ours alone")


def test_a_link_is_removed_and_what_it_leads_to_is_not(own, snapshot, tmp_path):
    aside = tmp_path / "aside"
    snapshot.rename(aside)
    snapshot.symlink_to(aside)
    result = own("doctor", "--verify")
    assert result.code == 1
    assert result.out.startswith(f"broken   {snapshot.name}: open '{snapshot.name}': Too many levels")
    assert not os.path.lexists(snapshot) and aside.exists()


def test_somebody_elses_is_not_believed(own, snapshot):
    os.chown(snapshot, harness.NOBODY, harness.NOBODY)
    broken(own, snapshot, "is not ours alone")


def test_a_pipe_does_not_hold_it_up(own, snapshot):
    snapshot.unlink()
    os.mkfifo(snapshot, 0o600)
    broken(own, snapshot, "is not ours alone")


def test_what_cannot_be_removed_is_told(own, cache, snapshot):
    snapshot.unlink()
    snapshot.mkdir(mode=0o700)
    result = own("doctor", "--verify")
    assert result.code == 1
    assert "it could not be removed: Is a directory" in result.out


def test_a_bad_one_does_not_hide_a_good_one(own, snapshot):
    other = snapshot.with_name("python-data-0123456789abcdef")
    other.write_bytes(b"short")
    other.chmod(0o600)
    result = own("doctor", "--verify", "--json")
    rows = {row["name"]: row for row in json.loads(result.out)["snapshots"]}
    assert result.code == 1
    assert rows[snapshot.name] == {"name": snapshot.name, "state": "ok", "detail": ""}
    assert rows[other.name]["state"] == "broken" and "damaged" in rows[other.name]["detail"]
    assert snapshot.exists() and not other.exists()


def test_one_that_is_just_being_written_is_left_alone(own, snapshot):
    unfinished = snapshot.with_name(snapshot.name + ".4711.new")
    unfinished.write_bytes(b"half")
    result = own("doctor", "--verify")
    assert (result.code, result.out) == (0, f"ok       {snapshot.name}\n")
    assert unfinished.exists()


def test_an_empty_cache_is_fine(own, cache, snapshot):
    snapshot.unlink()
    result = own("doctor", "--verify")
    assert (result.code, result.out, result.err) == (0, "No snapshots are kept.\n", "")


def test_no_cache_is_fine(own, tmp_path):
    for where in (tmp_path, "/nonexistent"):
        own.env["HOME"] = str(where)
        result = own("doctor", "--verify")
        assert (result.code, result.out, result.err) == (0, "No snapshots are kept.\n", "")
    assert list(tmp_path.iterdir()) == []
    assert json.loads(own("doctor", "--verify", "--json").out) == {"snapshots": []}


def test_a_cache_that_others_can_write_is_not_touched(own, cache, snapshot):
    flip(snapshot, MIDDLE)
    cache.chmod(0o777)
    result = own("doctor", "--verify")
    assert result.code == 125 and result.out == ""
    assert "is not ours alone" in result.err
    assert snapshot.exists()


def test_what_was_removed_is_made_anew(own, snapshot):
    flip(snapshot, 5000)
    assert own("doctor", "--verify").code == 1
    assert own.run("--isolation", "vm", "-l", "python", "-c", "print(1)").out == "1\n"
    assert own("doctor", "--verify").out == f"ok       {snapshot.name}\n"
