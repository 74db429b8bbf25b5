"""Many runs in one request."""
import json
import socket

import pytest

import harness

SERVICE = {"batch_max": 50, "running_max": 4, "timeout_max_ms": 120000, "warm": "python"}


def batch(service, runs, **fields):
    reply = service.post("/v1/batch", {"runs": runs, **fields})
    assert reply.status == 200, reply
    return reply.json()["results"]


def test_results_come_in_order(service):
    results = batch(service, [{"code": f"import time\ntime.sleep({.2 if i % 2 else 0})\nprint({i})"} for i in range(12)])
    assert [result["stdout"] for result in results] == [f"{i}\n" for i in range(12)]
    assert all(result["exit_code"] == 0 and result["id"] for result in results)


def test_one_failure_does_not_end_the_others(service):
    results = batch(service, [
        {"code": "print(1)"},
        {"code": "import sys; sys.exit(3)"},
        {"code": 5},
        {"code": "1", "language": "cobol"},
        {"code": "1", "timeout_ms": 10 ** 9},
        {"code": "while True: pass", "timeout_ms": 200},
        {"code": "1", "files": [{"path": "a", "file_id": "no"}]},
        "nonsense",
        {"code": "print(2)"},
    ])
    assert [results[i]["stdout"] for i in (0, 8)] == ["1\n", "2\n"]
    assert results[1]["exit_code"] == 3
    assert results[5]["timed_out"] is True
    errors = {i: result["error"] for i, result in enumerate(results) if "error" in result}
    assert {i: error["status"] for i, error in errors.items()} == {2: 422, 3: 400, 4: 422, 6: 404, 7: 422}
    assert all(error["detail"] and error["code"] for error in errors.values())


def test_each_has_its_files_and_language(service):
    results = batch(service, [{"code": "open('f', 'w').write('a')\nNone"}, {"code": "echo b > f", "language": "sh"}])
    assert [service.download(result["files"][0]["file_id"]) for result in results] == [b"a", b"b\n"]


def test_lines_come_as_runs_end(service):
    connection, response = service.begin("POST", "/v1/batch", {
        "stream": True, "runs": [{"code": "import time\ntime.sleep(1)\nprint('slow')"}, {"code": "print('quick')"},
                                 {"code": 7}]})
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in response.read().splitlines() if line.strip()]
    connection.close()
    assert sorted(line["index"] for line in lines) == [0, 1, 2]
    by_index = {line["index"]: line for line in lines}
    assert (by_index[0]["stdout"], by_index[1]["stdout"]) == ("slow\n", "quick\n")
    assert by_index[2]["error"]["status"] == 422
    assert lines[-1]["index"] == 0


def test_an_accept_header_asks_for_lines_too(service):
    reply = service.post("/v1/batch", {"runs": [{"code": "print(1)"}]}, headers={"Accept": "application/x-ndjson"})
    assert reply.headers["Content-Type"].startswith("application/x-ndjson")
    assert json.loads(reply.body)["stdout"] == "1\n"


def test_no_more_than_max_parallel_at_one_time(service):
    call = harness.Background(lambda: batch(
        service, [{"code": "import time\ntime.sleep(.3)"}] * 5, max_parallel=2))
    seen = set()
    while not call.is_over():
        metrics = service.metrics()
        seen.add(metrics["hotcell_runs_running"] + metrics["hotcell_runs_queued"])
    assert max(seen) == 2
    assert len(call.result()) == 5


def test_an_empty_batch_is_an_empty_list(service):
    assert batch(service, []) == []


@pytest.mark.parametrize("body", [{}, {"runs": None}, {"runs": {}}, {"runs": "x"}, {"runs": [{}], "max_parallel": 0},
                                  {"runs": [{}], "max_parallel": -1}, {"runs": [{}], "max_parallel": "many"},
                                  {"runs": [{"code": "1"}] * 51}, {"runs": [{}], "stream": "perhaps"}])
def test_a_batch_that_is_none_is_422(service, body):
    reply = service.post("/v1/batch", body)
    assert reply.status == 422 and reply.detail(), reply


def test_a_client_that_goes_away_cancels_all_of_it(service):
    body = json.dumps({"runs": [{"code": "import time\ntime.sleep(60)", "timeout_ms": 100000}] * 20}).encode()
    with service.connect() as sock:
        sock.sendall(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        harness.wait_until(lambda: service.metrics()["hotcell_runs_running"] == 4, "they run")
    harness.wait_until(lambda: service.metrics()["hotcell_runs_running"] == 0, "none runs")
    assert service.metrics()["hotcell_runs_queued"] == 0
    assert batch(service, [{"code": "print(1)"}])[0]["stdout"] == "1\n"


def test_long_outputs_together_are_bounded(service):
    before = service.memory()
    results = batch(service, [{"code": "print('x' * 900000)", "timeout_ms": 60000}] * 50)
    assert all(result["exit_code"] == 0 for result in results)
    assert sum(len(result["stdout"]) for result in results) < 64 << 20
    if not harness.IS_SANITIZED:
        assert service.memory() - before < 400 << 20


def test_a_session_cannot_be_named_in_a_batch(service):
    result, = batch(service, [{"code": "1", "session_id": "00000000-0000-4000-8000-000000000000"}])
    assert result["error"]["status"] in (404, 422)


def test_what_is_kept_is_answered_with_that(service):
    kept = {"code": "import random; print(random.random())", "cache": True}
    first, = batch(service, [kept])
    assert first["cached"] is False
    again, other = batch(service, [kept, {"code": kept["code"]}])
    assert (again["cached"], again["stdout"], again["id"]) == (True, first["stdout"], first["id"])
    assert (other["cached"], other["stdout"] == first["stdout"]) == (False, False)


def test_what_a_batch_has_cut_is_not_what_others_get(service):
    kept = {"code": "print('x' * 900000)", "cache": True, "timeout_ms": 60000}
    short = batch(service, [kept] + [{"code": "1"}] * 49)[0]
    assert len(short["stdout"]) < 900000
    whole = service.execute(**kept)
    assert (whole["cached"], len(whole["stdout"])) == (False, 900001)
