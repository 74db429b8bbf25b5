"""A program that is asked before each run."""
import json
import os
import signal

import pytest

import harness
from sessions import Session

CHECK = r"""#!/usr/bin/python3 -I
import json, os, sys, time
line = sys.stdin.readline()
request = json.loads(line)
code = request.pop("code") or ""
with open(os.path.join(os.path.dirname(__file__), "state", "seen"), "w") as file:
    json.dump(request, file)
if "hang" in code: time.sleep(1000)
if "refuse" in code: print("I do not like that\nsecond line"); sys.exit(1)
if "silent" in code: sys.exit(2)
if "crash" in code: os.kill(os.getpid(), 11)
if "much" in code: print("x" * 1000000); sys.exit(1)
if "broken" in code: sys.stdout.buffer.write(b"\xff\x00\xfe\n"); sys.exit(1)
if "behind" in code:
    if os.fork() == 0: time.sleep(3); os._exit(0)
"""

LINGERS = r"""#!/usr/bin/python3 -I
import os, time
with open(os.path.join(os.path.dirname(__file__), "state", "pid"), "w") as file:
    print(os.getpid(), file=file)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def service():
    def prepare(service):
        (service.directory / "check").write_text(CHECK)
        (service.directory / "check").chmod(0o755)
        service.options["check"] = service.directory / "check"

    with harness.Running(prepare=prepare, check_timeout_ms=4000, queue_max=100) as running:
        yield running


def refused(service, code, path="/v1/execute"):
    reply = service.post(path, {"code": code})
    assert reply.status == 403, reply
    return reply.detail()


def test_what_it_allows_is_run(service):
    assert service.execute("print('fine')")["stdout"] == "fine\n"


def test_it_sees_the_request(service):
    run = service.execute("print(1)", user="me", timeout_ms=1234)
    seen = json.loads((service.state_dir / "seen").read_text())
    assert (seen["id"], seen["user"], seen["language"]) == (run["id"], "me", "python")
    assert (seen["timeout_ms"], seen["network"], seen["owner"]) == (1234, "none", "local")


def test_it_sees_all_that_may_be_run(service):
    service.post("/v1/execute", {
        "entry_point": "a.sh", "language": "bash", "isolation": "container", "args": ["1", "2"], "env": {"A": "b=c"},
        "stdin": "in", "files": [{"path": "a.sh", "content": "echo hi"}, {"path": "b", "content_base64": "/w=="}]})
    seen = json.loads((service.state_dir / "seen").read_text())
    assert (seen["entry_point"], seen["isolation"], seen["stdin"]) == ("a.sh", "container", "in")
    assert (seen["args"], seen["env"]) == (["1", "2"], {"A": "b=c"})
    assert seen["files"] == [{"path": "a.sh", "content": "echo hi"}, {"path": "b", "content_base64": "/w=="}]


def test_it_sees_the_limits_that_hold(service):
    def seen():
        return json.loads((service.state_dir / "seen").read_text())["limits"]

    service.execute("print(1)")
    usual = seen()
    assert {name: usual[name] for name in ("memory_bytes", "processes", "output_bytes", "cpus")} == {
        "memory_bytes": 256 << 20, "processes": 64, "output_bytes": 64 << 20, "cpus": None}
    assert usual["cpu_ms"] > 0 and usual["disk_bytes"] > 0
    asked = {"cpu_ms": 1500, "memory_bytes": 100 << 20, "processes": 7, "disk_bytes": 1 << 20, "output_bytes": 5000,
             "cpus": 0.5}
    service.post("/v1/execute", {"code": "print(1)", "limits": asked})
    assert seen() == asked
    with Session(service, limits={"processes": 9}) as session:
        session.execute("print(1)", limits={"cpu_ms": 1500})
        assert seen() == {**usual, "processes": 9, "cpu_ms": 1500}


def test_it_dies_with_the_service():
    def prepare(service):
        (service.directory / "check").write_text(LINGERS)
        (service.directory / "check").chmod(0o755)
        service.options["check"] = service.directory / "check"

    with harness.Running(prepare=prepare, check_timeout_ms=60000) as other:
        asking = harness.Background(lambda: other.post("/v1/execute", {"code": "1"}))
        note = other.state_dir / "pid"
        harness.wait_until(lambda: note.exists() and note.read_text().endswith("\n"), "it is asked")
        pid = int(note.read_text())
        start = harness.stat_of(pid)[2]
        os.kill(other.daemon_pid(), signal.SIGKILL)
        harness.wait_until(lambda: not harness.is_alive(pid, start), "it has ended")
        with pytest.raises((OSError, harness.http.client.HTTPException)):
            asking.result()
        other.wait_ready()


def test_it_refuses_with_its_reason(service):
    assert refused(service, "refuse") == "refused: I do not like that"
    assert refused(service, "refuse", "/v1/execute/stream") == "refused: I do not like that"


def test_no_reason_is_no_leave(service):
    before = len(service.log())
    assert "gave no reason" in refused(service, "silent")
    assert "check." not in service.log()[before:]
    assert "gave no reason" in refused(service, "crash")
    newest = service.get("/v1/runs?limit=1").json()["runs"][0]["id"]
    assert f"check.crashed id={newest} signal=11" in service.log()[before:]


def test_one_that_hangs_refuses(service):
    before = len(service.log())
    assert "took too long" in refused(service, "hang")
    newest = service.get("/v1/runs?limit=1").json()["runs"][0]["id"]
    assert f"check.late id={newest}" in service.log()[before:]


def test_whatever_it_says_does_no_harm(service):
    assert len(refused(service, "much")) < 1000
    assert refused(service, "broken").startswith("refused")


def test_what_it_leaves_running_holds_nothing_up_for_long(service):
    reply = service.post("/v1/execute", {"code": "print('behind')"})
    assert reply.status in (200, 403), reply


def test_large_code_reaches_it(service):
    assert service.execute("print('a')" + " " * 2000000, timeout_ms=20000)["stdout"] == "a\n"


def test_a_client_that_goes_away_meanwhile_ends_the_run(service):
    sock = service.connect()
    body = json.dumps({"code": "hang"}).encode()
    sock.sendall(b"POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    harness.wait_until(lambda: service.get("/v1/runs?limit=1").json()["runs"][0]["state"] == "checking", "it is checked")
    sock.close()
    harness.wait_until(lambda: service.get("/v1/runs?limit=1").json()["runs"][0]["state"] == "done", "it is done")
    assert service.execute("print(1)")["stdout"] == "1\n"


def test_many_at_once(service):
    codes = ["print(1)", "refuse", "silent"] * 8
    replies = harness.at_once(*[lambda code=code: service.post("/v1/execute", {"code": code}) for code in codes])
    assert [reply.status for reply in replies] == [200, 403, 403] * 8


def test_one_that_goes_away_refuses_everything():
    def prepare(service):
        (service.directory / "check").write_text(CHECK)
        (service.directory / "check").chmod(0o755)
        service.options["check"] = service.directory / "check"

    with harness.Running(prepare=prepare) as service:
        (service.directory / "check").unlink()
        assert "could not be started" in refused(service, "print(1)")
        assert service.get("/health").status == 200


def test_after_a_reload_a_missing_one_leaves_the_settings_of_before():
    def prepare(service):
        service.options["config"] = service.directory / "config.yaml"
        service.options["config"].write_text("check: ''\n")

    with harness.Running(prepare=prepare) as service:
        service.options["config"].write_text("check: /nonexistent/check\n")
        service.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: "config.wrong" in service.log(), "it is told")
        assert "/nonexistent/check" in service.log()
        assert service.execute("print(1)")["stdout"] == "1\n"


def test_the_service_can_end_while_it_is_asked(service):
    with harness.Running(prepare=lambda s: (
            (s.directory / "check").write_text(CHECK), (s.directory / "check").chmod(0o755),
            s.options.update(check=s.directory / "check")), check_timeout_ms=60000, drain_s=1) as other:
        waiting = harness.Background(lambda: other.post("/v1/execute", {"code": "hang"}))
        harness.wait_until(lambda: other.get("/v1/runs").json()["runs"], "it is checked")
        other.stop()
        try:
            assert waiting.result().status == 503
        except (OSError, harness.http.client.HTTPException):
            pass  # broken off is as good
