"""hotcell keys: made, listed, revoked; kept only as a hash."""
import hashlib
import json
import os
import re
import sqlite3

import harness
import pytest


@pytest.fixture
def keys(hotcell, tmp_path):
    where = tmp_path / "state"

    def call(*args):
        return hotcell("keys", *args, "--state-dir", where)

    call.where = where
    return call


def listed(keys):
    return {row["name"]: row for row in json.loads(keys("list", "--json").out)}


def test_a_new_key_is_printed_once_and_kept_as_a_hash(keys):
    made = keys("add", "alice")
    assert made.code == 0, made
    key = made.out.strip()
    assert re.fullmatch(r"hc_[A-Za-z0-9_-]{43}", key)
    assert "shown this once" in made.err
    assert key not in keys("list").out + keys("list", "--json").out
    whole = b"".join(path.read_bytes() for path in keys.where.rglob("*") if path.is_file())
    assert key.encode() not in whole and key[3:].encode() not in whole
    assert hashlib.sha256(key.encode()).digest() in whole


def test_no_two_keys_are_the_same(keys):
    assert len({keys("add", f"k{i}").out for i in range(5)}) == 5


def test_rights_are_kept(keys):
    assert keys("add", "bob", "--runs-per-minute", "60", "--max-sessions", "3", "--max-bytes", "1M",
                "--max-isolation", "vm", "--languages", "python,r", "--network", "host", "--admin").code == 0
    assert listed(keys)["bob"]["rights"] == {
        "runs_per_minute": 60, "max_sessions": 3, "max_stored_bytes": 1048576, "weakest_isolation": "vm",
        "languages": ["python", "r"], "network": "host", "admin": True}


def test_a_key_without_options_has_no_quotas_and_few_rights(keys):
    assert keys("add", "bob").code == 0
    assert listed(keys)["bob"]["rights"] == {
        "runs_per_minute": 0, "max_sessions": 0, "max_stored_bytes": 0, "weakest_isolation": "container",
        "network": "none", "admin": False}


def test_json_of_a_new_key(keys):
    made = json.loads(keys("add", "bob", "--json").out)
    assert set(made) == {"id", "name", "key"}
    assert listed(keys)["bob"]["id"] == made["id"]


def test_rights_are_listed_as_the_options_that_give_them(keys):
    given = ["--runs-per-minute=5", "--max-sessions=2", "--max-bytes=1048576", "--max-isolation=vm",
             "--languages=lua,python", "--network=host", "--admin"]
    assert keys("add", "all", *given).code == 0
    assert keys("add", "none").code == 0
    lines = {line.split()[0]: line.split()[2:] for line in keys("list").out.splitlines()}
    assert lines == {"all": given, "none": ["no", "limits"]}


def test_a_language_that_is_not_there_is_told(keys):
    """Not refused: one that is registered later may be meant. An alias is none: rights go by id."""
    made = keys("add", "bob", "--languages", "python,cobol,py")
    assert made.code == 0 and made.out.startswith("hc_")
    warnings = [line for line in made.err.splitlines() if "warning" in line]
    assert [line.split("'")[1] for line in warnings] == ["cobol", "py"]
    assert ", lua, " in warnings[0]
    assert "warning" not in keys("add", "eve", "--languages", "python,lua").err


def test_a_name_is_taken_until_its_key_is_revoked(keys):
    assert keys("add", "bob").code == 0
    again = keys("add", "bob")
    assert (again.code, again.out) == (125, "")
    assert "there is a key 'bob'" in again.err
    assert keys("revoke", "bob").code == 0
    assert listed(keys)["bob"]["revoked"] is not None
    assert "revoked" in keys("list").out
    assert keys("add", "bob").code == 0
    assert [row["revoked"] is None for row in json.loads(keys("list", "--json").out)].count(True) == 1


def test_what_is_not_there_cannot_be_revoked(keys):
    assert (keys("revoke", "nobody").code, keys.where.exists()) == (125, False)
    keys("add", "bob")
    gone = keys("revoke", "nobody")
    assert gone.code == 125 and "nobody" in gone.err


def test_listing_makes_nothing(keys):
    assert (keys("list").out, keys("list", "--json").out.strip()) == ("", "[]")
    assert f"there is no directory '{keys.where}'" in keys("list").err
    assert not keys.where.exists()


@pytest.mark.parametrize("args, said", [
    ([], "what is to be done?"),
    (["ad", "x"], "unknown action 'ad'"),
    (["add"], "which key?"),
    (["revoke"], "which key?"),
    (["list", "x"], "unexpected 'x'"),
    (["add", "x", "y"], "unexpected 'y'"),
    (["add", ""], "want 1 to 64 letters"),
    (["add", "a b"], "want 1 to 64 letters"),
    (["add", "../x"], "want 1 to 64 letters"),
    (["add", "x" * 65], "want 1 to 64 letters"),
    (["add", "x", "--runs-per-minute", "0"], "want a number from 1 to 1000000"),
    (["add", "x", "--max-sessions", "-1"], "want a number from 1 to 1000000"),
    (["add", "x", "--max-bytes", "much"], "want a size"),
    (["add", "x", "--max-isolation", "auto"], "want vm, container or process"),
    (["add", "x", "--network", "all"], "want none or host"),
    (["add", "x", "--languages", "a,,b"], "want ids of languages"),
    (["list", "--admin"], "--admin is for 'hotcell keys add'"),
    (["revoke", "x", "--json"], "--json is for"),
    (["list", "--config", "/nowhere.yaml"], "open '/nowhere.yaml'"),
])
def test_what_is_wrong_is_told(keys, args, said):
    result = keys(*args)
    assert (result.code, result.out) == (125, "")
    assert said in result.err
    assert not keys.where.exists()


def test_the_state_directory_may_come_from_the_settings(hotcell, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text(f"state_dir: {tmp_path}/elsewhere\n")
    assert hotcell("keys", "add", "bob", "--config", config).code == 0
    assert (tmp_path / "elsewhere" / "hotcell.db").exists()
    env = dict(hotcell.env, HOTCELL_STATE_DIR=str(tmp_path / "elsewhere"))
    assert "bob" in hotcell("keys", "list", env=env).out


def test_a_key_that_could_not_be_printed_is_revoked(keys, hotcell):
    with open("/dev/full", "w") as full:
        result = hotcell("keys", "add", "bob", "--state-dir", keys.where, stdout=full)
    assert result.code == 125 and "revoked again" in result.err
    assert listed(keys)["bob"]["revoked"] is not None


def test_nobody_else_can_read_them(keys):
    keys("add", "bob")
    assert keys.where.stat().st_mode & 0o777 == 0o700
    for path in keys.where.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.skipif(not harness.IS_ROOT, reason="only root makes things for others")
def test_root_leaves_what_the_service_can_use(keys):
    keys.where.mkdir(mode=0o700)
    os.chown(keys.where, 4711, 4712)
    keys("add", "bob")
    # One that is open meanwhile makes the files of its log stay.
    with sqlite3.connect(keys.where / "hotcell.db") as db:
        db.execute("select count(*) from sqlite_master").fetchall()
        keys("add", "alice")
        found = list(keys.where.rglob("*"))
        for path in found:
            assert (path.stat().st_uid, path.stat().st_gid) == (4711, 4712), path
    assert found


@pytest.mark.skipif(not harness.IS_ROOT, reason="only root makes things for others")
def test_a_directory_that_root_makes_is_the_services_from_birth(keys, hotcell):
    assert hotcell("keys", "add", "bob", "--state-dir", keys.where, env=dict(hotcell.env, HOTCELL_USER="4711")).code == 0
    for path in [keys.where, *keys.where.rglob("*")]:
        assert path.stat().st_uid == 4711, path
