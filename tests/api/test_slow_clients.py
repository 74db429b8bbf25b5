"""Clients that are slow, silent, half gone, or very many."""
import json
import resource
import socket
import time

import pytest

import harness
from test_bad_input import HEAD, leaks_nothing, post, status, still_works  # noqa: F401 (two are fixtures)

SERVICE = {"connection_idle_s": 2, "connections_max": 12000, "running_max": 4}


def ends(sock, patience_s=60):
    """All that comes until it is closed."""
    sock.settimeout(patience_s)
    return harness.read_to_end(sock)


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"POST /v1/execute HTTP/1.1\r\nHost: localh",
                                  b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{",
                                  b"POST /v1/files HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n--"],
                         ids=["nothing", "half a line", "half a head", "half a body", "half a file"])
def test_silence_ends_a_connection(service, sent):
    with service.connect() as sock:
        sock.sendall(sent)
        answer = ends(sock)
        assert status(answer) == (408 if sent else 0), answer
        assert not sent or b'"code":"timeout"' in answer


def test_a_head_that_drips_is_not_waited_for_without_end(service):
    """Slow loris: each byte is in time, all of them are not."""
    with service.connect() as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\n")
        deadline = time.monotonic() + 90
        try:
            while time.monotonic() < deadline:
                sock.sendall(b"X: y\r\n")
                sock.settimeout(0.7)
                try:
                    if not sock.recv(1000):
                        return
                except TimeoutError:
                    pass
        except (BrokenPipeError, ConnectionResetError):
            return
        raise AssertionError("it is still being read")


def test_a_half_closed_connection_is_answered(service):
    assert status(service.raw(post(b'{"code":"print(1)"}'), half_close=True)) == 200
    for sent in (b"GET /hea", b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{",
                 b"POST /v1/execute HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"):
        answer = service.raw(sent, half_close=True)
        assert status(answer) == 400 and b"The request ends early." in answer, answer
    assert service.raw(b"", half_close=True) == b""


def test_clients_that_vanish_at_any_moment_leave_nothing(service):
    request = post(b'{"code":"import time\\ntime.sleep(.05)\\nprint(1)"}')
    for cut in list(range(0, len(request), 9)) + [len(request)] * 10:
        with service.connect() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset
            sock.sendall(request[:cut])
    harness.wait_until(lambda: service.metrics()["hotcell_runs_running"] == 0, "all runs have ended")


def test_ten_thousand_connections(service):
    """They are held, others are served meanwhile, and in the end all are closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10000 if not harness.IS_SANITIZED else 2000
    if hard < wanted + 500:
        pytest.fail(f"this needs {wanted + 500} open files, and there may be {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = service.memory()
    sockets = []
    try:
        for _ in range(wanted):
            sock = socket.socket()
            sock.connect(("127.0.0.1", service.port))
            sockets.append(sock)
            if len(sockets) % 2000 == 0:
                assert service.execute("print('served')")["stdout"] == "served\n"
        assert service.execute("print('served')")["stdout"] == "served\n"
        if not harness.IS_SANITIZED:
            assert service.memory() - before < 400 << 20
        # They say nothing, and are closed for it.
        assert ends(sockets[-1]) == b"" and ends(sockets[0]) == b""
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_over_the_limit_of_connections_it_is_503():
    with harness.Running(connections_max=20) as service:
        sockets = [service.connect() for _ in range(20)]
        deadline = time.monotonic() + 30
        answer = b""
        while time.monotonic() < deadline and status(answer) != 503:
            with service.connect(timeout=5) as sock:
                sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answer = ends(sock, 5)
        assert status(answer) == 503, answer
        head, body = answer.split(b"\r\n\r\n", 1)
        assert b"Content-Length: %d\r\n" % len(body) in head + b"\r\n"
        assert json.loads(body) == {"detail": "Too many connections.", "code": "busy"}
        for sock in sockets:
            sock.close()
        harness.wait_until(lambda: service.get("/livez").status == 200, "it serves again")
