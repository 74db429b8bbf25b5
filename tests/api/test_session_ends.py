"""How sessions end: by themselves, with their cell, with the service; and how many there may be."""
import os
import signal
import time

import pytest

import harness
from sessions import ISOLATIONS, Session

SERVICE = {"sessions_max": 5, "warm": "python"}


def lost(session, why):
    """It is found no more, and says why."""
    for reply in (session.get(), session.post("/bash", {"cmd": "true"}), session.delete()):
        assert reply.status == 404, reply
        assert reply.detail().startswith(f"Session '{session.id}' not found: "), reply
        assert why in reply.detail(), reply
    return True


@pytest.mark.parametrize("strategy", ["per_session", "per_execution", "pool"])
def test_a_session_expires(service, strategy):
    session = Session(service, strategy=strategy, ttl_seconds=1)
    harness.wait_until(lambda: time.time() > session.opened["expires_at"], "it is time")
    assert lost(session, "it has expired")


def test_a_session_that_nobody_asks_for_expires_too(service):
    before = service.cell_pids()
    session = Session(service, ttl_seconds=1, isolation="container")
    session.bash("true")
    harness.wait_until(lambda: f"session.closed id={session.id}" in service.log(), "it is closed")
    harness.wait_until(lambda: not service.cell_pids() - before, "its cell is gone")


def test_an_extended_session_lives_on(service):
    with Session(service, ttl_seconds=2) as session:
        session.patch({"ttl_seconds": 60})
        harness.wait_until(lambda: time.time() > session.opened["expires_at"] + 1.5, "it would have expired")
        assert session.bash("echo alive")["stdout"] == "alive\n"


def test_a_run_outlives_the_expiry_and_the_session_does_not(service):
    session = Session(service, ttl_seconds=1)
    done = session.bash("sleep 2.5; echo done")
    assert done["stdout"] == "done\n"
    assert lost(session, "it has expired")


def test_a_session_that_is_idle_for_too_long_ends(service):
    session = Session(service, idle_timeout=2)
    for _ in range(3):
        time.sleep(0.8)
        assert session.bash("true")["exit_code"] == 0  # it is not idle
    harness.wait_until(lambda: f"session.closed id={session.id}" in service.log(), "it is closed")
    assert lost(session, "it was idle for too long")


def test_a_long_run_is_not_idle(service):
    with Session(service, idle_timeout=1) as session:
        assert session.bash("sleep 3; echo done")["stdout"] == "done\n"
        assert session.bash("echo still")["stdout"] == "still\n"


def test_there_are_only_so_many(service):
    many = [Session(service, strategy="pool") for _ in range(5)]
    reply = service.post("/v1/sessions", {})
    assert reply.status == 429 and "5 sessions" in reply.detail(), reply
    assert many.pop().delete().status == 204
    many.append(Session(service, strategy="pool"))
    for session in many:
        session.delete()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_cell_that_is_killed_takes_its_session_along(service, isolation):
    before = service.cell_pids()
    session = Session(service, isolation=isolation)
    session.bash("echo x > f")
    cell = service.cell_pids() - before
    assert cell
    for pid in cell:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    harness.wait_until(lambda: session.get().status == 404, "the session is gone")
    assert lost(session, "cell")
    assert service.execute("print(1)")["stdout"] == "1\n"


def test_a_cell_that_is_killed_under_a_run_is_told(service):
    before = service.cell_pids()
    session = Session(service, isolation="container")
    session.bash("true")
    running = harness.Background(lambda: session.post("/bash", {"cmd": "sleep 50", "timeout_ms": 60000}))
    session.wait_running()
    waiting = harness.Background(lambda: session.get("/files"))
    for pid in service.cell_pids() - before:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    done = running.result()
    assert done.status == 200 and done.json()["reason"] in ("cell_failed", "signaled", "cancelled"), done
    assert done.json()["duration_ms"] > 0
    assert waiting.result().status in (200, 404)
    harness.wait_until(lambda: session.get().status == 404, "the session is gone")


def test_a_warden_that_is_killed_takes_its_sessions_along_but_not_those_without_a_cell(service):
    kept = Session(service, strategy="pool", files=[{"path": "f", "content": "x"}])
    gone = Session(service, isolation="container")
    gone.bash("true")
    for pid in service.warden_pids():
        os.kill(pid, signal.SIGKILL)
    harness.wait_until(lambda: gone.get().status == 404, "the session is gone")
    assert lost(gone, "warden")
    # The next cell of its kind starts another warden.
    harness.wait_until(lambda: service.post("/v1/execute", {"code": "1", "isolation": "container"}).status == 200,
                       "cells are made again")
    service.wait_ready()
    assert kept.bash("cat f")["stdout"] == "x"
    assert kept.delete().status == 204


# ---- with the service ----


def test_after_a_restart_sessions_are_told_to_be_lost():
    with harness.Running() as service:
        session = Session(service, files=[{"path": "f", "content": "x"}])
        pool = Session(service, strategy="pool", files=[{"path": "f", "content": "x"}])
        deleted = Session(service)
        deleted.delete()
        service.stop()
        service.start()
        assert lost(session, "the service has ended")
        assert lost(pool, "the service has ended")
        assert deleted.get().detail() == f"Session '{deleted.id}' not found"
        assert list((service.state_dir / "sessions").glob("*")) == []
        assert service.get("/v1/sessions").json() == {"sessions": []}


@pytest.mark.parametrize("ends", ["deleted", "with the service"])
def test_of_a_session_with_many_files_nothing_is_left(ends):
    with harness.Running() as service:
        kept = service.state_dir / "sessions"
        session = Session(service, strategy="pool", files=[{"path": f"{i}", "content": "x"} for i in range(2000)])
        assert len(list((kept / session.id).iterdir())) == 2000
        if ends == "deleted":
            assert session.delete().status == 204
            harness.wait_until(lambda: not list(kept.iterdir()), "they are gone")
        else:
            service.stop()
        assert not list(kept.iterdir())


def test_after_a_kill_sessions_are_told_to_be_lost():
    with harness.Running() as service:
        session = Session(service)
        pool = Session(service, strategy="pool", files=[{"path": "f", "content": "x"}])
        daemon = service.daemon_pid()
        os.kill(daemon, signal.SIGKILL)
        harness.wait_until(lambda: service.children("hotcell-daemon") not in ([], [daemon]), "another one is there")
        service.wait_ready()
        assert lost(session, "started again")
        assert lost(pool, "started again")
        assert list((service.state_dir / "sessions").glob("*")) == []


def test_the_service_ends_while_sessions_are_at_work():
    with harness.Running(drain_s=1) as service:
        sessions = [Session(service, strategy=strategy) for strategy in ("per_session", "per_execution", "pool")]
        for session in sessions:
            session.put("/files/f", b"x" * 100000)
        calls = [harness.Background(lambda s=session: s.post("/bash", {"cmd": "sleep 50", "timeout_ms": 60000}))
                 for session in sessions]
        for session in sessions:
            session.wait_running()
        calls += [harness.Background(lambda s=session: s.get("/archive")) for session in sessions]
        calls += [harness.Background(lambda s=session: s.delete("?keep_generated=true")) for session in sessions]
        time.sleep(0.3)
        service.stop()  # and looks at what is left, and whether a sanitizer has spoken up
        for call in calls:
            try:
                call.result()
            except (OSError, harness.http.client.HTTPException):
                pass


# ---- keys ----


def test_a_key_has_its_own_sessions_and_only_so_many():
    with harness.Running() as service:
        keys = {}
        for name, options in (("one", ["--max-sessions=2"]), ("two", [])):
            keys[name] = harness.Client(service.port, key=add_key(service, name, *options))
        mine = [Session(keys["one"]) for _ in range(2)]
        reply = keys["one"].post("/v1/sessions", {})
        assert reply.status == 429 and "This key has 2 sessions already" in reply.detail(), reply
        theirs = Session(keys["two"])
        for path in ("", "/files", "/archive"):
            reply = keys["one"].get(theirs.path + path)
            assert (reply.status, reply.detail()) == (404, f"Session '{theirs.id}' not found")
        assert keys["one"].delete(theirs.path).status == 404
        assert [s["session_id"] for s in keys["two"].get("/v1/sessions").json()["sessions"]] == [theirs.id]
        mine.pop().delete()
        Session(keys["one"])


def test_a_key_is_held_to_its_rights():
    with harness.Running() as service:
        client = harness.Client(service.port, key=add_key(
            service, "one", "--languages=python", "--max-bytes=1000"))
        assert client.post("/v1/sessions", {"language": "javascript"}).status == 403
        session = Session(client)
        assert session.post("/bash", {"cmd": "true"}).status == 403
        session.execute("f = open('f', 'w').write('x' * 600)")
        session.execute("f = open('g', 'w').write('x' * 600)")
        reply = session.delete("?keep_generated=true")
        assert reply.status == 413 and "1000 bytes" in reply.detail(), reply
        harness.wait_until(lambda: client.get("/v1/files").json()["files"] == [], "it is all or nothing")
        assert session.files() == {"f": 600, "g": 600}
        session.delete("/files/g")
        assert len(session.delete("?keep_generated=true").json()["files"]) == 1


def add_key(service, name, *options):
    done = harness.subprocess.run([str(harness.HOTCELL), "keys", "add", name, *options,
                                   f"--state-dir={service.state_dir}"], env=service.environment(),
                                  capture_output=True, text=True, timeout=harness.PATIENCE_S)
    assert done.returncode == 0, done
    return next(word for word in done.stdout.split() if word.startswith("hc_"))
