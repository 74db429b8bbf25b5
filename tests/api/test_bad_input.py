"""Whatever comes in: the right status, a message, and afterwards the service is as it was."""
import json

import pytest

import harness

SERVICE = {"connection_idle_s": 2, "request_bytes_max": "2M", "connections_max": 12000, "running_max": 4}
HEAD = b"Host: localhost\r\n"


@pytest.fixture(scope="module", autouse=True)
def leaks_nothing(service):
    """Descriptors and memory, over the whole file."""
    for _ in range(5):
        service.execute("print(1)")
    fds, memory = service.fds(), service.memory()
    yield
    harness.wait_until(lambda: service.execute("print(1)")["exit_code"] == 0, "it serves")
    # Cells that wait have some, and their number may have changed.
    harness.wait_until(lambda: service.fds() <= fds + 24, f"descriptors are closed: {fds} then, {service.fds()} now")
    if not harness.IS_SANITIZED:
        assert service.memory() < memory + (48 << 20)


@pytest.fixture(autouse=True)
def still_works(service):
    yield
    assert service.execute("print('still here')")["stdout"] == "still here\n"
    assert "daemon.ended" not in service.log(), "it was started again"


def post(body, path="/v1/execute", more=b""):
    return b"POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
        path.encode(), HEAD, more, len(body), body)


def status(answer):
    """Of the last head in it; 0 if nothing came."""
    heads = [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    return int(heads[-1].split()[1]) if heads else 0


def is_told_once(answer, wanted):
    """One head, one body of the length that it says, in JSON, and the connection ends."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status(answer) == wanted, answer[:500]
    assert answer.count(b"HTTP/1.1 ") == 1, answer[:500]
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert lines[b"content-type"] == b"application/json" and lines[b"connection"] == b"close"
    assert int(lines[b"content-length"]) == len(body)
    assert json.loads(body)["detail"], answer


def is_told(answer, *wanted):
    assert status(answer) in wanted, answer[:500]
    if b"\r\n\r\n" in answer and status(answer) >= 400:
        body = answer.split(b"\r\n\r\n")[-1]
        assert json.loads(body)["detail"], answer


# ---- JSON ----

BROKEN = [b"", b"{", b"}", b'{"code":', b'{"code":"}', b"[]", b'"code"', b"5", b"null", b"true", b"nul",
          b'{"code":"1",}', b"{'code':'1'}", b'{"code":"1"} x', b'{"code":"\xff"}', b'{"code":"\xed\xa0\x80"}',
          b'{"code":"\\ud800"}', b'{"code":"\\u00"}', b'{"code":"a\nb"}', b"\xef\xbb\xbf{}", b"\x00", b'{"a\\u0000":1,"code":"1"}',
          b"[" * 100000, b'{"a":' * 100000, b'{"code":1e999}', b'{"code":-}', b'{"code":"1","timeout_ms":NaN}']


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:24]))
def test_broken_json_is_422(service, body):
    for path in ("/v1/execute", "/v1/execute/stream", "/v1/batch", "/v1/sessions"):
        if path != "/v1/sessions" or body != b"":  # all of a session's fields have defaults
            is_told(service.raw(post(body, path)), 422)


WRONG = [None, True, 5, -1, 1.5, "x", "", [], {}, [[]], {"a": {}}, 10 ** 18, -10 ** 18, 1e308, "\u0000", "x" * 100000]
FIELDS = ["code", "stdin", "timeout_ms", "last_line_interactive", "files", "language", "isolation", "dependencies",
          "env", "args", "entry_point", "limits", "network", "session_id", "user", "reuse", "profile", "cache", "detach"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_any_type_gets_an_answer(service, field):
    for value in WRONG:
        reply = service.post("/v1/execute", {"code": "1", field: value})
        assert reply.status in (200, 400, 403, 404, 422), (field, value, reply)
        if reply.status != 200:
            assert reply.detail(), reply


@pytest.mark.parametrize("field", ["path", "file_id", "content", "content_base64"])
def test_so_does_a_field_of_a_file(service, field):
    for value in WRONG:
        reply = service.post("/v1/execute", {"code": "1", "files": [{"path": "a", "content": "x", field: value}]})
        assert reply.status in (200, 404, 422), (field, value, reply)


@pytest.mark.parametrize("value", [0, -1, -2 ** 63, 2 ** 63 - 1, 10 ** 15, 1.5, "1e3", "0x10", True, [], {}])
def test_a_timeout_that_is_none_is_422(service, value):
    reply = service.post("/v1/execute", {"code": "1", "timeout_ms": value})
    assert reply.status == 422 or value is True, reply


def test_many_mistakes_do_not_make_a_huge_answer(service):
    reply = service.post("/v1/execute", {"code": "1", "files": [5] * 9000, "args": [5] * 400})
    assert reply.status == 422 and len(reply.body) < 100000


def test_a_mistake_is_not_echoed_without_end(service):
    reply = service.post("/v1/execute", {"code": ["x" * 1500000]})
    assert reply.status == 422 and len(reply.body) < 100000, len(reply.body)


def test_too_many_files_words_and_settings_are_refused(service):
    assert service.post("/v1/execute", {"code": "1", "files": [{"path": "a", "content": ""}] * 10001}).status == 422
    assert service.post("/v1/execute", {"code": "1", "args": ["x"] * 501}).status == 422
    assert service.post("/v1/execute", {"code": "1", "env": {f"A{i}": "" for i in range(501)}}).status == 422


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A": 5}, {"A": None}, {"A": "a\u0000b"}, {"A" * 300: ""},
                                 {"LD_PRELOAD": "/workspace/x.so"}, {"PATH": "/nowhere"}])
def test_a_setting_that_is_none_is_refused_or_harmless(service, env):
    reply = service.post("/v1/execute", {"code": "print(1)", "env": env})
    assert reply.status in (200, 422), reply


# ---- ids and paths ----

IDS = ["..", "../..", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f", "....//", "%00", "a%00b", "%", "%zz", "%c0%ae", "x" * 3000,
       "'; DROP TABLE files; --".replace(" ", "%20"), "*", "%0d%0aX-Evil:%201", "é".encode().hex()]


@pytest.mark.parametrize("bad", IDS, ids=lambda text: text[:20])
def test_an_id_that_is_none_is_404(service, bad):
    for method, path in (("GET", "/v1/files/{}"), ("DELETE", "/v1/files/{}"), ("GET", "/v1/runs/{}"),
                         ("DELETE", "/v1/runs/{}"), ("GET", "/v1/runs/{}/stream"), ("GET", "/v1/sessions/{}"),
                         ("DELETE", "/v1/sessions/{}"), ("DELETE", "/v1/languages/{}")):
        line = f"{method} {path.format(bad)} HTTP/1.1\r\n".encode() + HEAD + b"Connection: close\r\n\r\n"
        answer = service.raw(line)
        assert status(answer) in (400, 404, 405, 414, 422), (path, answer[:300])
        assert b"\r\nX-Evil" not in answer and b"root:" not in answer


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", ".", "", "a\\b", "x" * 5000, "\u202e.txt", "a%00b"])
def test_a_file_name_that_is_odd_stays_a_name(service, name):
    reply = service.upload_reply(name, b"data")
    assert reply.status in (201, 400, 413, 422, 431), reply
    if reply.status == 201:
        stored = reply.json()
        assert "/" not in stored["filename"]
        assert service.get(f"/v1/files/{stored['file_id']}").body == b"data"
        service.delete(f"/v1/files/{stored['file_id']}")


# ---- HTTP ----


@pytest.mark.parametrize("request_, wanted", [
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n\r\n", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 5, 5\r\n\r\nhello", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: +5\r\n\r\nhello", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: five\r\n\r\nhello", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length:\r\n\r\nhello", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 18446744073709551616\r\n\r\nhello", 413),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 0x5\r\n\r\nhello", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", 413),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
     501),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n{\"code\":\"1\"}", 501),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n\r\n", 400),
    (b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffff\r\n\r\n", 413),
    (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
    (b"GET /health HTTP/1.1\r\n" + HEAD + b"X: a\r\n b\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n" + HEAD + b"X\x00Y: a\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n" + HEAD + b": a\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n" + HEAD + b"no colon\r\n\r\n", 400),
    (b"GET /hea lth HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    (b"GET http://evil/ HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    (b"GET /\xff HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    (b"GET /health HTTP/9.9\r\n" + HEAD + b"\r\n", 505),
    (b"BREW /health HTTP/1.1\r\n" + HEAD + b"\r\n", 501),
    (b"TRACE / HTTP/1.1\r\n" + HEAD + b"\r\n", 501),
    (b"CONNECT evil:80 HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    (b"GET /health HTTP/1.1\r\n" + HEAD + b"X: " + b"a" * 100000 + b"\r\n\r\n", 431),
    (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 414),
    (b"GET /health HTTP/1.1\r\n" + HEAD + b"X: a\r\n" * 20000 + b"\r\n", 431),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, 400),
    (b"\x00" * 1000 + b"\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
], ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else "")
def test_a_malformed_request_is_refused(service, request_, wanted):
    is_told_once(service.raw(request_), wanted)


@pytest.mark.parametrize("framing", [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 0\r\nContent-Length: 70\r\n\r\n",
    b"Content-Length: 5\r\n\r\n0\r\n\r\n",
])
def test_no_request_is_smuggled_behind_another(service, framing):
    """Whatever stands behind a request that can be read in two ways is not taken for another one."""
    before = len(service.get("/v1/runs").json()["runs"])
    hidden = post(b'{"code":"print(\'smuggled\')"}')
    answer = service.raw(b"POST /v1/execute HTTP/1.1\r\n" + HEAD + framing + hidden)
    assert b"smuggled" not in answer or framing.endswith(b"5\r\n\r\n0\r\n\r\n")
    if not framing.startswith(b"Content-Length: 5"):
        assert len(service.get("/v1/runs").json()["runs"]) == before


def test_requests_in_one_go_are_answered_in_order(service):
    both = b"".join(b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n%s\r\n%s" % (
        len(body), b"Connection: close\r\n" * (i == 4), body)
        for i in range(5) for body in [b'{"code":"print(%d)"}' % i])
    answer = service.raw(both)
    places = [answer.find(b'"stdout":"%d\\n"' % i) for i in range(5)]
    assert -1 not in places and places == sorted(places), answer


def test_invalid_utf8_is_422_not_a_crash(service):
    for body in (b'{"code":"\x80"}', b'{"code":"\xc3"}', b'{"\xff":1}', b'{"code":"1","user":"\xf8\x88\x80\x80\x80"}'):
        is_told(service.raw(post(body)), 422)


# ---- size ----


def test_a_hundred_megabytes_of_code_are_413_without_being_read(service):
    before = service.memory()
    answer = service.raw(b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 104857600\r\n\r\n" + b"x" * 100000)
    is_told(answer, 413)
    # The same, without saying so first.
    answer = service.raw(b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n" +
                         b"".join(b"100000\r\n" + b"x" * 0x100000 + b"\r\n" for _ in range(8)))
    assert status(answer) in (413, 0), answer[:300]  # 0: reset while we still sent
    assert service.memory() < before + (32 << 20)


def test_whoever_asks_first_is_told_to_keep_it(service):
    answer = service.raw(b"POST /v1/execute HTTP/1.1\r\n" + HEAD +
                         b"Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n")
    is_told(answer, 413)
    assert b"100 Continue" not in answer


def test_just_under_the_limit_is_served(service):
    code = "print(1)#" + "x" * ((2 << 20) - 100)
    assert service.execute(code, timeout_ms=20000)["stdout"] == "1\n"


@pytest.mark.parametrize("number", ["99999999999999999999", "1e30", '"99999999999999999999"', str(10 ** 300)])
def test_a_number_that_is_too_large_for_anything_is_too_large(service, number):
    reply = service.post("/v1/execute", '{"code": "1", "timeout_ms": %s}' % number)
    assert (reply.status, reply.detail()) == (422, "timeout_ms exceeds maximum of 60000 ms"), reply
    reply = service.post("/v1/execute", '{"code": "1", "limits": {"processes": -%s}}' % number.strip('"'))
    assert (reply.status, reply.detail()) == (422, "Input should be greater than or equal to 1"), reply


def test_a_language_that_is_not_installed_is_400(service):
    languages = harness.wait_until(lambda: all_known(service), "all languages have been asked")
    for missing in (language["id"] for language in languages if not language["installed"]):
        for path in ("/v1/execute", "/v1/sessions"):
            reply = service.post(path, {"code": "1", "language": missing})
            assert (reply.status, reply.json()["code"]) == (400, "not_installed"), reply
            assert "is not installed" in reply.detail()


def all_known(service):
    languages = service.get("/v1/languages").json()["languages"]
    known = all(language["installed"] is not None for language in languages)
    assert all(language["version"] for language in languages if language["installed"])
    return known and languages
