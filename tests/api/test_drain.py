"""Ending: what goes on is finished, what is new is refused; and reading its settings again."""
import http.client
import os
import signal
import time

import pytest

import harness

SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep({})\nopen('f', 'w').write('made')\nprint('ended')"


def drain(service):
    service.note()
    service.signal(signal.SIGTERM)
    harness.wait_until(lambda: "daemon.draining" in service.log(), "it drains")


def run_in_background(service, seconds, path="/v1/execute", timeout_ms=50000):
    before = service.metrics()["hotcell_runs_running"]
    call = harness.Background(lambda: service.post(path, {"code": SLEEP.format(seconds), "timeout_ms": timeout_ms}))
    harness.wait_until(lambda: service.metrics()["hotcell_runs_running"] > before, "it runs")
    return call


def test_an_idle_service_ends_at_once():
    with harness.Running() as service:
        pass  # Running looks at its exit status, and at what is left


@pytest.mark.parametrize("path", ["/v1/execute", "/v1/execute/stream"])
def test_what_goes_on_is_finished(path):
    with harness.Running() as service:
        call = run_in_background(service, 2, path)
        drain(service)
        reply = call.result()
        assert reply.status == 200 and b"ended" in reply.body
        service.stop()
        # What it left was stored.
        service.start()
        newest = service.get("/v1/files").json()["files"][-1]
        assert service.download(newest["file_id"]) == b"made"


def test_new_runs_are_refused_meanwhile_and_it_is_not_ready():
    with harness.Running() as service:
        call = run_in_background(service, 3)
        file_id = service.upload("a", b"kept")
        drain(service)
        reply = service.post("/v1/execute", {"code": "1"})
        assert reply.status == 503 and reply.headers["Retry-After"]
        reply = service.get("/readyz")
        assert reply.status == 503 and "end" in reply.json()["message"]
        assert service.get("/livez").status == 200
        assert service.download(file_id) == b"kept"
        assert call.result().json()["stdout"] == "begun\nended\n"


def test_who_waits_for_a_place_is_served_too():
    with harness.Running(running_max=1) as service:
        calls = [run_in_background(service, 1)]
        calls.append(harness.Background(lambda: service.execute("print(2)")))
        harness.wait_until(lambda: service.metrics()["hotcell_runs_queued"] == 1, "one waits")
        drain(service)
        assert calls[0].result().status == 200
        assert calls[1].result()["stdout"] == "2\n"


def test_what_takes_too_long_is_broken_off_with_an_answer():
    """Whoever waits for it is told, and it stands in the log and in the history."""
    slow = {"code": SLEEP.format(40), "timeout_ms": 50000}
    with harness.Running(drain_s=1, running_max=5) as service:
        session = service.post("/v1/sessions", {}).json()["session_id"]
        runs = [{"code": "print('quick')"}, slow]
        calls = [harness.Background(lambda path=path, body=body: service.post(path, body)) for path, body in (
            ("/v1/execute", slow), (f"/v1/sessions/{session}/execute", slow), ("/v1/execute/stream", slow),
            ("/v1/batch", {"runs": runs}))]
        lines = harness.Background(lambda: service.post("/v1/batch", {"runs": runs, "stream": True}))
        harness.wait_until(lambda: service.metrics()["hotcell_runs_running"] == 5 and
                           service.log().count("run.ended") == 2, "all of them run")
        waiting = harness.Background(lambda: service.post("/v1/execute", slow))
        harness.wait_until(lambda: service.metrics()["hotcell_runs_queued"] == 1, "one waits")
        drain(service)
        plain, kept, stream, batch = (call.result() for call in calls)
        for reply in (plain, kept):
            assert (reply.status, reply.json()["reason"], reply.json()["stdout"]) == (200, "cancelled", "begun\n")
        assert b"event: result" in stream.body and b'"cancelled"' in stream.body, stream
        assert [run["reason"] for run in batch.json()["results"]] == ["exited", "cancelled"]
        assert lines.result().body.count(b'"cancelled"') == 1
        assert waiting.result().status == 503 and "cancelled" in waiting.result().detail()
        service.stop()
        assert service.log().count("run.ended") == 8
        assert service.log().count("reason=cancelled") == 5
        service.start()
        history = service.get("/v1/runs?limit=100").json()["runs"]
        assert [run.get("reason") for run in history].count("cancelled") == 5 and len(history) == 8


def test_a_second_signal_insists():
    with harness.Running() as service:
        call = run_in_background(service, 40)
        drain(service)
        time.sleep(1)  # what comes at once behind the first is the same wish: a terminal sends it to all
        service.signal(signal.SIGTERM)
        code = service.wait()
        assert code != 0
        with pytest.raises((OSError, http.client.HTTPException)):
            call.result()
        service.check_log()
        service.check_nothing_left()
        service.start()
        assert service.execute("print(1)")["stdout"] == "1\n"


def test_an_interrupt_ends_it_as_well():
    with harness.Running() as service:
        service.note()
        service.signal(signal.SIGINT)
        assert service.wait() == 0
        service.check_nothing_left()




def test_sighup_reads_languages_and_settings_again():
    def prepare(service):
        (service.directory / "languages").mkdir()
        service.config_file = service.directory / "config.yaml"
        service.config_file.write_text("timeout_max_ms: 5s\n")
        service.options.update(language_dirs=service.directory / "languages", config=service.config_file)

    with harness.Running(prepare=prepare) as service:
        assert service.post("/v1/execute", {"code": "1", "language": "shout"}).status == 400
        assert service.post("/v1/execute", {"code": "1", "timeout_ms": 6000}).status == 422
        call = run_in_background(service, 2, timeout_ms=5000)
        source = (harness.ROOT / "languages" / "sh.yaml").read_text()
        (service.directory / "languages" / "shout.yaml").write_text(
            "\n".join("id: shout" if line.startswith("id:") else line for line in source.splitlines()
                      if not line.startswith(("aliases:", "extensions:"))) + "\n")
        service.config_file.write_text("timeout_max_ms: 7s\nconnections_max: 77\nuser: somebody\n")
        service.signal(signal.SIGHUP)
        harness.wait_until(lambda: service.post("/v1/execute", {"code": "1", "timeout_ms": 6000}).status == 200,
                           "the new setting holds")
        harness.wait_until(lambda: service.post("/v1/execute", {"code": "echo 1", "language": "shout"}).status == 200,
                           f"the new language is there:\n{service.log()}", 20)
        assert service.execute("echo new", language="shout")["stdout"] == "new\n"
        # What holds from the next start on only is named.
        assert "config.later settings=user,connections_max " in service.log()
        # What went on was left alone.
        assert call.result().json()["stdout"] == "begun\nended\n"
        # And again, with a mistake: the old settings stay.
        service.config_file.write_text("timeout_max_ms: nonsense\n")
        before = len(service.log())
        service.signal(signal.SIGHUP)
        harness.wait_until(lambda: "nonsense" in service.log()[before:], "it complains", 20)
        assert service.post("/v1/execute", {"code": "1", "timeout_ms": 6000}).status == 200


def test_settings_that_were_read_again_hold_for_wardens_and_for_the_next_daemon():
    def prepare(service):
        service.config_file = service.directory / "config.yaml"
        service.config_file.write_text("allow_process: no\n")
        service.options.update(config=service.config_file)

    def runs():
        reply = service.post("/v1/execute", {"code": "echo 1", "language": "sh", "isolation": "process"})
        return reply.status == 200 and reply.json()["stdout"] == "1\n"

    with harness.Running(prepare=prepare) as service:
        assert not runs()
        service.config_file.write_text("allow_process: yes\n")
        service.signal(signal.SIGHUP)
        harness.wait_until(runs, "it is allowed", 20)
        os.kill(service.daemon_pid(), signal.SIGKILL)
        service.wait_ready()
        assert runs()


def test_many_sighups_under_load_lose_no_run():
    with harness.Running() as service:
        def work():
            return [service.execute("print(1)", timeout_ms=20000)["stdout"] for _ in range(15)]

        calls = [harness.Background(work) for _ in range(3)]
        for _ in range(5):
            service.signal(signal.SIGHUP)
            time.sleep(.4)
        assert [call.result() for call in calls] == [["1\n"] * 15] * 3
        harness.wait_until(service.is_ready, "it is ready")
