"""The contract that existing clients rely on, sentence by sentence. What is asserted here is compared
exactly: a client may depend on any word of it."""
import re
import time
import uuid

import pytest

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def errors_of(reply):
    """The list of a 422 about fields, each with exactly the keys that clients know."""
    assert reply.status == 422, reply
    errors = reply.json()["detail"]
    assert isinstance(errors, list), reply
    for error in errors:
        assert {"type", "loc", "msg", "input"} <= set(error), error
    return errors


# ---- POST /v1/execute ----


def test_code_alone_is_enough(service):
    reply = service.post("/v1/execute", {"code": "print('hello')"})
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    run = reply.json()
    assert run["stdout"] == "hello\n"
    assert run["stderr"] == ""
    assert run["exit_code"] == 0
    assert run["timed_out"] is False
    assert isinstance(run["duration_ms"], int) and run["duration_ms"] >= 0
    assert run["files"] == []


def test_every_field_of_the_contract_is_taken_together(service):
    file_id = service.upload("in.txt", b"content")
    run = service.execute("import sys\nprint(sys.stdin.read(), open('in.txt').read())", stdin="typed",
                          timeout_ms=5000, last_line_interactive=False,
                          files=[{"path": "in.txt", "file_id": file_id}])
    assert run["stdout"] == "typed content\n"


def test_stdin_may_be_null(service):
    assert service.execute("import sys\nprint(repr(sys.stdin.read()))", stdin=None)["stdout"] == "''\n"


def test_unknown_keys_are_ignored(service):
    assert service.execute("print(1)", nonsense={"a": [1]}, Code="x")["stdout"] == "1\n"


def test_a_programs_error_is_200(service):
    run = service.execute("import sys\nprint('before')\nsys.exit(7)")
    assert (run["exit_code"], run["stdout"], run["timed_out"]) == (7, "before\n", False)
    run = service.execute("raise ValueError('wrong')")
    assert run["exit_code"] == 1
    assert run["stderr"].rstrip().endswith("ValueError: wrong")
    assert '"/workspace/__main__.py", line 1' in run["stderr"]


def test_stderr_is_apart(service):
    run = service.execute("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (run["stdout"], run["stderr"]) == ("out\n", "err\n")


def test_a_timeout_has_no_exit_code_but_the_partial_output(service):
    run = service.execute("print('partial', flush=True)\nwhile True: pass", timeout_ms=300)
    assert run["exit_code"] is None
    assert run["timed_out"] is True
    assert run["stdout"] == "partial\n"
    assert run["duration_ms"] >= 300


def test_an_exit_code_is_null_only_on_timeout(service):
    run = service.execute("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert run["timed_out"] is False
    assert isinstance(run["exit_code"], int) and run["exit_code"] != 0


def test_the_default_timeout_is_two_seconds(service):
    run = service.execute("import time\ntime.sleep(30)")
    assert run["timed_out"] is True
    assert 2000 <= run["duration_ms"] < 10000


def test_a_timeout_may_be_the_maximum_but_not_more(service):
    assert service.execute("print(1)", timeout_ms=60000)["stdout"] == "1\n"
    reply = service.post("/v1/execute", {"code": "1", "timeout_ms": 60001})
    assert reply.status == 422
    assert reply.json()["detail"] == "timeout_ms exceeds maximum of 60000 ms"


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_is_at_least_one(service, timeout):
    error, = errors_of(service.post("/v1/execute", {"code": "1", "timeout_ms": timeout}))
    assert error == {"type": "greater_than_equal", "loc": ["body", "timeout_ms"],
                     "msg": "Input should be greater than or equal to 1", "input": timeout,
                     **({"ctx": error["ctx"]} if "ctx" in error else {})}


def test_code_is_required(service):
    error, = errors_of(service.post("/v1/execute", {"stdin": "x"}))
    assert (error["type"], error["loc"], error["msg"], error["input"]) == \
        ("missing", ["body", "code"], "Field required", {"stdin": "x"})


def test_code_must_be_text(service):
    error, = errors_of(service.post("/v1/execute", {"code": 5}))
    assert (error["type"], error["loc"], error["msg"], error["input"]) == \
        ("string_type", ["body", "code"], "Input should be a valid string", 5)
    error, = errors_of(service.post("/v1/execute", {"code": None}))
    assert (error["type"], error["input"]) == ("string_type", None)


def test_all_wrong_fields_are_told_at_once(service):
    errors = errors_of(service.post("/v1/execute", {
        "code": [], "stdin": 1, "timeout_ms": "soon", "last_line_interactive": "perhaps", "files": {}}))
    assert {error["loc"][1]: error["type"] for error in errors} == {
        "code": "string_type", "stdin": "string_type", "timeout_ms": "int_parsing",
        "last_line_interactive": "bool_parsing", "files": "list_type"}


def test_files_are_checked_one_by_one(service):
    errors = errors_of(service.post("/v1/execute", {
        "code": "1", "files": [{"path": "a"}, {"file_id": str(uuid.uuid4())}, 3]}))
    assert [error["loc"] for error in errors] == [
        ["body", "files", 0, "file_id"], ["body", "files", 1, "path"], ["body", "files", 2]]


def test_broken_json_is_422(service):
    error, = errors_of(service.post("/v1/execute", b'{"code": '))
    assert (error["type"], error["loc"][0], error["msg"]) == ("json_invalid", "body", "JSON decode error")


def test_our_errors_have_a_code_beside_the_detail(service):
    for reply in (service.post("/v1/execute", {}), service.get(f"/v1/files/{uuid.uuid4()}")):
        assert set(reply.json()) == {"detail", "code"}


# ---- the last line ----


@pytest.mark.parametrize("code, printed", [
    ("1 + 1", "2\n"),
    ("'text'", "'text'\n"),
    ("x = 5\nx", "5\n"),
    ("1\n2\n3", "3\n"),
    ("None", ""),
    ("x = 5", ""),
    ("print('a')\n'b'", "a\n'b'\n"),
    ("for i in range(3):\n    i", ""),
    ("3;", "3\n"),
    ("'last'  # a comment\n\n# another", "'last'\n"),
    ("from __future__ import annotations\n7", "7\n"),
    ("[\n 1,\n 2,\n]", "[1, 2]\n"),
])
def test_the_last_expression_is_echoed(service, code, printed):
    run = service.execute(code)
    assert (run["stdout"], run["exit_code"]) == (printed, 0)


def test_the_last_line_is_echoed_by_default_and_can_be_left(service):
    assert service.execute("40 + 2")["stdout"] == "42\n"
    assert service.execute("40 + 2", last_line_interactive=True)["stdout"] == "42\n"
    assert service.execute("40 + 2", last_line_interactive=False)["stdout"] == ""


def test_an_error_leaves_stdout_as_it_was(service):
    run = service.execute("print('so far')\n1 / 0")
    assert run["stdout"] == "so far\n"
    assert "ZeroDivisionError" in run["stderr"]
    run = service.execute("print('never'\n")
    assert run["stdout"] == ""
    assert "SyntaxError" in run["stderr"] and run["exit_code"] == 1


# ---- surroundings ----


def test_it_runs_in_the_workspace_as_main(service):
    run = service.execute("import os, sys\nprint(os.getcwd(), __name__, __file__)\n"
                          "print(open('/workspace/__main__.py').readline())")
    assert run["stdout"].split("\n")[0] == "/workspace __main__ /workspace/__main__.py"
    assert "import os, sys" in run["stdout"]


@pytest.mark.parametrize("name, value", [
    ("PYTHONUNBUFFERED", "1"), ("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONIOENCODING", "utf-8"),
    ("MPLCONFIGDIR", "/tmp/matplotlib")])
def test_the_environment_is_the_contracts(service, name, value):
    assert service.execute(f"import os\nprint(os.environ.get({name!r}))")["stdout"] == value + "\n"


# ---- files of a run ----


def test_only_new_and_changed_files_come_back_and_can_be_had(service):
    kept = service.upload("kept.txt", b"kept")
    changed = service.upload("changed.txt", b"old")
    run = service.execute(
        "import os\nopen('changed.txt', 'w').write('new')\nos.makedirs('deep/er')\n"
        "open('deep/er/made.bin', 'wb').write(bytes(range(256)))\nopen('.hidden', 'w').write('h')",
        files=[{"path": "kept.txt", "file_id": kept}, {"path": "changed.txt", "file_id": changed}],
        last_line_interactive=False)
    files = {file["path"]: file for file in run["files"]}
    assert set(files) == {"changed.txt", "deep/er/made.bin", ".hidden"}
    assert all(file["kind"] == "file" and UUID4.fullmatch(file["file_id"]) for file in run["files"])
    assert service.download(files["changed.txt"]["file_id"]) == b"new"
    assert service.download(files["deep/er/made.bin"]["file_id"]) == bytes(range(256))
    assert service.download(files[".hidden"]["file_id"]) == b"h"
    # What was stored is as it was.
    assert service.download(changed) == b"old"


def test_a_file_can_be_given_to_the_next_run(service):
    run = service.execute("open('a.txt', 'w').write('one')\nNone")
    run = service.execute("print(open('dir/b.txt').read())",
                          files=[{"path": "dir/b.txt", "file_id": run["files"][0]["file_id"]}])
    assert run["stdout"] == "one\n"
    assert run["files"] == []


@pytest.mark.parametrize("path, detail", [
    ("/etc/passwd", "File paths must be relative."),
    ("../up", "File paths must not contain '..'."),
    ("a/../../b", "File paths must not contain '..'."),
    ("a/..", "File paths must not contain '..'."),
    ("", "File path must not be empty."),
    ("__main__.py", "File path '__main__.py' is reserved for the execution entrypoint."),
])
def test_a_path_is_refused_in_these_words(service, path, detail):
    file_id = service.upload("x", b"x")
    for route in ("/v1/execute", "/v1/execute/stream"):
        reply = service.post(route, {"code": "1", "files": [{"path": path, "file_id": file_id}]})
        assert (reply.status, reply.json()["detail"]) == (422, detail)


@pytest.mark.parametrize("path", ["a..b", "..a", "a/...", "..."])
def test_two_dots_within_a_name_are_no_way_up(service, path):
    file_id = service.upload("x", b"fine")
    run = service.execute(f"print(open({path!r}).read())", files=[{"path": path, "file_id": file_id}])
    assert run["stdout"] == "fine\n"


@pytest.mark.parametrize("file_id", ["f0d3b0a5-1b43-4c46-8e8a-5d4b5d5f7a10", "no-such", "../../../etc/passwd", ""])
def test_a_file_that_is_not_stored_is_404(service, file_id):
    reply = service.post("/v1/execute", {"code": "1", "files": [{"path": "p/q", "file_id": file_id}]})
    assert reply.status == 404
    assert reply.json()["detail"] == f"File with ID '{file_id}' not found for path 'p/q'."


# ---- POST /v1/execute/stream ----


def test_a_stream_has_the_contracts_headers_and_events(service):
    with service.stream("/v1/execute/stream", {
            "code": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n"
                    "open('f', 'w').write('x')\nNone"}) as stream:
        assert stream.status == 200
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["Cache-Control"] == "no-cache"
        assert stream.headers["X-Accel-Buffering"] == "no"
        out, err, event, result = stream.output()
    assert (out, err, event) == ("out\n", "err\n", "result")
    assert (result["exit_code"], result["timed_out"]) == (0, False)
    assert isinstance(result["duration_ms"], int)
    assert [file["path"] for file in result["files"]] == ["f"]
    assert service.download(result["files"][0]["file_id"]) == b"x"


def test_frames_are_byte_for_byte_as_clients_split_them(service):
    body = service.post("/v1/execute/stream", {"code": "print('é\\n\"')"}).body
    first, *_, last, empty = body.split(b"\n\n")
    assert re.fullmatch(rb'event: output\ndata: {"stream": ?"stdout", ?"data": ?"[^\n]*"}', first), first
    assert last.startswith(b"event: result\ndata: {") and empty == b""


def test_a_streams_timeout_is_in_its_result(service):
    with service.stream("/v1/execute/stream", {
            "code": "print('a', flush=True)\nwhile True: pass", "timeout_ms": 300}) as stream:
        out, _, event, result = stream.output()
    assert (out, event, result["exit_code"], result["timed_out"]) == ("a\n", "result", None, True)


@pytest.mark.parametrize("body, detail", [
    ({"code": "1", "timeout_ms": 60001}, "timeout_ms exceeds maximum of 60000 ms"),
    ({"code": "1", "timeout_ms": 0}, "Input should be greater than or equal to 1"),
    ({}, "Field required"),
])
def test_a_bad_stream_request_is_a_plain_422(service, body, detail):
    reply = service.post("/v1/execute/stream", body)
    assert reply.status == 422
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.detail() == detail


# ---- files ----


def test_a_stored_file_is_listed_read_and_removed(service):
    before = time.time()
    reply = service.upload_reply("name.bin", b"\x00\xffdata")
    assert reply.status == 201
    stored = reply.json()
    assert set(stored) >= {"file_id", "filename", "size_bytes"}
    assert UUID4.fullmatch(stored["file_id"])
    assert (stored["filename"], stored["size_bytes"]) == ("name.bin", 6)

    listed = service.get("/v1/files").json()
    assert set(listed) == {"files"}
    row, = [file for file in listed["files"] if file["file_id"] == stored["file_id"]]
    assert (row["filename"], row["size_bytes"]) == ("name.bin", 6)
    assert isinstance(row["upload_time"], float) and before - 1 <= row["upload_time"] <= time.time() + 1

    reply = service.get(f"/v1/files/{stored['file_id']}")
    assert (reply.status, reply.body) == (200, b"\x00\xffdata")
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert 'filename="name.bin"' in reply.headers["Content-Disposition"]

    reply = service.delete(f"/v1/files/{stored['file_id']}")
    assert (reply.status, reply.body) == (204, b"")
    for method in ("GET", "DELETE"):
        reply = service.request(method, f"/v1/files/{stored['file_id']}")
        assert reply.status == 404
        assert reply.json()["detail"] == f"File with ID '{stored['file_id']}' not found"


@pytest.mark.parametrize("file_id", ["x", "..%2F..%2Fetc%2Fpasswd", "%2e%2e", "F0D3B0A5-1B43-4C46-8E8A-5D4B5D5F7A10"])
def test_an_id_that_is_none_is_404(service, file_id):
    for method in ("GET", "DELETE"):
        assert service.request(method, f"/v1/files/{file_id}").status == 404


def test_an_empty_file_is_a_file(service):
    assert service.download(service.upload("empty", b"")) == b""


def test_a_missing_field_is_422(service):
    error, = errors_of(service.upload_reply("x", b"x", field="other"))
    assert (error["type"], error["loc"], error["msg"]) == ("missing", ["body", "file"], "Field required")
    errors_of(service.post("/v1/files", {"file": "x"}))


def test_the_files_name_is_told_to_whoever_downloads_it(service):
    reply = service.get(f"/v1/files/{service.upload('dir/näme.txt', b'x')}")
    assert "filename*=UTF-8''n%C3%A4me.txt" in reply.headers["Content-Disposition"]
