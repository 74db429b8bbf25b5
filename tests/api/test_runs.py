"""Runs: their history, what is known of one, and cancelling."""
import time
import uuid

import pytest

import harness

SERVICE = {"running_max": 1, "timeout_max_ms": 120000, "cpu_default_ms": 60000}
LOOP = "import time\nwhile True: time.sleep(.05)"


def in_background(service, code=LOOP, **fields):
    return harness.Background(
        lambda: service.post("/v1/execute", {"code": code, "timeout_ms": 100000, **fields}))


def newest(service, count=1):
    return service.get(f"/v1/runs?limit={count}").json()["runs"]


def wait_for(service, state):
    """The id of the newest run, when it is in that state."""
    harness.wait_until(lambda: newest(service) and newest(service)[0]["state"] == state, f"one is {state}")
    return newest(service)[0]["id"]


def test_a_run_is_in_the_history_as_soon_as_it_has_ended(service):
    run = service.execute("print('a')\nimport sys; sys.exit(3)", user="u")
    row = newest(service)[0]
    assert (row["id"], row["state"], row["exit_code"], row["reason"]) == (run["id"], "done", 3, "exited")
    assert row["language"] == "python" and row["user"] == "u" and row["session_id"] is None
    assert abs(row["submitted"] - time.time()) < 60


def test_a_run_can_be_had_with_its_output(service):
    run = service.execute("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    again = service.get(f"/v1/runs/{run['id']}").json()
    assert (again["stdout"], again["stderr"], again["exit_code"]) == ("out\n", "err\n", 0)
    assert again["state"] == "done" and again["usage"] == run["usage"]


def test_the_newest_come_first_and_not_more_than_asked_for(service):
    ids = [service.execute("1")["id"] for _ in range(6)]
    assert [row["id"] for row in newest(service, 4)] == ids[:-5:-1]
    # Also when the history has reached the disk.
    time.sleep(1.5)
    assert [row["id"] for row in newest(service, 6)] == ids[::-1]


def test_no_run_is_told_twice(service):
    for _ in range(5):
        service.execute("1")
    rows = service.get("/v1/runs").json()["runs"]
    assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1e3", "99999999999999999999"])
def test_a_limit_that_is_none_is_422(service, limit):
    assert service.get(f"/v1/runs?limit={limit}").status == 422


@pytest.mark.parametrize("run_id", [str(uuid.UUID(int=7, version=4)), "x", "..%2f..%2f", "'--"])
def test_a_run_that_is_none_is_404(service, run_id):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/stream")):
        assert service.request(method, f"/v1/runs/{run_id}{path}").status == 404


@pytest.mark.parametrize("run_id", ["%00", "%zz", "%"])
def test_an_id_that_cannot_be_read_is_malformed(service, run_id):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/stream")):
        reply = service.request(method, f"/v1/runs/{run_id}{path}")
        assert (reply.status, reply.json()["code"]) == (400, "malformed")


def test_a_running_one_is_cancelled(service):
    waiting = in_background(service, "print('partial', flush=True)\n" + LOOP)
    run_id = wait_for(service, "running")
    time.sleep(.2)
    reply = service.delete(f"/v1/runs/{run_id}")
    assert (reply.status, reply.json()["id"]) == (202, run_id)
    run = waiting.result().json()
    assert (run["reason"], run["stdout"], run["timed_out"]) == ("cancelled", "partial\n", False)
    assert service.get(f"/v1/runs/{run_id}").json()["reason"] == "cancelled"


def test_a_queued_one_is_cancelled(service):
    first = in_background(service)
    running = wait_for(service, "running")
    second = in_background(service)
    queued = wait_for(service, "queued")
    assert service.delete(f"/v1/runs/{queued}").status == 202
    reply = second.result()
    assert reply.status == 503 and "cancelled before it began" in reply.detail()
    assert service.get(f"/v1/runs/{queued}").json()["state"] == "done"
    assert service.delete(f"/v1/runs/{running}").status == 202
    assert first.result().json()["reason"] == "cancelled"


def test_a_queued_one_whose_client_goes_away_leaves_the_queue(service):
    first = in_background(service)
    running = wait_for(service, "running")
    stream, _ = None, None
    sock = service.connect()
    sock.sendall(b'POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{"code":"1"}')
    harness.wait_until(lambda: service.metrics()["hotcell_runs_queued"] == 1, "one waits")
    sock.close()
    harness.wait_until(lambda: service.metrics()["hotcell_runs_queued"] == 0, "none waits")
    service.delete(f"/v1/runs/{running}")
    first.result()


def test_an_ended_one_cannot_be_cancelled(service):
    run = service.execute("1")
    reply = service.delete(f"/v1/runs/{run['id']}")
    assert reply.status == 409 and run["id"] in reply.detail()


def test_what_goes_on_is_listed_first(service):
    waiting = in_background(service)
    run_id = wait_for(service, "running")
    row = newest(service)[0]
    assert row["state"] == "running" and "exit_code" not in row
    service.delete(f"/v1/runs/{run_id}")
    waiting.result()


def test_a_cancelled_stream_ends_with_a_result(service):
    with service.stream("/v1/execute/stream", {"code": LOOP, "timeout_ms": 60000}) as stream:
        run_id = stream.headers["X-Run-Id"]
        harness.wait_until(lambda: service.get(f"/v1/runs/{run_id}").json()["state"] == "running", "it runs")
        assert service.delete(f"/v1/runs/{run_id}").status == 202
        _, _, event, result = stream.output()
    assert (event, result["reason"]) == ("result", "cancelled")


def test_a_cancelled_queued_stream_says_so(service):
    waiting = in_background(service)
    running = wait_for(service, "running")
    with service.stream("/v1/execute/stream", {"code": LOOP, "timeout_ms": 60000}) as stream:
        assert service.delete(f"/v1/runs/{stream.headers['X-Run-Id']}").status == 202
        _, _, event, data = stream.output()
    assert event == "error" and set(data) >= {"message"} and "cancelled" in data["message"]
    service.delete(f"/v1/runs/{running}")
    waiting.result()


def test_the_history_outlives_the_service_and_the_files_do_too():
    with harness.Running() as service:
        run = service.execute("open('f', 'w').write('x')\nprint('out')")
        service.stop()
        service.start()
        row = service.get(f"/v1/runs/{run['id']}").json()
        assert (row["id"], row["state"], row["reason"]) == (run["id"], "done", "exited")
        assert service.get("/v1/runs").json()["runs"][0]["id"] == run["id"]
        assert service.download(run["files"][0]["file_id"]) == b"x"
