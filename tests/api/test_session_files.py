"""The files of a session, one by one."""
import os
import socket
import urllib.parse

import pytest

import harness
from sessions import ISOLATIONS, PLACES, SHARED, Session

SERVICE = {"file_max_bytes": "8M", "warm": "python"}

NAMES = ["a", ".hidden", "d/e/f", "with space", "é", "日本", "new\nline", "back\\slash", "quote\"'", "%41",
         "semi;colon&=?#", "n" * 255, "/".join(["d"] * 100)]


def quoted(name):
    return urllib.parse.quote(name)


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_file_is_written_read_seen_by_runs_and_removed(service, strategy, workspace):
    data = bytes(range(256)) * 10
    with Session(service, strategy=strategy, workspace=workspace) as session:
        reply = session.put("/files/d/data.bin", data)
        assert (reply.status, reply.json()) == (200, {"path": "d/data.bin", "kind": "file", "size_bytes": 2560})
        got = session.get("/files/d/data.bin")
        assert (got.status, got.body) == (200, data)
        assert got.headers["Content-Type"] == "application/octet-stream"
        assert 'filename="data.bin"' in got.headers["Content-Disposition"]
        assert session.execute("print(sum(open('d/data.bin', 'rb').read()))")["stdout"] == f"{sum(data)}\n"
        assert session.get("/files/d/data.bin").body == data
        reply = session.delete("/files/d/data.bin")
        assert (reply.status, reply.body) == (204, b"")
        assert session.get("/files/d/data.bin").status == 404
        assert session.files() == {}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:12]))
def test_a_name_may_be_anything_that_a_file_can_be_called(service, strategy, name):
    with Session(service, strategy=strategy) as session:
        assert session.put("/files/" + quoted(name), b"x").status == 200
        assert session.files() == {name: 1}
        assert session.get("/files/" + quoted(name)).body == b"x"
        assert session.delete("/files/" + quoted(name)).status == 204
        assert session.files() == {}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
@pytest.mark.parametrize("name, says", [
    ("/etc/passwd", "File paths must be relative."),
    ("../x", "File paths must not contain '..'."),
    ("a/../../x", "File paths must not contain '..'."),
    ("a/..", "File paths must not contain '..'."),
    ("a//b", "empty names"),
    ("a/", "empty names"),
    ("./a", "'.'"),
    ("n" * 256, "longer than 255"),
    ("/".join(["d"] * 200), "deeper than 128"),
])
def test_a_bad_path_is_refused_by_every_method(service, strategy, name, says):
    with Session(service, strategy=strategy) as session:
        for method, body in (("PUT", b"x"), ("GET", None), ("DELETE", None)):
            for path in {quoted(name), urllib.parse.quote(name, safe="")}:
                reply = service.request(method, f"{session.path}/files/{path}", body)
                assert reply.status == 422 and says in reply.detail(), reply
        assert session.files() == {}


def test_a_path_with_nul_or_a_bad_escape_is_malformed(service):
    with Session(service) as session:
        for path in ("a%00b", "%zz", "%"):
            for reply in (session.get("/files/" + path), session.put("/files/" + path, b"x")):
                assert (reply.status, reply.json()["code"]) == (400, "malformed"), reply


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_what_is_not_there_is_told(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace,
                 files=[{"path": "d/f", "content": "x"}]) as session:
        for path in ("none", "d/none", "d/f/none", "none/none"):
            assert session.get("/files/" + path).status == 404, path
            assert session.delete("/files/" + path).status == 404, path
        assert session.get("/files/d").status == 422  # a directory


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_directory_is_removed_with_all_that_is_in_it(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace, files=[
            {"path": "d/e/f", "content": "1"}, {"path": "d/g", "content": "2"},
            {"path": "k", "content": "3"}]) as session:
        assert session.delete("/files/d").status == 204
        assert [file["path"] for file in session.get("/files").json()["files"]] == ["k"]


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_file_is_replaced(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        session.put("/files/f", b"long content")
        session.put("/files/f", b"short")
        assert session.get("/files/f").body == b"short"
        session.put("/files/f", b"")
        assert session.get("/files/f").body == b""
        assert session.execute("import os; print(os.path.getsize('f'))")["stdout"] == "0\n"


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_a_file_and_a_directory_do_not_replace_each_other(service, strategy):
    with Session(service, strategy=strategy, files=[{"path": "d/f", "content": "x"}]) as session:
        assert session.put("/files/d/f/g", b"x").status == 422
        assert session.put("/files/d", b"x").status == 422
        assert session.files() == {"d/f": 1}


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_what_runs_have_left_is_told_from_what_was_put(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace,
                 files=[{"path": "given", "content": "1"}]) as session:
        session.bash("mkdir d; echo x > d/made; ln -s given link")
        session.put("/files/put", b"x")
        listed = {file["path"]: file for file in session.get("/files").json()["files"]}
        generated = {path for path, file in listed.items() if file["generated"]}
        assert listed["link"]["kind"] == "symlink"
        assert set(listed) == {"given", "put", "d", "d/made", "link"}
        assert generated == {"d", "d/made", "link"}
        assert session.files("?generated=true") == {"d/made": 2}
        assert session.files("?generated=false") == {"given": 1, "put": 1, "d/made": 2}
        assert session.get("/files?generated=yes").status == 422


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_links_of_a_program_lead_nowhere(service, isolation):
    with Session(service, isolation=isolation) as session:
        session.bash("ln -s /etc/passwd out; mkdir d; ln -s / d/root; mkfifo fifo; mkdir -m 0 locked")
        for path in ("out", "fifo", "d/root", "locked"):
            assert session.get("/files/" + path).status == 422, path
        assert session.get("/files/d/root/etc/passwd").status in (404, 422)
        assert session.put("/files/d/root/tmp/x", b"x").status == 422
        assert session.put("/files/out", b"mine").status in (200, 422)
        assert "root:" not in session.bash("cat out")["stdout"] or isolation == "container"
        assert session.delete("/files/d/root").status == 204  # the link alone
        assert session.bash("ls -d /etc")["stdout"] == "/etc\n"


def test_files_that_a_program_has_locked_can_be_read_and_removed(service):
    with Session(service) as session:
        session.bash("mkdir d; echo x > d/f; chmod 0 d/f d")
        assert session.files() == {"d/f": 2}
        assert session.get("/files/d/f").body == b"x\n"
        assert session.delete("/files/d").status == 204


# ---- how large ----


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_a_file_may_be_as_large_as_the_config_says(service, strategy):
    data = os.urandom(8 << 20)
    with Session(service, strategy=strategy) as session:
        assert session.put("/files/f", data).status == 200
        assert session.get("/files/f").body == data
        answer = service.raw(f"PUT {session.path}/files/g HTTP/1.1\r\nHost: localhost\r\n"
                             f"Content-Length: {len(data) + 1}\r\n\r\n".encode() + data)
        assert answer.split()[1] == b"413" and b"File size exceeds maximum of 8 MB" in answer
        assert session.files() == {"f": 8 << 20}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_all_files_together_have_the_sessions_disk(service, strategy):
    with Session(service, strategy=strategy, limits={"disk_bytes": 4 << 20}) as session:
        assert session.put("/files/a", b"x" * (3 << 20)).status == 200
        assert session.put("/files/b", b"x" * (3 << 20)).status == 413
        assert session.put("/files/c", b"x").status == 200
        assert session.get("/files/a").status == 200
        session.delete("/files/a")
        session.delete("/files/b")
        assert session.put("/files/b", b"x" * (3 << 20)).status == 200


def test_a_large_hole_is_no_way_around_it(service):
    with Session(service, strategy="per_execution", workspace="shared",
                 limits={"disk_bytes": 1 << 20}) as session:
        run = session.execute("f = open('hole', 'wb'); f.truncate(6 << 20); f.close()")
        assert session.files() == {}, run


# ---- a body that is refused, or does not come ----


def test_a_body_for_what_is_not_there_is_not_read(service):
    with Session(service) as session:
        for path in (f"{session.path}/files/..%2fx", "/v1/sessions/none/files/x"):
            answer = service.raw(f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n".encode(),
                                 half_close=True)
            assert answer.split()[1] in (b"404", b"422"), answer


def test_a_client_that_breaks_off_leaves_nothing(service):
    with Session(service) as session:
        for _ in range(3):
            with service.connect() as sock:
                sock.sendall(f"PUT {session.path}/files/f HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Length: 1000000\r\n\r\n".encode() + b"x" * 1000)
        assert session.files() == {}


def test_a_client_that_leaves_while_its_file_is_fetched_harms_nobody(service):
    with Session(service) as session:
        session.put("/files/f", b"x" * (8 << 20))
        for _ in range(5):
            with service.connect() as sock:
                sock.sendall(f"GET {session.path}/files/f HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert session.bash("echo alive")["stdout"] == "alive\n"
        assert len(session.get("/files/f").body) == 8 << 20


def test_files_wait_for_the_run_that_goes_on(service):
    with Session(service) as session:
        running = harness.Background(lambda: session.bash("sleep 0.5; echo x > made"))
        session.wait_running()
        assert session.get("/files/made").body == b"x\n"
        assert running.result()["exit_code"] == 0


def test_nothing_is_left_of_files_that_are_gone(service):
    fds = service.fds()
    for strategy in ("per_session", "pool"):
        with Session(service, strategy=strategy) as session:
            for _ in range(20):
                session.put("/files/d/f", b"x" * 100000)
                session.get("/files/d/f")
                session.get("/files/none")
                session.get("/archive")
    mirrors = service.state_dir / "sessions"
    harness.wait_until(lambda: not mirrors.exists() or not list(mirrors.iterdir()), "directories are removed")
    harness.wait_until(lambda: service.fds() <= fds + 2, f"there are about {fds} descriptors again")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_files_that_do_not_fit_the_memory_are_refused_and_harm_nothing(service, isolation):
    with Session(service, isolation=isolation, limits={"memory_bytes": 64 << 20, "disk_bytes": 256 << 20}) as session:
        session.execute("kept = 1")
        replies = [session.put(f"/files/{i}", bytes(8 << 20)) for i in range(9)]
        assert {reply.status for reply in replies} == {200, 413}, replies
        assert "memory" in replies[-1].detail()
        count = sum(reply.status == 200 for reply in replies)
        assert session.files() == {str(i): 8 << 20 for i in range(count)}
        assert session.execute("print(kept)")["stdout"] == "1\n"
        assert session.delete("/files/0").status == 204
        assert session.put("/files/0", b"x").status == 200


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_run_whose_files_do_not_fit_its_memory_is_refused(service, isolation):
    files = [{"path": str(i), "content_base64": "AAAA" * (1 << 18)} for i in range(5)]
    reply = service.post("/v1/execute", {"code": "print(1)", "isolation": isolation, "files": files,
                                         "limits": {"memory_bytes": 4 << 20}})
    assert reply.status == 413 and "memory" in reply.detail(), reply
