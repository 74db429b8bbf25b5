"""kill -9 at random moments under load: of the daemon, of a warden, of a cell. What was acknowledged is there
afterwards, byte for byte; who was cut off is told the truth; and it serves again by itself."""
import hashlib
import http.client
import os
import random
import signal
import threading
import time

import pytest

import harness

SECONDS = float(os.environ.get("CRASH_SECONDS", "5"))
TRUTHS = ("cell_failed", "cancelled", "signaled")


class Load:
    """Clients that store files and run programs, and remember what they were promised."""

    def __init__(self, service, threads=3):
        self.service = service
        self.stored = {}       # file_id: sha256
        self.removed = set()
        self.answers = 0
        self.cut = 0           # connections that broke
        self.wrong = []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(i,), daemon=True) for i in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join(harness.PATIENCE_S)
            assert not thread.is_alive(), "a client hangs"

    def work(self, number):
        chance = random.Random(number)
        while not self.is_over.is_set():
            try:
                chance.choice([self.store, self.run, self.run, self.stream, self.remove])(chance)
                self.answers += 1
            except (OSError, http.client.HTTPException):
                self.cut += 1
                time.sleep(.05)
            except Exception as error:
                self.wrong.append(error)

    def store(self, chance):
        data = chance.randbytes(chance.choice([0, 10, 5000, 300000]))
        reply = self.service.upload_reply("f", data)
        if reply.status == 201:
            self.stored[reply.json()["file_id"]] = hashlib.sha256(data).hexdigest()
        else:
            assert reply.status in (429, 503), reply

    def remove(self, chance):
        if len(self.stored) > 20:
            file_id = chance.choice(list(self.stored))
            expected = self.stored.pop(file_id, None)
            reply = self.service.delete(f"/v1/files/{file_id}")
            if reply.status == 204:
                self.removed.add(file_id)
            elif expected and reply.status != 404:
                assert reply.status in (429, 503), reply

    def run(self, chance):
        number = chance.randrange(10 ** 6)
        code = f"import time\ntime.sleep({chance.choice([0, 0, .1])})\nopen('f', 'w').write('{number}')\nprint({number})"
        self.judge(self.service.post("/v1/execute", {
            "code": code, "isolation": chance.choice(["auto", "auto", "container"]), "timeout_ms": 20000}), number)

    def judge(self, reply, number):
        if reply.status != 200:
            # It says that it is not its own fault, and that one may try again.
            assert reply.status in (429, 503), reply
            assert reply.detail(), reply
            return
        run = reply.json()
        if run["reason"] == "exited" and run["exit_code"] == 0:
            assert run["stdout"] == f"{number}\n", run
            # The cell may be gone before its files were read: then that is told.
            assert [file["path"] for file in run["files"]] == ["f"] or run.get("files_incomplete"), run
            for file in run["files"]:
                assert file["file_id"] or file["error"], run
                if file["file_id"]:
                    self.stored[file["file_id"]] = hashlib.sha256(str(number).encode()).hexdigest()
        else:
            assert run["reason"] in TRUTHS or run["exit_code"] != 0, run

    def stream(self, chance):
        with self.service.stream("/v1/execute/stream", {"code": "print(1)\nprint(2)"}) as stream:
            if stream.status != 200:
                assert stream.status in (429, 503)
                return
            try:
                out, _, event, result = stream.output()
            except AssertionError:
                raise ConnectionError("broken off") from None
            if event == "result" and result["exit_code"] == 0:
                assert out == "1\n2\n"

    def check(self):
        """All that was promised is there."""
        assert not self.wrong, self.wrong[:3]
        assert self.answers > 10
        listed = {file["file_id"] for file in self.service.get("/v1/files").json()["files"]}
        for file_id, expected in self.stored.items():
            data = self.service.download(file_id)
            assert hashlib.sha256(data).hexdigest() == expected, f"{file_id} has {len(data)} other bytes"
        if len(listed) < 1000:
            assert set(self.stored) <= listed
        for file_id in self.removed:
            assert self.service.get(f"/v1/files/{file_id}").status == 404


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def harass(service, choose, pause_s):
    """Kills what is chosen, at random moments. Returns how often."""
    kills = 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(random.uniform(0, pause_s))
        victims = choose()
        if victims:
            kill(random.choice(list(victims)))
            kills += 1
    return kills


def serves_again(service):
    harness.wait_until(service.is_ready, f"it serves again:\n{service.log()[-3000:]}")
    for isolation in ("auto", "container"):
        harness.wait_until(
            lambda: service.post("/v1/execute", {"code": "print('again')", "isolation": isolation}).status == 200,
            f"it runs again in {isolation}")


def crash(choose, pause_s, **settings):
    with harness.Running(queue_max=1000, warm="python", **settings) as service:
        with Load(service) as load:
            kills = harass(service, lambda: choose(service), pause_s)
            serves_again(service)
        serves_again(service)
        load.check()
        assert kills > 1
        # Nothing is left over from those that were killed: as few cells as waited before.
        harness.wait_until(lambda: len(service.warden_pids()) <= 3, "there are no old wardens")
        harness.wait_until(lambda: len({os.path.basename(path).rsplit("-", 1)[0] for path in service.cgroups()}) <= 3,
                           f"the cgroups of the dead are gone: {service.cgroups()}")
        return service, load


@pytest.mark.needs_root("only root may kill the daemon")
def test_the_daemon_is_killed():
    service, load = crash(lambda service: service.children("hotcell-daemon"), 1.5)
    assert load.cut > 0


@pytest.mark.needs_root("only root may kill a warden")
def test_wardens_are_killed():
    crash(lambda service: service.warden_pids(), .8)


@pytest.mark.needs_root("only root may kill what is in a cell")
def test_cells_are_killed():
    crash(lambda service: service.cell_pids(), .05)


@pytest.mark.needs_root("only root may kill all of it")
def test_anything_is_killed():
    crash(lambda service: list(service.cell_pids()) + service.warden_pids() + service.children("hotcell-daemon"), .3)


@pytest.mark.needs_root("only root sees all that is left")
def test_the_supervisor_is_killed_and_all_of_it_ends():
    with harness.Running() as service:
        file_id = service.upload("a", b"kept")
        with Load(service):
            time.sleep(1)
            service.note()
            kill(service.process.pid)
            service.process.wait()
        harness.wait_until(lambda: not [line for line in service.left() if line.startswith("process")],
                           f"everything ends: {service.left()}")
        # The socket's name stays, and cgroups if their warden had no time; the next one clears both away.
        service.start()
        assert service.download(file_id) == b"kept"
        assert service.execute("print(1)")["stdout"] == "1\n"


def test_a_run_whose_cell_is_killed_is_told_so():
    with harness.Running() as service:
        for isolation in ["container"] + ["vm"] * harness.HAS_KVM:
            before = service.cell_pids()
            call = harness.Background(lambda: service.execute(
                "print('so far', flush=True)\nimport time\ntime.sleep(60)", isolation=isolation, timeout_ms=50000))
            harness.wait_until(lambda: service.metrics()["hotcell_runs_running"] == 1, "it runs")
            time.sleep(.5)
            for pid in service.cell_pids():
                kill(pid)
            run = call.result()
            assert run["reason"] in TRUTHS and run["exit_code"] != 0, run
            assert run["timed_out"] is False
        serves_again(service)


def test_files_survive_without_a_goodbye():
    """Acknowledged, then killed at once, many times."""
    with harness.Running() as service:
        stored = {}
        for i in range(5):
            data = os.urandom(1000 + i)
            stored[service.upload(f"{i}", data)] = data
            kill(service.daemon_pid())
            harness.wait_until(service.is_ready, "it is back")
        for file_id, data in stored.items():
            assert service.download(file_id) == data
