"""Sessions that are deleted: what happens between the wish and the store's answer, and what is left of them."""
import contextlib
import os
import signal
import sqlite3
import time

import pytest

import harness
from sessions import Session


def rows(service):
    """The ids of all sessions that the service has written down."""
    with contextlib.closing(sqlite3.connect(service.state_dir / "hotcell.db")) as db:
        return {id for id, in db.execute("SELECT id FROM sessions")}


@contextlib.contextmanager
def busy_store(service):
    """Nothing is written meanwhile, for ten seconds at most; whoever asks for it waits."""
    with contextlib.closing(sqlite3.connect(service.state_dir / "hotcell.db", isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            db.execute("ROLLBACK")


@contextlib.contextmanager
def clinging_store(service):
    """It does not let go of a session meanwhile."""
    with contextlib.closing(sqlite3.connect(service.state_dir / "hotcell.db", isolation_level=None)) as db:
        db.execute("CREATE TRIGGER clings BEFORE DELETE ON sessions BEGIN SELECT RAISE(ABORT, 'it clings'); END")
        try:
            yield
        finally:
            db.execute("DROP TRIGGER clings")


def stored(service):
    return {file["file_id"] for file in service.get("/v1/files").json()["files"]}


def listed(service):
    return {session["session_id"] for session in service.get("/v1/sessions").json()["sessions"]}


# ---- generated files are to stay ----


def test_what_was_kept_is_removed_again_if_the_session_cannot_be_deleted(service):
    before = stored(service)
    with Session(service) as session:
        session.bash("echo 1 > one; echo 2 > two")
        with clinging_store(service):
            reply = session.delete("?keep_generated=true")
        assert "it clings" in reply.detail(), reply
        harness.wait_until(lambda: stored(service) == before, "what was stored is removed")
        assert session.files() == {"one": 2, "two": 2}
        reply = session.delete("?keep_generated=true")
        assert [file["path"] for file in reply.json()["files"]] == ["one", "two"], reply
    assert session.id not in rows(service)


def test_what_was_kept_is_removed_again_if_another_one_deletes_the_session(service):
    before = stored(service)
    session = Session(service)
    session.bash("echo 1 > one; echo 2 > two")
    with busy_store(service):
        keeping = harness.Background(lambda: session.delete("?keep_generated=true"))
        harness.wait_until(lambda: session.state()["state"] == "busy", "the first file is on its way")
        deletion = harness.Background(session.delete)
        harness.wait_until(lambda: session.get().status == 404, "the deletion has begun")
    assert (keeping.result().status, deletion.result().status) == (404, 204)
    harness.wait_until(lambda: stored(service) == before, "what was stored is removed")
    assert session.id not in rows(service)


# ---- nobody is to find it meanwhile ----


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_while_it_is_deleted_it_is_found_no_more_and_not_written(service, strategy):
    session = Session(service, strategy=strategy)
    with busy_store(service):
        deletion = harness.Background(session.delete)
        harness.wait_until(lambda: session.get().status == 404, "its deletion has begun")
        assert session.id not in listed(service)
        for late in (session.patch({"ttl_seconds": 1000}), session.delete(), session.delete("?keep_generated=true"),
                     session.post("/execute", {"code": "print(1)"}), session.get("/files"),
                     service.post("/v1/execute", {"code": "print(1)", "session_id": session.id})):
            assert (late.status, late.detail()) == (404, f"Session '{session.id}' not found: it is being deleted")
        assert not deletion.is_over()
    assert deletion.result().status == 204
    assert session.get().status == 404
    assert session.id not in rows(service)


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_one_that_could_not_be_deleted_is_found_again(service, strategy):
    with Session(service, strategy=strategy) as session:
        with clinging_store(service):
            assert "it clings" in session.delete().detail()
        assert session.id in listed(service)
        assert session.patch({"ttl_seconds": 1000}).status == 200
        assert session.execute("print(1)")["stdout"] == "1\n"
    assert session.id not in rows(service)


def test_one_that_expires_while_it_is_deleted_is_not_written(service):
    session = Session(service, strategy="pool", ttl_seconds=2)
    with busy_store(service):
        deletion = harness.Background(session.delete)
        harness.wait_until(lambda: session.get().status == 404, "its deletion has begun")
        harness.wait_until(lambda: time.time() > session.opened["expires_at"] + 1.5, "it would have expired")
    assert deletion.result().status == 204
    assert session.id not in rows(service)


def test_a_session_that_is_deleted_and_changed_at_once_leaves_no_row(service):
    for _ in range(10):
        session = Session(service, strategy="pool")
        deletion, *changes = harness.at_once(session.delete, *[lambda: session.patch({"ttl_seconds": 1000})] * 5)
        assert deletion.status == 204
        assert {change.status for change in changes} <= {200, 404}, changes
        assert session.id not in rows(service)


def test_one_that_is_deleted_while_it_opens_never_opens(service):
    """Its cell waits for a warden that is stopped."""
    before = listed(service)
    wardens = service.warden_pids()
    for pid in wardens:
        os.kill(pid, signal.SIGSTOP)
    try:
        opening = harness.Background(lambda: service.post("/v1/sessions", {"files": [{"path": "f", "content": "1"}]}))
        id, = harness.wait_until(lambda: listed(service) - before, "it opens")
        assert service.delete(f"/v1/sessions/{id}").status == 204
        assert listed(service) == before
    finally:
        for pid in wardens:
            os.kill(pid, signal.SIGCONT)
    reply = opening.result()
    assert (reply.status, reply.detail()) == (404, f"Session '{id}' not found: it was deleted")
    assert id not in rows(service)
