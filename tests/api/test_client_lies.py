"""A server that lies to hotcell: nothing is written where it should not be, and the terminal is left alone."""
import json
import re

import client
import pytest

UUID = "01234567-89ab-4cde-8f01-23456789abcd"


@pytest.fixture
def cli(tmp_path):
    (tmp_path / "home").mkdir()
    return client.Cli(None, tmp_path / "home")


def run(cli, liar, *words):
    return cli.at(liar.url)("run", "-l", "python", "-c", "1", *words)


def stream(*pairs):
    return {"/v1/execute/stream": (200, client.events(*pairs), {"Content-Type": "text/event-stream"})}


def file_named(path, **more):
    return {"path": path, "kind": "file", "file_id": UUID, "size_bytes": 4, **more}


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil", "a/../../evil", "..", "", ".", "a//b", "x" * 300,
                                  "a/./b", "nul\u0000byte"])
def test_no_file_is_written_outside_of_the_directory(cli, path):
    answers = {**stream(("result", {**client.RESULT, "files": [file_named(path)]})),
               f"/v1/files/{UUID}": (200, b"evil")}
    with client.Liar(answers) as liar:
        result = run(cli, liar, "-o", "out")
    assert "could not be copied" in result.err
    everything = [one for one in cli.home.parent.rglob("*") if one.is_file()]
    assert everything == [], everything


def test_a_file_larger_than_it_was_said_to_be_is_not_kept(cli):
    answers = {**stream(("result", {**client.RESULT, "files": [file_named("a"), file_named("b")]})),
               f"/v1/files/{UUID}": (200, b"x" * 1000000)}
    with client.Liar(answers) as liar:
        result = run(cli, liar, "-o", "out")
    assert result.err.count("could not be copied") == 2
    assert list((cli.home / "out").iterdir()) == []


@pytest.mark.parametrize("id", ["../../health", "a?b", "a b", "", "x" * 100, 7, None])
def test_an_id_that_is_none_is_not_asked_for(cli, id):
    with client.Liar(stream(("result", {**client.RESULT, "files": [{**file_named("a"), "file_id": id}]}))) as liar:
        result = run(cli, liar, "-o", "out")
    assert "'a' could not be copied" in result.err
    assert len(liar.asked) == 1


def test_what_is_said_of_a_run_is_plain(cli):
    nasty = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\x9b31m"
    result = {**client.RESULT, "reason": "timeout" + nasty, "reason_text": nasty, "isolation_why": nasty,
              "limits_not_enforced": [nasty], "files": [file_named(nasty)]}
    with client.Liar({**stream(("result", result)), f"/v1/files/{UUID}": (404, b"")}) as liar:
        done = run(cli, liar, "--stats", "-o", "out")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.err), repr(done.err)


@pytest.mark.parametrize("body", [
    json.dumps({"detail": "\x1b[2Jgone\r\n"}), json.dumps({"detail": [{"loc": ["body", "\x1b[1m"], "msg": "\x07"}]}),
    json.dumps({"detail": 7}), json.dumps([1]), "not json", "", "{" * 100000, json.dumps({"detail": "x" * 100000}),
    json.dumps({"detail": [{"loc": ["body", "a", 3], "msg": "wrong"}] * 100}),
])
@pytest.mark.parametrize("status", [400, 422, 429, 500, 302])
def test_refusals_are_one_plain_line(cli, status, body):
    with client.Liar({"/v1/execute/stream": (status, body.encode(), {"Retry-After": "7"})}) as liar:
        result = run(cli, liar)
    assert result.code == 125 and result.out == ""
    assert re.fullmatch(r"hotcell: [^\x00-\x1f\x7f-\x9f]+\n", result.err) and len(result.err) < 700


def test_a_redirection_does_not_carry_the_key_away(cli):
    with client.Liar({}) as other:
        answers = {"/v1/execute/stream": (307, b"", {"Location": f"{other.url}/v1/execute/stream"})}
        with client.Liar(answers) as liar:
            result = run(cli, liar, "--key", "secret")
        assert result.code == 125
        assert other.asked == [] and liar.asked[0][2]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("body", [
    b"", b"event: result\ndata: {}\n", b"event: output\ndata: {}\n\n", b"event: output\ndata: [1]\n\n",
    b"event: result\ndata: nonsense\n\n", b"event: error\ndata: {\"message\": \"it \\u001b[1m broke\"}\n\n",
    b"event: error\ndata: {}\n\n", b"\xff\xfe\x00", b"data: " + b"x" * 1000000,
])
def test_a_stream_that_is_broken_is_a_failure(cli, body):
    with client.Liar({"/v1/execute/stream": (200, body)}) as liar:
        result = run(cli, liar)
    assert result.code == 125 and result.out == ""
    assert re.fullmatch(r"hotcell: [^\x00-\x1f\x7f-\x9f]+\n", result.err)


def test_a_result_of_nonsense_is_survived(cli):
    odd = {"exit_code": "x", "reason": 7, "files": {"a": 1}, "usage": [], "truncated": 3, "limits_not_enforced": [1, None]}
    with client.Liar(stream(("result", odd))) as liar:
        assert run(cli, liar, "--stats", "-o", "out").code == 125
        assert run(cli, liar, "--json").code == 125


def test_tables_are_plain(cli):
    nasty = "\x1b[2J\n\t\u202e"
    rows = [{"file_id": nasty, "filename": nasty, "size_bytes": -1, "upload_time": 1e300}, 7, None, {}]
    sessions = [{"session_id": nasty, "state": nasty, "config": {"language": nasty}, "runs": "x"}, []]
    answers = {"/v1/files": (200, json.dumps({"files": rows}).encode()),
               "/v1/sessions": (200, json.dumps({"sessions": sessions}).encode()),
               "/v1/runs": (200, json.dumps({"runs": [{"id": nasty, "state": nasty, "error": nasty}, 3]}).encode()),
               "/metrics": (200, b'hotcell_pool_cells{language="\x1b[2J\\n",state="idle"} 1e300\nhotcell_sessions x\n')}
    with client.Liar(answers) as liar:
        for words in (["files", "list"], ["session", "list"], ["top"]):
            result = cli.at(liar.url)(*words)
            assert result.code == 0, result
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.out), repr(result.out)


def test_the_screen_of_top_has_no_byte_of_the_servers_making(cli):
    answers = {"/metrics": (200, b'hotcell_pool_cells{language="\x1b]0;owned\x07",state="idle"} 1\n'),
               "/v1/runs": (200, json.dumps({"runs": [{"id": "\x1b[5;5Hx\x9b2J"}]}).encode())}
    with client.Liar(answers) as liar:
        terminal = client.Terminal(cli.at(liar.url), "top")
        terminal.wait_for(rb"RUN ")
        terminal.type(b"q")
        assert terminal.end() == (0, True)
    ours = re.sub(rb"\x1b\[(\?1049[hl]|\?25[hl]|H|K|J)|\r+\n", b"", terminal.seen)
    assert not re.search(rb"[\x00-\x1f\x7f]", ours), ours


def test_a_server_that_sends_without_end_is_left(cli):
    with client.Liar({"/v1/files": (500, b"x" * (8 << 20))}) as liar:
        result = cli.at(liar.url)("files", "list")
    assert result.code == 125 and "larger than" in result.err
