"""How many runs go on at one time, who waits, and who is sent away."""
import time

import pytest

import harness

SERVICE = {"running_max": 2, "queue_max": 4, "queue_wait_max_s": 3, "timeout_max_ms": 120000}
SLEEP = "import time\ntime.sleep(60)"


class Crowd:
    """Runs that go on, or wait."""

    def __init__(self, service):
        self.service = service
        self.calls = []

    def add(self, count, code=SLEEP, client=None, **fields):
        for _ in range(count):
            before = self.size()
            self.calls.append(harness.Background(
                lambda: (client or self.service).post("/v1/execute", {"code": code, "timeout_ms": 60000, **fields})))
            harness.wait_until(lambda: self.size() > before or self.calls[-1].is_over(), "it has come in")

    def size(self):
        metrics = self.service.metrics()
        return metrics["hotcell_runs_running"] + metrics["hotcell_runs_queued"]

    def disperse(self):
        while self.size():
            for run in self.service.get("/v1/runs").json()["runs"]:
                if run["state"] != "done":
                    self.service.delete(f"/v1/runs/{run['id']}")
        return [call.result() for call in self.calls]


@pytest.fixture
def crowd(service):
    crowd = Crowd(service)
    yield crowd
    crowd.disperse()


def test_so_many_run_and_the_others_wait(service, crowd):
    crowd.add(4)
    metrics = service.metrics()
    assert (metrics["hotcell_runs_running"], metrics["hotcell_runs_queued"]) == (2, 2)
    assert metrics["hotcell_runs_running_max"] == 2


def test_over_the_queue_it_is_429_with_retry_after(service, crowd):
    crowd.add(6)
    for path in ("/v1/execute", "/v1/execute/stream"):
        reply = service.post(path, {"code": "1"})
        assert reply.status == 429, reply
        assert int(reply.headers["Retry-After"]) >= 1
        assert reply.json()["code"] == "busy"
    # All else is served.
    assert service.get("/v1/runs").status == 200
    assert service.download(service.upload("a", b"x")) == b"x"


def test_who_waits_gets_a_turn_in_order(service, crowd):
    crowd.add(1)
    code = "import time\ntime.sleep(.3)"
    crowd.add(4, code)
    queue = [call.result().json() for call in crowd.calls[1:]]
    assert all(run["exit_code"] == 0 for run in queue)
    waited = [run["usage"]["queue_us"] for run in queue]
    assert waited == sorted(waited) and waited[-1] > 500000


def test_who_waits_too_long_is_sent_away(service, crowd):
    crowd.add(3)
    reply = crowd.calls[2].result()
    assert reply.status == 429 and "no place became free" in reply.detail()
    assert int(reply.headers["Retry-After"]) >= 1


def test_refusals_are_counted(service, crowd):
    crowd.add(6)
    before = service.metrics()["hotcell_runs_refused_total"]
    assert service.post("/v1/execute", {"code": "1"}).status == 429
    assert service.metrics()["hotcell_runs_refused_total"] == before + 1


def test_many_at_once_are_all_served_or_told(service):
    replies = harness.at_once(*[lambda: service.post("/v1/execute", {"code": "print(1)"})] * 60)
    assert {reply.status for reply in replies} <= {200, 429}
    assert sum(reply.status == 200 for reply in replies) >= 6
    assert all(reply.json()["stdout"] == "1\n" for reply in replies if reply.status == 200)
    assert service.metrics()["hotcell_runs_running"] == 0


class TestKeys:
    """Keys come last here: from the first on, everybody needs one."""

    @pytest.fixture(scope="class")
    def clients(self, service, keys):
        return [harness.Client(service.port, key=keys.add(name)) for name in ("greedy", "modest")]

    def wait_for_queue(self, service, count):
        harness.wait_until(lambda: service.local.metrics()["hotcell_runs_queued"] == count, f"{count} wait")

    def test_a_key_with_much_to_do_does_not_keep_others_waiting(self, service, clients):
        greedy, modest = clients
        sleep = "import time\ntime.sleep(.4)"
        order = []

        def run(client, name):
            reply = client.post("/v1/execute", {"code": sleep})
            order.append(name)
            return reply

        first = [harness.Background(lambda: run(greedy, "greedy")) for _ in range(5)]
        self.wait_for_queue(service, 3)
        last = harness.Background(lambda: run(modest, "modest"))
        replies = [call.result() for call in (*first, last)]
        assert [reply.status for reply in replies] == [200] * 6
        # Two were running; of those that waited, the other key's is not behind all of the first one's.
        assert order.index("modest") < 5, order

    def test_a_key_that_fills_the_queue_does_not_keep_others_out(self, service, clients):
        greedy, modest = clients
        sleep = {"code": "import time\ntime.sleep(1)"}
        first = [harness.Background(lambda: greedy.post("/v1/execute", sleep)) for _ in range(6)]
        self.wait_for_queue(service, 4)
        assert modest.post("/v1/execute", {"code": "print(1)"}).status == 200
        statuses = sorted(call.result().status for call in first)
        assert statuses == [200] * 5 + [429]
