"""Runs whose output comes as it is printed: order, letters in pieces, slow readers, clients that go away,
runs that go on without one."""
import json
import socket
import time

import pytest

import harness

SERVICE = {"timeout_max_ms": 120000, "cpu_default_ms": 60000, "output_max_bytes": "1M"}
ISOLATIONS = ["container"] + ["vm"] * harness.HAS_KVM
STREAM = "/v1/execute/stream"
# A sanitizer keeps what was freed, up to a bound of its own.
ROOM = (600 if harness.IS_SANITIZED else 64) << 20


def running(service):
    return service.metrics()["hotcell_runs_running"]


def until_idle(service):
    harness.wait_until(lambda: running(service) == 0, "no run goes on")


@pytest.fixture(params=ISOLATIONS)
def isolation(request):
    return request.param


def test_output_comes_before_the_run_has_ended(service, isolation):
    with service.stream(STREAM, {"code": "import time\nprint('first', flush=True)\ntime.sleep(60)",
                                 "timeout_ms": 100000, "isolation": isolation}) as stream:
        event, data = next(iter(stream))
        assert (event, data["stream"], data["data"].rstrip("\n")) == ("output", "stdout", "first")
        assert running(service) == 1
    until_idle(service)


def test_the_order_of_a_stream_is_kept(service, isolation):
    with service.stream(STREAM, {
            "code": "import sys\nfor i in range(20000):\n    print(i)\n    if i % 10 == 0: print(-i, file=sys.stderr)",
            "isolation": isolation, "timeout_ms": 60000}) as stream:
        out, err, event, result = stream.output()
    assert out == "".join(f"{i}\n" for i in range(20000))
    assert err == "".join(f"{-i}\n" for i in range(0, 20000, 10))
    assert event == "result" and result["exit_code"] == 0


def test_both_streams_come_in_the_order_they_were_printed_in(service):
    with service.stream(STREAM, {
            "code": "import sys, time\nfor i in range(5):\n    print('o', i, flush=True); time.sleep(.05)\n"
                    "    print('e', i, file=sys.stderr, flush=True); time.sleep(.05)"}) as stream:
        events = [data["data"] for event, data in stream if event == "output"]
    assert "".join(events) == "".join(f"o {i}\ne {i}\n" for i in range(5))


def test_a_letter_that_comes_in_pieces_is_one_letter(service, isolation):
    code = ("import sys, time\nfor byte in 'aé€😀b'.encode():\n"
            "    sys.stdout.buffer.write(bytes([byte])); sys.stdout.buffer.flush(); time.sleep(.01)\nNone")
    with service.stream(STREAM, {"code": code, "isolation": isolation}) as stream:
        pieces = [data["data"] for event, data in stream if event == "output"]
    assert "".join(pieces) == "aé€😀b"
    assert len(pieces) > 1


def test_a_letter_that_is_never_finished_is_replaced_at_the_end(service):
    with service.stream(STREAM, {"code": "import sys\nsys.stdout.buffer.write(b'a\\xe2\\x82')\nNone"}) as stream:
        out, _, event, _ = stream.output()
    assert out in ("a\ufffd", "a\ufffd\ufffd") and event == "result"


def test_bytes_that_are_no_text_are_replaced(service):
    with service.stream(STREAM, {"code": "import sys\nsys.stdout.buffer.write(b'a\\xff\\x80\\x00b')\nNone"}) as stream:
        assert stream.output()[0] == "a\ufffd\ufffd\x00b"


def test_a_stream_is_not_cut_where_a_reply_is(service):
    with service.stream(STREAM, {"code": "print('x' * 3000000)", "timeout_ms": 60000}) as stream:
        out, _, _, result = stream.output()
    assert len(out) == 3000001
    assert result["truncated"]["stdout"] is False
    whole = service.download(result["truncated"]["full_output_file_id"])
    assert len(whole) == 3000001


def test_a_stream_that_ended_at_its_limit_says_so(service):
    with service.stream(STREAM, {"code": "print('x' * 50000)", "limits": {"output_bytes": 2000}}) as stream:
        out, _, _, result = stream.output()
    assert (len(out), result["reason"]) == (2000, "output_limit")
    assert result["truncated"] == {"stdout": True, "stderr": False, "full_output_file_id": None}


def test_a_stream_beside_one_that_ended_at_its_limit_has_all_of_it(service):
    """It is longer than a reply may be, and shorter than its limit."""
    code = "import sys\nprint('x' * 1500000, flush=True)\nprint('y' * 5000000, file=sys.stderr)"
    limits = {"output_bytes": 2000000}
    with service.stream(STREAM, {"code": code, "timeout_ms": 60000, "limits": limits}) as stream:
        out, err, _, result = stream.output()
    assert (len(out), len(err), result["reason"]) == (1500001, 2000000, "output_limit")
    assert (result["truncated"]["stdout"], result["truncated"]["stderr"]) == (False, True)
    run = service.execute(code, timeout_ms=60000, limits=limits)
    assert (run["truncated"]["stdout"], run["truncated"]["stderr"]) == (True, True)


def test_the_log_of_a_run_that_goes_on_by_itself_is_cut_and_says_so(service):
    code = "for i in range(3000): print('x' * 1000)"
    with service.stream(STREAM, {"code": code, "timeout_ms": 60000, "detach": True}) as stream:
        out, _, _, result = stream.output()
    assert len(out) < 3003000
    assert result["truncated"]["stdout"] is True
    assert len(service.download(result["truncated"]["full_output_file_id"])) == 3003000


def test_a_run_that_is_over_is_replayed_as_far_as_it_is_kept_and_says_so(service):
    run = service.execute("print('x' * 3000000)", timeout_ms=60000)
    with service.stream(f"/v1/runs/{run['id']}/stream", method="GET") as stream:
        out, _, _, result = stream.output()
    assert len(out) < 3000001 and result["truncated"] == run["truncated"]
    assert result["truncated"]["stdout"] is True


def test_the_last_event_has_what_a_reply_has_but_for_the_output(service):
    with service.stream(STREAM, {"code": "print(1)"}) as stream:
        run_id = stream.headers["X-Run-Id"]
        *_, (event, result) = stream
    assert event == "result" and result["id"] == run_id
    whole = service.execute("print(1)")
    assert set(whole) - set(result) == {"stdout", "stderr", "result", "outputs", "cached"}


def test_other_languages_stream_too(service):
    with service.stream(STREAM, {"language": "sh", "code": "echo a; echo b >&2"}) as stream:
        assert stream.output()[:3] == ("a\n", "b\n", "result")


# ---- slow readers ----


def test_a_reader_that_does_not_read_costs_no_memory(service, isolation):
    """A cell that prints without end is held back; the daemon does not keep what nobody takes."""
    body = json.dumps({"code": "while True: print('x' * 10000)", "timeout_ms": 100000, "isolation": isolation,
                       "limits": {"output_bytes": (4 << 30) - 1}}).encode()
    service.execute("print(1)", isolation=isolation)
    before = service.memory()
    with service.connect() as sock:
        sock.sendall(b"POST /v1/execute/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                     % len(body) + body)
        assert sock.recv(20).startswith(b"HTTP/1.1 200")
        cpu = None
        # Until the cell has come to rest: it cannot write any more.
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            now = cpu_of(service.daemon_pid())
            if cpu is not None and now - cpu <= 1:
                break
            cpu = now
            time.sleep(1)
        else:
            raise AssertionError("the run is not held back")
        assert service.memory() - before < ROOM
        # It is still there, and goes on when somebody reads.
        assert running(service) == 1
        received = 0
        while received < 30 << 20:
            received += len(sock.recv(1 << 20))
        assert service.memory() - before < ROOM
    until_idle(service)


def cpu_of(pid):
    fields = harness.read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_others_are_served_while_one_does_not_read(service):
    with service.stream(STREAM, {"code": "while True: print('x' * 10000)", "timeout_ms": 100000,
                                 "limits": {"output_bytes": 1 << 31}}):
        for _ in range(5):
            assert service.execute("print(1)")["stdout"] == "1\n"
    until_idle(service)


def test_a_follower_that_goes_away_does_not_leave_the_run_held_back(service):
    with service.stream(STREAM, {"code": "import time\nprint('go', flush=True)\ntime.sleep(1)\n"
                                         "for i in range(2000): print('x' * 10000)\nprint('end')",
                                 "timeout_ms": 20000}) as stream:
        assert next(iter(stream))[1]["data"].startswith("go")
        follower = service.connect()
        follower.sendall(b"GET /v1/runs/%s/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
                         % stream.headers["X-Run-Id"].encode())
        assert follower.recv(20).startswith(b"HTTP/1.1 200")
        reader = harness.Background(stream.output)
        time.sleep(3)  # by now it waits for the follower, if it can be made to
        follower.close()
        out, _, event, result = reader.result()
    assert out.endswith("end\n") and result["exit_code"] == 0, result


# ---- clients that go away ----


@pytest.mark.parametrize("path", ["/v1/execute", STREAM])
def test_a_client_that_goes_away_cancels_its_run(service, isolation, path):
    before = service.metrics()
    with service.connect() as sock:
        body = json.dumps({"code": "import time\nwhile True: time.sleep(.1)", "timeout_ms": 100000,
                           "isolation": isolation}).encode()
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                     + body)
        harness.wait_until(lambda: running(service) == 1, "it runs")
    until_idle(service)
    name = f'hotcell_runs_total{{language="python",isolation="{isolation}",reason="cancelled"}}'
    harness.wait_until(lambda: service.metrics().get(name, 0) == before.get(name, 0) + 1,
                       "it counts as cancelled")


def test_a_half_closed_client_still_gets_its_answer(service):
    body = json.dumps({"code": "import time\ntime.sleep(.5)\nprint('here')"}).encode()
    answer = service.raw(b"POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body) + body, half_close=True)
    assert b"HTTP/1.1 200" in answer and b'"here\\n"' in answer


# ---- detached ----


def begin_detached(service, code, **fields):
    """Starts it, and goes away. Returns its id."""
    with service.stream(STREAM, {"code": code, "detach": True, "timeout_ms": 60000, **fields}) as stream:
        assert next(iter(stream))[0] == "output"
        return stream.headers["X-Run-Id"]


COUNT = "import time\nfor i in range(20):\n    print(i, flush=True); time.sleep(.05)"
COUNTED = "".join(f"{i}\n" for i in range(20))


def test_a_detached_run_goes_on_and_is_followed_from_its_beginning(service, isolation):
    run_id = begin_detached(service, COUNT, isolation=isolation)
    assert service.get(f"/v1/runs/{run_id}").json()["state"] == "running"
    with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        out, _, event, result = stream.output()
    assert (out, event, result["exit_code"]) == (COUNTED, "result", 0)
    # And once more, now that it has ended.
    with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
        assert stream.output()[0] == COUNTED


def test_a_follower_that_goes_away_ends_nothing(service):
    run_id = begin_detached(service, COUNT)
    with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
        next(iter(stream))
    harness.wait_until(lambda: service.get(f"/v1/runs/{run_id}").json()["state"] == "done", "it is done")
    assert service.get(f"/v1/runs/{run_id}").json()["stdout"] == COUNTED


def test_many_follow_one(service):
    run_id = begin_detached(service, COUNT)

    def follow():
        with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
            return stream.output()[0]

    assert harness.at_once(*[follow] * 5) == [COUNTED] * 5


def test_a_letter_in_pieces_is_one_letter_for_followers_too(service):
    run_id = begin_detached(service, "import sys, time\nprint('a', flush=True)\nfor b in '€'.encode() * 3:\n"
                            "    sys.stdout.buffer.write(bytes([b])); sys.stdout.buffer.flush(); time.sleep(.02)")
    for _ in range(2):
        with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
            assert stream.output()[0] == "a\n€€€"


def test_a_detached_run_that_prints_without_end_has_an_end(service):
    before = service.memory()
    run_id = begin_detached(service, "while True: print('x' * 10000)", limits={"output_bytes": 50 << 20})
    harness.wait_until(lambda: service.get(f"/v1/runs/{run_id}").json()["state"] == "done", "it is done")
    assert service.get(f"/v1/runs/{run_id}").json()["reason"] == "output_limit"
    assert service.memory() - before < ROOM


def test_a_detached_run_can_be_cancelled(service):
    run_id = begin_detached(service, "import time\nprint('on', flush=True)\ntime.sleep(60)")
    assert service.delete(f"/v1/runs/{run_id}").status == 202
    with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
        out, _, event, result = stream.output()
    assert (out, event, result["reason"]) == ("on\n", "result", "cancelled")


def test_execute_can_be_detached_too(service):
    with service.connect() as sock:
        body = json.dumps({"code": COUNT, "detach": True, "timeout_ms": 60000}).encode()
        sock.sendall(b"POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                     % len(body) + body)
        harness.wait_until(lambda: running(service) == 1, "it runs")
    run_id = service.get("/v1/runs?limit=1").json()["runs"][0]["id"]
    with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
        assert stream.output()[0] == COUNTED


def test_a_run_that_is_not_streamed_cannot_be_followed_while_it_goes_on(service):
    waiting = harness.Background(lambda: service.execute("import time\ntime.sleep(1)\nprint(1)"))
    harness.wait_until(lambda: running(service) == 1, "it runs")
    run_id = service.get("/v1/runs?limit=1").json()["runs"][0]["id"]
    reply = service.get(f"/v1/runs/{run_id}/stream")
    assert reply.status == 409 and "detach" in reply.detail()
    assert waiting.result()["stdout"] == "1\n"
    with service.stream(f"/v1/runs/{run_id}/stream", method="GET") as stream:
        assert stream.output()[0] == "1\n"
