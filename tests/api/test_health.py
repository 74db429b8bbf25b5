"""Whether it lives, is ready, and is well."""
import re


def test_health_is_as_existing_clients_know_it(service):
    reply = service.get("/health")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "application/json"
    health = reply.json()
    assert health["status"] == "ok"
    assert health["message"] is None
    assert health["version"] == "0.4.4"
    assert re.match(r"\d+\.\d+", health["hotcell_version"])


def test_it_lives_and_is_ready(service):
    assert service.get("/livez").status == 200
    assert service.get("/readyz").status == 200


def test_head_is_get_without_a_body(service):
    reply = service.request("HEAD", "/health")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["Content-Length"]) > 0


def test_what_there_is_not_is_not_found(service):
    reply = service.get("/v1/nothing")
    assert (reply.status, reply.json()) == (404, {"detail": "Not Found", "code": "not_found"})


def test_another_method_is_told_with_those_that_there_are(service):
    reply = service.delete("/v1/execute")
    assert (reply.status, reply.json()["detail"]) == (405, "Method Not Allowed")
    assert reply.headers["Allow"] == "POST"


def test_the_unix_socket_serves_as_well(service):
    assert service.local.get("/health").json()["status"] == "ok"
    assert service.local.execute("print('here')")["stdout"] == "here\n"


def test_a_list_of_processes_names_it(service):
    for pid in (service.process.pid, service.daemon_pid()):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            program, command = file.read().split(b"\0")[:2]
        assert (program.rpartition(b"/")[2], command) == (b"hotcell", b"serve")
