"""Sessions: what they are opened with, what is told of them, and runs in them."""
import json
import socket
import time

import pytest

import harness
from sessions import ISOLATED, ISOLATIONS, NOBODY, PLACES, SHARED, Session, refused

SERVICE = {"timeout_max_ms": 60000, "warm": "python"}


# ---- opening ----


def test_a_session_is_opened_with_nothing_said(service):
    before = time.time()
    reply = service.post("/v1/sessions", {})
    assert reply.status == 201, reply
    opened = reply.json()
    assert before + 900 <= opened["expires_at"] <= time.time() + 900
    assert opened["state"] == "idle" and opened["runs"] == 0
    config = opened["config"]
    assert (config["language"], config["strategy"], config["workspace"], config["network"]) == (
        "python", "per_session", "shared", "none")
    assert service.delete(f"/v1/sessions/{opened['session_id']}").status == 204


def test_a_session_needs_no_body(service):
    reply = service.post("/v1/sessions")
    assert reply.status == 201, reply
    service.delete(f"/v1/sessions/{reply.json()['session_id']}")


@pytest.mark.parametrize("strategy, workspace", [("per_session", "shared"), ("per_execution", "isolated"),
                                                 ("pool", "isolated")])
def test_a_strategy_has_its_usual_workspace(service, strategy, workspace):
    with Session(service, strategy=strategy) as session:
        assert session.opened["config"]["workspace"] == workspace


def test_all_that_was_said_is_told(service):
    with Session(service, language="js", isolation="container", env={"A": "1"}, ttl_seconds=77,
                 idle_timeout=66, user="alice",
                 limits={"memory_bytes": 128 << 20, "processes": 20, "cpus": 0.5}) as session:
        config = session.state()["config"]
        assert session.state()["user"] == "alice"
    assert config["language"] == "javascript"
    assert config["isolation"] == "container"
    assert config["env"] == {"A": "1"}
    assert (config["ttl_seconds"], config["idle_timeout"]) == (77, 66)
    assert config["limits"]["memory_bytes"] == 128 << 20
    assert (config["limits"]["processes"], config["limits"]["cpus"]) == (20, 0.5)


@pytest.mark.parametrize("limits", [{}, {"output_bytes": 4096, "cpus": 0.25}])
def test_limits_that_are_told_can_be_asked_for(service, limits):
    with Session(service, limits=limits) as session:
        told = session.state()["config"]["limits"]
    assert set(told) == {"memory_bytes", "cpu_ms", "processes", "disk_bytes", "output_bytes", "cpus"}
    assert {**told, **limits} == told
    with Session(service, limits=told) as session:
        assert session.state()["config"]["limits"] == told


def test_a_shared_workspace_of_a_pool_is_refused_with_the_reason(service):
    said = refused(service, 422, strategy="pool", workspace="shared")
    assert 'workspace "shared" is not supported with strategy "pool"' in said


@pytest.mark.parametrize("fields, status, says", [
    ({"ttl_seconds": 0}, 422, "greater than or equal to 1"),
    ({"ttl_seconds": 86401}, 422, "less than or equal to 86400"),
    ({"ttl_seconds": -1}, 422, "greater than or equal to 1"),
    ({"ttl_seconds": 10**30}, 422, None),
    ({"ttl_seconds": "soon"}, 422, "valid integer"),
    ({"idle_timeout": -1}, 422, "greater than or equal to 0"),
    ({"strategy": "never"}, 422, "'per_session', 'per_execution' or 'pool'"),
    ({"workspace": "mine"}, 422, "'isolated' or 'shared'"),
    ({"language": "klingon"}, 400, "unknown language 'klingon'"),
    ({"language": 7}, 422, "valid string"),
    ({"isolation": "steel"}, 422, "'auto', 'process', 'container' or 'vm'"),
    ({"isolation": "process"}, 403, "allow_process"),
    ({"network": "host"}, 403, "allow_host_network"),
    ({"env": {"A=B": "1"}}, 422, "no name for a setting"),
    ({"env": []}, 422, "valid dictionary"),
    ({"limits": {"memory_bytes": 1}}, 422, "greater than or equal"),
    ({"limits": {"memory_mb": 64}}, 422, "no such limit"),
    ({"user": "x" * 300}, 422, "at most 256"),
    ({"profile": "no-such-profile", "isolation": "vm"}, 404, "has no profile 'no-such-profile'"),
    ({"files": {}}, 422, "valid list"),
    ({"files": [{"path": "/etc/passwd", "content": ""}]}, 422, "File paths must be relative."),
    ({"files": [{"path": "a/../b", "content": ""}]}, 422, "File paths must not contain '..'."),
    ({"files": [{"path": "", "content": ""}]}, 422, "File path must not be empty."),
    ({"files": [{"path": "a"}]}, 422, "one of file_id, content, content_base64"),
    ({"files": [{"path": "a", "file_id": NOBODY}]}, 404, f"File with ID '{NOBODY}' not found for path 'a'."),
    ({"files": [{"path": "a", "file_id": "../../etc/passwd"}]}, 404, "not found"),
    ({"files": [{"path": "a", "content_base64": "!"}]}, 422, "not base64"),
    ({"mounts": [{"source": "/etc"}]}, 403, "(setting mounts)"),
    ({"mounts": "/"}, 422, "valid list"),
])
def test_wrong_input_is_refused_in_words(service, fields, status, says):
    if fields.get("isolation") == "vm" and not harness.HAS_KVM:
        pytest.skip("no vm isolation here")
    said = refused(service, status, **fields)
    assert says is None or says in said, said


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"null", b'{"ttl_seconds":'])
def test_what_is_no_object_is_refused(service, body):
    assert service.post("/v1/sessions", body).status == 422


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_session_begins_with_its_files(service, strategy, workspace):
    stored = service.upload("data.bin", b"\x00\xffstored")
    with Session(service, strategy=strategy, workspace=workspace, files=[
            {"path": "a.txt", "content": "text"}, {"path": "d/b", "content_base64": "AP8="},
            {"path": "d/e/c.bin", "file_id": stored}]) as session:
        run = session.execute("for n in ('a.txt', 'd/b', 'd/e/c.bin'): print(open(n, 'rb').read())")
        assert run["stdout"] == "b'text'\nb'\\x00\\xff'\nb'\\x00\\xffstored'\n", run
        assert session.files() == {"a.txt": 4, "d/b": 2, "d/e/c.bin": 8}


def test_files_that_do_not_fit_open_no_session(service):
    before = len(service.get("/v1/sessions").json()["sessions"])
    for strategy in ("per_session", "pool"):
        reply = service.post("/v1/sessions", {
            "strategy": strategy, "limits": {"disk_bytes": 1 << 20},
            "files": [{"path": "big", "content": "x" * (2 << 20)}]})
        assert reply.status == 413, reply
    assert len(service.get("/v1/sessions").json()["sessions"]) == before


def test_a_file_in_the_way_of_another_opens_no_session(service):
    for strategy in ("per_session", "pool"):
        reply = service.post("/v1/sessions", {"strategy": strategy, "files": [
            {"path": "a", "content": ""}, {"path": "a/b", "content": ""}]})
        assert reply.status == 422, reply


# ---- runs ----


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_what_a_run_leaves_the_next_one_finds(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        run = session.execute("import os; os.makedirs('d/e'); open('d/f', 'w').write('left')")
        assert [file["path"] for file in run["files"]] == ["d/f"]
        assert session.execute("import os; print(open('d/f').read(), os.listdir('d/e'))")[
            "stdout"] == "left []\n"
        assert session.bash("cat d/f")["stdout"] == "left"
        assert session.files("?generated=true") == {"d/f": 4}


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_a_run_tells_of_its_own_files_only(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        assert sorted(f["path"] for f in session.bash("echo 1 > a; echo 1 > b; sleep 0.1")["files"]) == ["a", "b"]
        assert sorted(f["path"] for f in session.bash("echo 2 > b; echo 2 > c; sleep 0.1")["files"]) == ["b", "c"]
        assert session.bash("cat a b c")["files"] == []
        assert session.files("?generated=true") == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_what_a_run_removes_is_gone_for_the_next_one(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace,
                 files=[{"path": "d/a", "content": "1"}, {"path": "b", "content": "2"}]) as session:
        session.bash("rm -r d; echo more >> b")
        assert session.bash("ls; cat b")["stdout"] == "b\n2more\n"
        assert session.files() == {"b": 6}


@pytest.mark.parametrize("strategy, workspace", ISOLATED)
def test_an_isolated_run_finds_the_sessions_files_and_no_other_runs(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace,
                 files=[{"path": "a", "content": "mine"}]) as session:
        run = session.execute("open('a', 'w').write('changed'); open('new', 'w').write('x')")
        stored = {file["path"]: file["file_id"] for file in run["files"]}
        assert sorted(stored) == ["a", "new"]
        assert service.download(stored["a"]) == b"changed"
        run = session.execute("import os; print(sorted(os.listdir('.')), open('a').read())")
        # A kept interpreter is given the code itself.
        assert run["stdout"] == ("['a'] mine\n" if strategy == "per_session" else "['__main__.py', 'a'] mine\n")
        assert session.files() == {"a": 4}


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_the_code_is_no_file_of_the_session(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        session.execute("1")
        session.bash("true")
        assert session.files() == {}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_every_isolation_has_sessions(service, strategy, workspace, isolation):
    with Session(service, strategy=strategy, workspace=workspace, isolation=isolation) as session:
        run = session.execute("print(6 * 7)")
        assert (run["stdout"], run["isolation"], run["session_id"]) == ("42\n", isolation, session.id), run
        assert session.bash("echo $((6 * 7))")["stdout"] == "42\n"
        cells = session.state()["cells"]
        assert {cell["isolation"] for cell in cells} == {isolation}


def test_the_files_of_a_run_are_in_its_session(service):
    with Session(service) as session:
        session.execute("1", files=[{"path": "in", "content": "x"}])
        assert session.files() == {"in": 1}


def test_a_run_is_of_the_sessions_language_unless_it_says_otherwise(service):
    with Session(service, language="bash") as session:
        assert session.execute("echo 1")["language"] == "bash"
    for strategy in ("per_session", "per_execution", "pool"):
        with Session(service, strategy=strategy) as session:
            assert session.execute("print 1", language="perl")["stdout"] == "1"


def test_a_language_that_needs_more_than_the_sessions_cell_shows_is_refused(service):
    with Session(service, language="bash", isolation="container") as session:
        reply = session.post("/execute", {"code": "1", "language": "python"})
        assert reply.status in (200, 422), reply  # what Python needs may not be there at all
        assert reply.status == 200 or "which the language needs" in reply.detail()
        assert session.bash("echo 1")["stdout"] == "1\n"


def test_a_language_that_compiles_runs_in_a_session(service):
    with Session(service, strategy="per_execution", workspace="shared") as session:
        run = session.execute('#include <stdio.h>\nint main(void) { fputs("x", fopen("made", "w")); }',
                              language="c", timeout_ms=60000)
        assert run["exit_code"] == 0, run
        assert session.bash("cat made")["stdout"] == "x"


def test_a_session_of_a_language_that_compiles_has_a_container(service):
    with Session(service, language="c") as session:
        assert session.execute('#include <stdio.h>\nint main(void) { puts("hi"); }', timeout_ms=60000)["stdout"] == "hi\n"
        assert session.state()["cells"][0]["isolation"] == "container"


def test_a_kept_vm_for_a_language_that_compiles_is_refused(service):
    assert "is compiled" in refused(service, 422, language="c", isolation="vm")


# What a run is refused for when it has a cell already, or nearly.
REFUSED = {
    "an entry that is not there": {"entry_point": "zz.py"},
    "another disk": {"code": "1", "limits": {"disk_bytes": 1 << 20}},
    "too little memory": {"code": "1", "limits": {"memory_bytes": 1 << 20}},
    "code in the place of a file": {"code": "echo 1", "language": "bash"},
    "a file in the way of another": {"code": "1", "files": [{"path": "b/x", "content": "1"}]},
}


@pytest.mark.parametrize("strategy, workspace", PLACES)
@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED.keys())
def test_a_run_that_is_refused_changes_no_file(service, strategy, workspace, fields):
    files = {"given": 1, "d/a": 2, "b": 3, "main.sh": 4}
    given = [{"path": path, "content": "x" * size} for path, size in files.items()]
    with Session(service, strategy=strategy, workspace=workspace, files=given) as session:
        reply = session.post("/execute", fields)
        if reply.status == 200:  # a kept interpreter says it itself
            assert reply.json()["exit_code"] != 0 or "disk_bytes" in str(fields), reply
        assert session.files() == files
        assert session.execute("print(open('d/a').read())")["stdout"] == "xx\n"


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("language, first, second, refused", [
    ("python", "x = 5", "print(x)", "x = 6; print('refused')"),
    ("javascript", "var x = 5", "console.log(x)", "x = 6; console.log('refused')"),
    ("bash", "x=5", "echo $x", "x=6; echo refused")])
def test_a_run_that_is_refused_is_not_run_later(service, isolation, language, first, second, refused):
    in_the_way = [{"path": "b/x", "content": "1"}]
    with Session(service, language=language, isolation=isolation, files=[{"path": "b", "content": "1"}]) as session:
        for _ in range(2):
            assert session.post("/execute", {"code": refused, "files": in_the_way}).status == 422
        assert session.execute(first)["stdout"] == ""
        for _ in range(2):
            assert session.post("/execute", {"code": refused, "files": in_the_way}).status == 422
            assert session.execute(second)["stdout"] == "5\n"


@pytest.mark.parametrize("strategy", ["per_session", "per_execution"])
def test_code_replaces_no_file_of_its_name(service, strategy):
    with Session(service, strategy=strategy, workspace="shared") as session:
        session.bash("echo mine > main.sh")
        reply = session.post("/execute", {"code": "echo 1", "language": "bash"})
        assert (reply.status, reply.detail()) == (
            422, "File path 'main.sh' is reserved for the execution entrypoint."), reply
        assert session.get("/files/main.sh").body == b"mine\n"
        session.delete("/files/main.sh")
        for _ in range(2):
            assert session.execute("echo 1", language="bash")["stdout"] == "1\n"
        assert session.files() == {}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_code_that_is_refused_harms_neither_file_nor_state(service, isolation):
    with Session(service, isolation=isolation) as session:
        session.execute("x = 5")
        session.put("/files/__main__.py", b"mine")
        for code in "y = 1", "import os; print(x, os.listdir('.'))":
            reply = session.post("/execute", {"code": code, "args": ["a"]})
            assert (reply.status, reply.detail()) == (
                422, "File path '__main__.py' is reserved for the execution entrypoint."), reply
            assert session.get("/files/__main__.py").body == b"mine"
            assert session.state()["has_state"]
        assert session.execute("print(x)")["stdout"] == "5\n"


def give_up(session, body, after_ms):
    """A client that is gone so soon."""
    data = json.dumps(body).encode()
    with session.client.connect() as sock:
        sock.sendall(f"POST {session.path}/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        time.sleep(after_ms / 1000)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_run_that_is_cancelled_at_once_costs_no_state(service, isolation):
    with Session(service, isolation=isolation) as session:
        session.execute("x = 7")
        for after_ms in 0, 2, 4, 6, 10, 20, 50:
            give_up(session, {"code": "while True: pass", "timeout_ms": 30000}, after_ms)
            run = session.execute("print(x)")
            assert (run["stdout"], run["state"]) == ("7\n", "kept"), (after_ms, run)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_run_that_is_cancelled_while_its_files_go_in_leaves_no_half_of_one(service, isolation):
    size = 2500000
    files = [{"path": f"d/{n}", "content": "x" * size} for n in range(6)]
    with Session(service, isolation=isolation) as session:
        session.execute("x = 7")
        for after_ms in 20, 30, 40, 60, 80:
            give_up(session, {"code": "print(1)", "files": files}, after_ms)
            assert session.execute("print(x)")["stdout"] == "7\n"
            assert session.state()["has_state"]
            assert set(session.files().values()) <= {size}, after_ms
            session.delete("/files/d")


def test_code_that_could_not_be_removed_is_in_nobodys_way(service):
    with Session(service) as session:
        # The shell makes another file of the name, and ends before it can be removed.
        run = session.execute("echo new > other; mv other main.sh; chmod 0 .; kill -9 $$", language="bash")
        assert run["exit_code"] == 137, run
        assert session.execute("echo 1", language="bash")["stdout"] == "1\n"


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_file_of_the_session_can_be_what_is_run(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace,
                 files=[{"path": "d/app.py", "content": "print('app', __name__)"}]) as session:
        reply = session.post("/execute", {"entry_point": "d/app.py"})
        assert (reply.status, reply.json()["stdout"]) == (200, "app __main__\n"), reply


@pytest.mark.parametrize("leaves", ["os.makedirs('/'.join(['d'] * 60))", "os.chmod('/tmp', 0)",
                                    "os.chmod('/workspace', 0)", "os.makedirs('a/b'); os.chmod('a', 0)",
                                    "os.makedirs('/tmp/' + '/'.join(['d'] * 200))"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_whatever_an_isolated_run_leaves_is_cleared_away(service, leaves, isolation):
    with Session(service, workspace="isolated", isolation=isolation) as session:
        session.execute("kept = 1")
        assert session.execute("import os; " + leaves)["exit_code"] == 0
        run = session.execute("print(kept, os.listdir('.'), [n for n in os.listdir('/tmp') if n != '.hotcell'])")
        assert run["stdout"] == "1 [] []\n", run


@pytest.mark.parametrize("strategy", ["per_session", "per_execution"])
def test_programs_and_links_outlive_the_run_that_made_them(service, strategy):
    with Session(service, strategy=strategy, workspace="shared") as session:
        session.bash("printf '#!/bin/sh\\necho ran\\n' > tool; chmod +x tool; echo data > plain; chmod 640 plain;"
                     "mkdir -p bin kept; ln -s ../tool bin/run; ln -s nowhere dangling; ln -s kept as_dir")
        run = session.bash("./tool; bin/run; stat -c '%a' tool plain; readlink bin/run dangling as_dir; cd as_dir")
        assert (run["stdout"], run["stderr"]) == ("ran\nran\n755\n640\n../tool\nnowhere\nkept\n", "")
        # only the permission is new, or another kind of thing
        session.bash("chmod -x tool; chmod +x plain; rm dangling bin/run; mkdir dangling; rmdir kept; ln -s tool kept")
        assert session.bash("test -x tool || test -x plain && test -d dangling && readlink kept; ls bin")["stdout"] == "tool\n"
        kinds = {file["path"]: file["kind"] for file in session.state()["files"]}
        assert kinds["kept"] == kinds["as_dir"] == "symlink" and kinds["dangling"] == "directory"


@pytest.mark.parametrize("strategy", ["per_session", "per_execution"])
def test_a_link_that_leads_out_of_the_cell_leads_nowhere_outside(service, strategy):
    host = "/etc/hostname"
    with Session(service, strategy=strategy, workspace="shared") as session:
        session.bash(f"ln -s {host} out; ln -s ../../../../../../../..{host} up; ln -s /etc dir")
        for path in ("out", "up", "dir/hostname", "dir"):
            assert service.get(f"/v1/sessions/{session.id}/files/{path}").status in (400, 404, 422), path
        assert service.put(f"/v1/sessions/{session.id}/files/dir/new", b"x").status in (400, 404, 409, 422)
        archive = service.get(f"/v1/sessions/{session.id}/archive").body
        with open(host, "rb") as file:
            assert file.read() not in archive
        assert session.bash("readlink out")["stdout"] == host + "\n"


def test_settings_of_the_session_and_of_the_run_are_joined_and_the_runs_win(service):
    code = "import os; print(os.environ.get('A'), os.environ.get('B'), os.environ.get('C'))"
    for strategy in ("per_session", "per_execution", "pool"):
        with Session(service, strategy=strategy, env={"A": "1", "B": "2"}) as session:
            assert session.execute(code, env={"B": "3", "C": "4"})["stdout"] == "1 3 4\n"
            # In an interpreter that is kept, what was set stays.
            assert session.execute(code)["stdout"] == ("1 2 4\n" if strategy == "per_session" else "1 2 None\n")


def test_limits_of_the_session_hold_for_its_runs(service):
    with Session(service, limits={"memory_bytes": 64 << 20}) as session:
        run = session.execute("x = b'x' * (200 << 20)")
        assert run["reason"] == "memory_limit" or "MemoryError" in run["stderr"], run


def test_a_run_may_have_other_limits_but_no_other_disk(service):
    with Session(service) as session:
        run = session.execute("x = b'x' * (200 << 20)", limits={"memory_bytes": 64 << 20})
        assert run["reason"] == "memory_limit" or "MemoryError" in run["stderr"], run
        reply = session.post("/execute", {"code": "1", "limits": {"disk_bytes": 1 << 20}})
        assert reply.status == 422 and "disk" in reply.detail(), reply


def test_a_run_may_not_have_another_isolation_or_network(service):
    with Session(service, isolation="container") as session:
        for fields in ({"isolation": "vm"}, {"network": "host"}):
            reply = session.post("/execute", {"code": "1", **fields})
            assert reply.status == 422 and "its session" in reply.detail(), reply
        assert session.execute("1", isolation="container")["isolation"] == "container"


def test_a_session_may_be_named_in_the_body_of_execute(service):
    with Session(service, language="bash") as session:
        session.bash("echo x > f")
        run = service.execute("cat f", session_id=session.id)
        assert (run["stdout"], run["session_id"], run["language"]) == ("x\n", session.id, "bash")
    reply = service.post("/v1/execute", {"code": "1", "session_id": NOBODY})
    assert (reply.status, reply.detail()) == (404, f"Session '{NOBODY}' not found")


def test_wrong_input_of_a_run_is_refused(service):
    with Session(service) as session:
        assert session.post("/execute", {}).status == 422
        assert session.post("/execute", b"{").status == 422
        assert session.post("/execute", {"code": "1", "language": "klingon"}).status == 400
        reply = session.post("/execute", {"code": "1", "timeout_ms": 60001})
        assert (reply.status, reply.detail()) == (422, "timeout_ms exceeds maximum of 60000 ms")
        assert session.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_run_that_fails_or_is_too_slow_leaves_the_session_alive(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        assert session.execute("open('f', 'w').write('x'); 1 / 0")["exit_code"] == 1
        run = session.execute("while True: pass", timeout_ms=300)
        assert (run["timed_out"], run["exit_code"]) == (True, None)
        assert session.execute("import os; print(os.path.exists('f'))")["stdout"] == f"{workspace == 'shared'}\n"


def test_a_stream_tells_as_it_comes(service):
    with Session(service) as session:
        with service.stream(session.path + "/execute/stream", {"code": "print('a'); f = open('f', 'w')"}) as stream:
            assert stream.status == 200
            out, err, event, result = stream.output()
        assert (out, err, event) == ("a\n", "", "result")
        assert result["exit_code"] == 0 and result["session_id"] == session.id
        assert session.files() == {"f": 0}
        with service.stream(session.path + "/execute/stream", {"code": "1", "timeout_ms": 0}) as stream:
            assert stream.status == 422


def test_a_client_that_leaves_its_stream_ends_its_run_and_not_the_session(service):
    with Session(service) as session:
        stream = service.stream(session.path + "/execute/stream",
                                {"code": "print('x', flush=True)\nwhile True: pass", "timeout_ms": 60000})
        assert next(iter(stream))[0] == "output"
        stream.close()
        assert session.execute("print(1)")["stdout"] == "1\n"


# ---- bash ----


def test_bash_answers_with_the_contracts_fields(service):
    with Session(service) as session:
        done = session.bash("echo out; echo err >&2; exit 3")
        assert (done["stdout"], done["stderr"], done["exit_code"], done["timed_out"]) == (
            "out\n", "err\n", 3, False)
        assert isinstance(done["duration_ms"], int)
        done = session.bash("echo partial; sleep 30", timeout_ms=300)
        assert (done["stdout"], done["exit_code"], done["timed_out"]) == ("partial\n", None, True)


def test_bash_is_in_the_workspace(service):
    with Session(service, files=[{"path": "f", "content": "x"}]) as session:
        assert session.bash("pwd; cat f")["stdout"] == "/workspace\nx"


@pytest.mark.parametrize("body, status, says", [
    ({}, 422, "Field required"),
    ({"cmd": 1}, 422, "valid string"),
    ({"cmd": None}, 422, "valid string"),
    ({"cmd": "true", "timeout_ms": 0}, 422, "greater than or equal to 1"),
    ({"cmd": "true", "timeout_ms": 60001}, 422, "timeout_ms exceeds maximum of 60000 ms"),
    ({"cmd": "true", "timeout_ms": "x"}, 422, "valid integer"),
    ({"cmd": "true", "env": 1}, 422, "valid dictionary"),
])
def test_wrong_input_of_bash_is_refused(service, body, status, says):
    with Session(service) as session:
        reply = session.post("/bash", body)
        assert reply.status == status and says in reply.detail(), reply


def test_a_command_may_be_anything(service):
    with Session(service) as session:
        assert session.bash("")["exit_code"] == 0
        assert session.bash("echo 'é\u2028'")["stdout"] == "é\u2028\n"
        assert session.bash("cat <<X\na\nb\nX")["stdout"] == "a\nb\n"
        assert session.bash("printf '\\377'")["stdout"] == "\ufffd"


# ---- usage ----

BUSY = "import time\nt = time.process_time()\nwhile time.process_time() < t + 0.5: pass\n"


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_run_is_charged_for_itself_and_what_it_started(service, isolation):
    with Session(service, isolation=isolation) as session:
        def cpu_ms(code, **fields):
            return session.execute(code, **fields)["usage"]["cpu_ms"]

        assert cpu_ms(BUSY) >= 490
        assert cpu_ms(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])") >= 490
        assert cpu_ms("import time; time.sleep(9)", timeout_ms=400) < 400
        assert cpu_ms(BUSY) >= 490
        assert cpu_ms("import os; os.kill(os.getpid(), 9)") < 400


# ---- variables: these need hotcell_request.keep ----


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("language, first, second", [
    ("python", "x = 41", "print(x + 1)"),
    ("javascript", "let x = 41", "console.log(x + 1)"),
    ("bash", "x=41; cd /tmp", "echo $((x + 1)); pwd"),
])
def test_variables_are_kept_between_runs(service, language, first, second, isolation):
    with Session(service, language=language, isolation=isolation) as session:
        assert session.execute(first)["state"] == "kept"
        run = session.execute(second)
        assert run["stdout"].startswith("42\n"), run
        assert session.state()["has_state"] is True


def test_variables_are_kept_though_the_workspace_is_not_shared(service):
    with Session(service, workspace="isolated") as session:
        session.execute("x = 1; open('f', 'w')")
        assert session.execute("import os; print(x, os.path.exists('f'))")["stdout"] == "1 False\n"


def test_a_run_that_had_to_be_ended_loses_the_variables_and_says_so(service):
    with Session(service) as session:
        session.execute("x = 1")
        stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        assert session.execute(stubborn, timeout_ms=300)["state"] == "lost"
        assert "NameError" in session.execute("print(x)")["stderr"]


def test_a_run_that_ends_when_its_time_is_over_keeps_the_variables(service):
    with Session(service) as session:
        session.execute("x = 1")
        run = session.execute("while True: pass", timeout_ms=300)
        assert (run["timed_out"], run["state"]) == (True, "kept")
        assert session.execute("print(x)")["stdout"] == "1\n"


def test_a_traceback_points_at_a_last_line_without_an_end(service):
    with Session(service) as session:
        errors = [session.execute(code)["stderr"] for code in ("x = len(5 / 0)", "x = len(5 / 0)\n")]
    assert errors[0].replace("<run 1>", "<run 2>") == errors[1]
    lines = errors[0].splitlines()
    at = next(i for i, line in enumerate(lines) if "x = len(5 / 0)" in line)
    assert lines[at + 1].index("~") == lines[at].index("5 / 0")


def test_an_interrupted_run_keeps_the_variables(service):
    with Session(service) as session:
        session.execute("x = 1")
        with service.stream(session.path + "/execute/stream", {
                "code": "print('begun')\nwhile True: pass", "timeout_ms": 60000}) as stream:
            events = iter(stream)
            assert next(events)[1]["data"] == "begun\n"
            assert session.post("/interrupt").status == 202
            told = "".join(data.get("data", "") for _, data in events)
        assert "KeyboardInterrupt" in told
        assert session.execute("print(x)")["stdout"] == "1\n"


# ---- interrupting ----


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_interrupted_shell_keeps_its_variables_with_set_e_too(service, isolation):
    with Session(service, language="bash", isolation=isolation) as session:
        session.execute("set -e; x=12")
        running = harness.Background(lambda: session.execute("x=13; echo begun > begun; sleep 50; x=14"))
        session.wait_running()
        time.sleep(0.5)
        assert session.post("/interrupt").status == 202
        done = running.result()
        assert (done["exit_code"], done["state"]) == (130, "kept"), done
        assert session.execute("echo $x; false; echo no")["stdout"] == "13\n"


def test_nothing_that_runs_cannot_be_interrupted(service):
    with Session(service) as session:
        reply = session.post("/interrupt")
        assert (reply.status, reply.json()["code"]) == (409, "idle")


def test_an_interrupt_ends_a_program_that_does_not_mind_it_not(service):
    with Session(service) as session:
        with service.stream(session.path + "/execute/stream", {
                "language": "bash", "code": "echo begun; exec sleep 50", "timeout_ms": 60000}) as stream:
            events = iter(stream)
            assert next(events)[1]["data"] == "begun\n"
            assert session.post("/interrupt").status == 202
            assert next(events)[1]["exit_code"] == 130


# ---- one thing at a time ----


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_two_clients_at_once_take_turns(service, strategy, workspace):
    code = "import time; a = time.monotonic(); time.sleep(0.2); print(a, time.monotonic())"
    with Session(service, strategy=strategy, workspace=workspace, isolation="container") as session:
        runs = harness.at_once(*[lambda: session.execute(code)] * 4)
    spans = sorted(tuple(map(float, run["stdout"].split())) for run in runs)
    for (_, end), (begin, _) in zip(spans, spans[1:]):
        assert begin >= end, spans


def test_turns_are_taken_in_order(service):
    with Session(service) as session:
        first = harness.Background(lambda: session.bash("while ! test -e go; do sleep 0.05; done; echo 1 >> f"))
        session.wait_running()
        # Others wait: also for files, so that `go` cannot be put yet.
        later = []
        for number in (2, 3, 4):
            later.append(harness.Background(lambda n=number: session.bash(f"echo {n} >> f")))
            time.sleep(0.1)
        state = session.state()
        assert state["state"] == "running" and state["files"] is None
        run = next(run for run in service.get("/v1/runs").json()["runs"]
                   if run.get("session_id") == session.id and run["state"] == "running")
        assert service.delete(f"/v1/runs/{run['id']}").status == 202
        first.result()
        for one in later:
            one.result()
        assert session.bash("cat f")["stdout"] == "2\n3\n4\n"


def test_too_many_that_wait_are_sent_away(service):
    with Session(service) as session:
        first = harness.Background(lambda: session.post("/bash", {"cmd": "sleep 60", "timeout_ms": 60000}))
        session.wait_running()
        body = json.dumps({"cmd": "true"}).encode()
        head = f"POST {session.path}/bash HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        waiting = []
        for _ in range(256):
            sock = service.connect()
            sock.sendall(head.encode() + body)
            waiting.append(sock)

        # The last of them may not have been read yet; each try that is not refused waits, too.
        sock = service.connect()
        sock.settimeout(0.5)
        crowded = False
        for _ in range(100):
            sock.sendall(f"GET {session.path}/files/none HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            try:
                crowded = b" 429 " in sock.recv(65536).split(b"\r\n")[0]
                break
            except socket.timeout:
                waiting.append(sock)
                sock = service.connect()
                sock.settimeout(0.5)
        assert crowded
        assert session.post("/bash", {"cmd": "true"}).status == 429
        assert session.delete().status == 204  # all of them are told
        assert first.result().status == 200
        for sock in waiting[:256]:
            sock.settimeout(harness.PATIENCE_S)
            assert b" 404 " in sock.recv(65536).split(b"\r\n")[0]
            sock.close()


def test_a_client_that_waits_and_leaves_is_forgotten(service):
    with Session(service) as session:
        running = harness.Background(lambda: session.bash("sleep 1; echo done"))
        session.wait_running()
        for request in (f"GET {session.path}/files", f"GET {session.path}/archive"):
            with service.connect() as sock:
                sock.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert running.result()["stdout"] == "done\n"
        assert session.bash("echo alive")["stdout"] == "alive\n"


# ---- what is told ----


def test_a_session_tells_what_it_is_and_was(service):
    with Session(service, strategy="per_execution", workspace="shared") as session:
        session.execute("open('f', 'w').write('x')")
        session.execute("1")
        state = session.state()
        assert state["runs"] == 2 and state["state"] == "idle"
        assert state["created_at"] < state["last_used_at"] < state["expires_at"]
        assert len(state["cells"]) == 2
        assert all(cell["ended"] and cell["runs"] == 1 for cell in state["cells"])
        assert [file["path"] for file in state["files"]] == ["f"]


def test_the_cell_of_a_session_serves_all_its_runs(service):
    with Session(service) as session:
        session.bash("true")
        session.execute("1")
        (cell,) = session.state()["cells"]
        assert (cell["runs"], cell["ended"], cell["reason"]) == (2, None, None)


def test_sessions_are_listed(service):
    with Session(service) as one, Session(service, strategy="pool") as other:
        listed = service.get("/v1/sessions").json()["sessions"]
        assert [s["session_id"] for s in listed if s["session_id"] in (one.id, other.id)] == [one.id, other.id]
        assert all("files" not in session for session in listed)
    assert service.get("/v1/sessions").json()["sessions"] == []


def test_the_history_of_runs_names_the_session(service):
    with Session(service) as session:
        run = session.execute("1")
        assert service.get(f"/v1/runs/{run['id']}").json()["session_id"] == session.id


# ---- extending ----


def test_a_session_is_extended_from_now_on(service):
    with Session(service, ttl_seconds=60) as session:
        reply = session.patch({"ttl_seconds": 600, "idle_timeout": 300})
        assert reply.status == 200, reply
        state = reply.json()
        assert 590 < state["expires_at"] - time.time() <= 600
        assert (state["config"]["ttl_seconds"], state["config"]["idle_timeout"]) == (600, 300)
        for unsaid in ({}, {"ttl_seconds": None}):
            assert session.patch(unsaid).json()["expires_at"] == state["expires_at"]


def test_a_session_is_extended_by_a_number_in_quotes_as_well(service):
    with Session(service, ttl_seconds=60) as session:
        assert session.patch({"ttl_seconds": "600"}).json()["expires_at"] > session.opened["expires_at"] + 500


@pytest.mark.parametrize("body", [{"ttl_seconds": 0}, {"ttl_seconds": 86401}, {"idle_timeout": "x"}, []])
def test_a_session_is_not_extended_by_nonsense(service, body):
    with Session(service) as session:
        assert session.patch(body).status == 422
        assert session.state()["expires_at"] == session.opened["expires_at"]


# ---- there is none ----


# An id that cannot be read is none that could be there.
@pytest.mark.parametrize("name, status", [(NOBODY, 404), ("x", 404), ("..%2f..%2fetc", 404), ("a" * 5000, 404), ("%ff", 404),
                                          ("%00", 400), ("%zz", 400)])
def test_what_is_not_there_is_not_found(service, name, status):
    path = f"/v1/sessions/{name}"
    calls = [("GET", "", None), ("PATCH", "", {}), ("DELETE", "", None), ("POST", "/execute", {"code": "1"}),
             ("POST", "/execute/stream", {"code": "1"}), ("POST", "/bash", {"cmd": "true"}),
             ("POST", "/interrupt", None), ("GET", "/files", None), ("PUT", "/files/a", b"x"),
             ("GET", "/files/a", None), ("DELETE", "/files/a", None), ("GET", "/archive", None),
             ("PUT", "/archive", b"x")]
    for method, below, body in calls:
        reply = service.request(method, path + below, body)
        assert reply.status == status, (method, below, reply)
        if name == NOBODY:
            assert reply.detail() == f"Session '{NOBODY}' not found"


def test_a_session_is_deleted_once(service):
    session = Session(service)
    assert session.delete().status == 204
    reply = session.delete()
    assert (reply.status, reply.detail()) == (404, f"Session '{session.id}' not found")


def test_methods_that_are_not_there_are_told(service):
    reply = service.put("/v1/sessions", b"")
    assert reply.status == 405 and set(reply.headers["Allow"].split(", ")) == {"POST", "GET"}


# ---- deleting ----


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_deleting_ends_what_runs_and_tells_what_waits(service, strategy, workspace):
    session = Session(service, strategy=strategy, workspace=workspace)
    running = harness.Background(lambda: session.post("/bash", {"cmd": "echo begun; sleep 50", "timeout_ms": 60000}))
    session.wait_running()
    waiting = harness.Background(lambda: session.post("/bash", {"cmd": "true"}))
    looking = harness.Background(lambda: session.get("/files"))
    time.sleep(0.2)
    assert session.delete().status == 204
    done = running.result()
    assert done.status == 200 and done.json()["reason"] == "cancelled", done
    for late in (waiting.result(), looking.result()):
        assert (late.status, late.detail()) == (404, f"Session '{session.id}' not found: it was deleted")


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_generated_files_are_kept_if_that_is_asked_for(service, strategy, workspace):
    session = Session(service, strategy=strategy, workspace=workspace,
                      files=[{"path": "given", "content": "1"}, {"path": "changed", "content": "2"}])
    session.bash("mkdir -p d; echo -n new > d/new; echo -n 3 >> changed; ln -s given link")
    reply = session.delete("?keep_generated=true")
    assert reply.status == 200, reply
    kept = {file["path"]: file for file in reply.json()["files"]}
    assert {path: file["size_bytes"] for path, file in kept.items()} == {"d/new": 3, "changed": 2}
    assert service.download(kept["d/new"]["file_id"]) == b"new"
    assert service.download(kept["changed"]["file_id"]) == b"23"
    assert session.get().status == 404


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_keeping_them_ends_what_runs_and_tells_what_waits(service, strategy, workspace):
    session = Session(service, strategy=strategy, workspace=workspace)
    session.bash("echo -n 1 > one")
    running = harness.Background(lambda: session.post("/bash", {"cmd": "echo -n 2 > two; sleep 50", "timeout_ms": 60000}))
    session.wait_running()
    waiting = harness.Background(lambda: session.post("/bash", {"cmd": "sleep 50", "timeout_ms": 60000}))
    time.sleep(0.5)
    begun = time.monotonic()
    reply = session.delete("?keep_generated=true")
    assert reply.status == 200 and time.monotonic() < begun + 30, reply
    assert [file["path"] for file in reply.json()["files"]] == ["one", "two"]
    assert running.result().json()["reason"] == "cancelled"
    assert waiting.result().status == 404


def test_without_it_they_are_not(service):
    before = len(service.get("/v1/files").json()["files"])
    session = Session(service)
    session.bash("echo x > f")
    assert session.delete("?keep_generated=false").status == 204
    assert len(service.get("/v1/files").json()["files"]) == before


def test_nonsense_about_it_deletes_nothing(service):
    with Session(service) as session:
        assert session.delete("?keep_generated=maybe").status == 422
        assert session.get().status == 200
