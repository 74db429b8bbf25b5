"""Keys: who may come in, what each may do, and that nobody sees what is another's."""
import uuid

import pytest

import conftest
import harness

SERVICE = {"allow_process": True, "allow_host_network": True, "running_max": 4}


@pytest.fixture(scope="module")
def client(service, keys):
    """client("name", "--runs-per-minute", "5"): a client with a new key."""
    def make(name, *options):
        return harness.Client(service.port, key=keys.add(name, *options))

    make("first")  # from now on everybody needs one
    return make


def test_without_keys_everybody_on_this_machine_may_come_in():
    with harness.Running() as service:
        assert service.execute("print(1)")["stdout"] == "1\n"
        # A key that nobody knows does no harm there: clients often have one set.
        other = harness.Client(service.port, key="sk-whatever")
        assert other.execute("print(1)")["stdout"] == "1\n"


def test_to_revoke_the_last_key_lets_nobody_in():
    with harness.Running() as service:
        keys = conftest.Keys(service)
        fired = harness.Client(service.port, key=keys.add("z"))
        assert fired.get("/v1/files").status == 200
        keys.revoke("z")
        for _ in range(2):
            for client in (fired, service):
                assert client.get("/v1/files").status == 401
                assert client.post("/v1/execute", {"code": "1"}).status == 401
            assert service.local.get("/v1/files").status == 200
            service.stop()
            service.start()
        service.stop()
        service.options["no_auth"] = True
        service.start()
        assert service.get("/v1/files").status == 200
        assert fired.get("/v1/files").status == 401


@pytest.mark.parametrize("headers", [
    {}, {"Authorization": "Bearer "}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"},
    {"X-API-Key": "wrong"}, {"X-API-Key": ""}, {"Authorization": "Bearer hc_" + "A" * 43},
    {"Authorization": "Bearer hc_" + "A" * 5000}, {"Authorization": "Bearer hc_' OR 1=1 --"}])
def test_without_a_good_key_it_is_401(service, client, headers):
    for method, path in (("POST", "/v1/execute"), ("GET", "/v1/files"), ("GET", "/v1/runs"), ("GET", "/metrics"),
                         ("POST", "/v1/execute/stream"), ("GET", f"/v1/files/{uuid.uuid4()}")):
        reply = service.request(method, path, b'{"code":"1"}' if method == "POST" else None, headers=headers)
        assert reply.status == 401, (method, path, reply)
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert set(reply.json()) == {"detail", "code"}


def test_health_needs_none(service, client):
    for path in ("/health", "/livez", "/readyz"):
        assert service.get(path).status == 200


def test_the_local_user_needs_none_on_the_socket(service, client):
    assert service.local.execute("print(1)")["stdout"] == "1\n"


def test_a_key_counts_on_the_socket_too(service, client, keys):
    local = harness.Client(None, service.socket_path, key=keys.add("on-the-socket"))
    file_id = local.upload("a", b"x")
    assert [file["file_id"] for file in local.get("/v1/files").json()["files"]] == [file_id]
    assert service.local.get(f"/v1/files/{file_id}").status == 404
    keys.revoke("on-the-socket")
    assert local.get("/v1/files").status == 401
    assert service.local.get("/v1/files").status == 200


def test_a_key_may_be_sent_in_two_ways(service, client, keys):
    key = keys.add("two-ways")
    for headers in ({"Authorization": f"Bearer {key}"}, {"authorization": f"bearer   {key}"}, {"X-API-Key": key}):
        assert service.post("/v1/execute", {"code": "print(1)"}, headers=headers).status == 200


def test_two_keys_are_nobodys(service, client, keys):
    """Whose is it? Somebody in between may have looked at the other one."""
    one, two = keys.add("pair-one"), keys.add("pair-two")
    head = "GET /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for both, status in ((f"Authorization: Bearer {one}\r\nX-API-Key: {two}", 400),
                         (f"Authorization: Bearer {one}\r\nX-API-Key: wrong", 400),
                         (f"X-API-Key: {one}\r\nX-API-Key: {two}", 400),
                         (f"Authorization: Bearer {one}\r\nAuthorization: Bearer {one}", 400),
                         (f"Authorization: Bearer {one}\r\nX-API-Key: {one}", 200),
                         (f"Authorization: Basic eDp5\r\nX-API-Key: {one}", 200)):
        answer = service.raw(f"{head}{both}\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (both, answer)


def test_a_body_is_not_read_before_the_key(service, client):
    answer = service.raw(b"POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_nobody_sees_what_is_anothers(client):
    one, two = client("one"), client("two")
    file_id = one.upload("secret", b"secret")
    run = one.execute("open('made', 'w').write('x')\nprint('mine')")
    made = run["files"][0]["file_id"]
    assert two.get("/v1/files").json()["files"] == []
    assert two.get("/v1/runs").json()["runs"] == []
    for path in (f"/v1/files/{file_id}", f"/v1/files/{made}", f"/v1/runs/{run['id']}"):
        assert two.get(path).status == 404
        assert two.delete(path).status == 404
        assert one.get(path).status == 200
    assert two.get(f"/v1/runs/{run['id']}/stream").status == 404
    reply = two.post("/v1/execute", {"code": "1", "files": [{"path": "a", "file_id": file_id}]})
    assert reply.status == 404
    assert reply.detail() == f"File with ID '{file_id}' not found for path 'a'."
    assert one.download(file_id) == b"secret"


def test_a_run_of_another_cannot_be_cancelled(service, client):
    one, two = client("runs-one"), client("runs-two")
    call = harness.Background(lambda: one.execute("import time\ntime.sleep(1)\nprint('done')"))
    harness.wait_until(lambda: one.get("/v1/runs").json()["runs"], "it runs")
    run_id = one.get("/v1/runs").json()["runs"][0]["id"]
    assert two.delete(f"/v1/runs/{run_id}").status == 404
    assert call.result()["stdout"] == "done\n"


def test_the_cache_is_not_shared(client):
    one, two = client("cache-one"), client("cache-two")
    code = "import uuid\nprint(uuid.uuid4())"
    first = one.execute(code, cache=True)
    assert one.execute(code, cache=True)["cached"] is True
    other = two.execute(code, cache=True)
    assert other["cached"] is False and other["stdout"] != first["stdout"]


def test_runs_a_minute(client):
    limited = client("limited", "--runs-per-minute", "3")
    for _ in range(3):
        assert limited.execute("print(1)")["exit_code"] == 0
    for path in ("/v1/execute", "/v1/execute/stream"):
        reply = limited.post(path, {"code": "1"})
        assert reply.status == 429 and 1 <= int(reply.headers["Retry-After"]) <= 61
    # Other things are not runs.
    assert limited.get("/v1/files").status == 200


def test_sessions_at_one_time(client):
    few = client("few", "--max-sessions", "1")
    opened = few.post("/v1/sessions", {"ttl_seconds": 60}).json()["session_id"]
    reply = few.post("/v1/sessions", {})
    assert reply.status == 429 and reply.json()["code"] == "too_many", reply
    assert 1 <= int(reply.headers["Retry-After"]) <= 60
    assert few.delete(f"/v1/sessions/{opened}").status == 204
    assert few.post("/v1/sessions", {}).status == 201


def test_stored_bytes(client):
    small = client("small", "--max-bytes", "10k")
    first = small.upload("a", b"x" * 6000)
    reply = small.upload_reply("b", b"x" * 6000)
    assert reply.status == 413 and reply.json()["code"] == "quota"
    run = small.execute("open('big', 'w').write('x' * 9000)\nopen('little', 'w').write('x')\nNone")
    files = {file["path"]: file for file in run["files"]}
    assert files["big"]["file_id"] is None and files["big"]["error"]
    assert small.download(files["little"]["file_id"]) == b"x"
    assert small.delete(f"/v1/files/{first}").status == 204
    assert small.upload_reply("b", b"x" * 6000).status == 201


def test_uploads_at_one_time_do_not_pass_the_quota_together(client):
    small = client("small-too", "--max-bytes", "10k")
    harness.at_once(*[lambda: small.upload_reply("a", b"x" * 4000)] * 10)
    stored = sum(file["size_bytes"] for file in small.get("/v1/files").json()["files"])
    assert stored <= 10240, stored


def test_languages(client):
    bound = client("bound", "--languages", "python,lua")
    assert bound.execute("print(1)")["exit_code"] == 0
    assert bound.execute("print(1)", language="lua")["exit_code"] == 0
    for language in ("bash", "sh", "js"):
        reply = bound.post("/v1/execute", {"code": "1", "language": language})
        assert reply.status == 403, reply


@pytest.mark.skipif(not harness.HAS_KVM, reason="there are no vm cells here")
def test_the_weakest_isolation(client):
    strict = client("strict", "--max-isolation", "vm")
    assert strict.execute("print(1)")["isolation"] == "vm"
    assert strict.execute("print(1)", isolation="vm")["isolation"] == "vm"
    for isolation in ("container", "process"):
        assert strict.post("/v1/execute", {"code": "1", "isolation": isolation}).status == 403
    # What has no vm cells is refused rather than run in something weaker.
    reply = strict.post("/v1/execute", {"code": "echo $0", "language": "bash"})
    assert reply.status != 200 or reply.json()["isolation"] == "vm"
    usual = client("usual")
    assert usual.execute("print(1)", isolation="container")["isolation"] == "container"
    assert usual.post("/v1/execute", {"code": "1", "isolation": "process"}).status == 403
    lax = client("lax", "--max-isolation", "process")
    run = lax.execute("6 * 7", isolation="process")
    assert (run["isolation"], run["stdout"], run["stderr"]) == ("process", "42\n", "")


def test_the_network(service, client):
    code = f"import socket\nsocket.create_connection(('127.0.0.1', {service.port}), 5)\nprint('through')"
    assert client("cut-off").post("/v1/execute", {"code": code, "network": "host"}).status == 403
    run = client("online", "--network", "host").execute(code, network="host", isolation="container")
    assert run["stdout"] == "through\n", run


def test_only_an_admin_registers_languages(client):
    reply = client("no-admin").post("/v1/languages", {"id": "x"})
    assert reply.status == 403 and "admin" in reply.detail()
    assert client("no-admin-2").delete("/v1/languages/python").status == 403
    assert client("admin", "--admin").delete("/v1/languages/no-such").status in (404, 422)


def test_a_revoked_key_is_out_at_once(client, keys):
    fired = client("fired")
    file_id = fired.upload("a", b"x")
    assert fired.execute("print(1)")["exit_code"] == 0
    keys.revoke("fired")
    assert fired.post("/v1/execute", {"code": "1"}).status == 401
    assert fired.get(f"/v1/files/{file_id}").status == 401


def test_no_key_is_in_the_log_or_the_state_directory(service, client, keys):
    key = keys.add("hidden")
    harness.Client(service.port, key=key).execute("print(1)")
    assert key not in service.log()
    for path in service.state_dir.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path


class TestAddresses:
    """One that other machines can reach is not served without keys."""

    def test_without_a_key_it_does_not_start(self):
        running = harness.Running(host="0.0.0.0", ready=False)
        with running as service:
            assert service.wait() == 125
            assert "hotcell keys add" in service.log() and "--no-auth" in service.log()
            service.process.returncode = 0  # as it should be

    def test_with_no_auth_it_does(self):
        with harness.Running(host="0.0.0.0", no_auth=True) as service:
            assert service.execute("print(1)")["stdout"] == "1\n"

    def test_with_a_key_it_does_and_wants_it(self):
        with harness.Running(host="127.0.0.1") as service:
            key = conftest.Keys(service).add("only")
            service.stop()
            service.options["host"] = "0.0.0.0"
            service.start()
            assert service.post("/v1/execute", {"code": "1"}).status == 401
            assert harness.Client(service.port, key=key).execute("print(1)")["stdout"] == "1\n"
            # Any Host will do there: a key is what counts.
            reply = harness.Client(service.port, key=key).get("/v1/files", headers={"Host": "any.example"})
            assert reply.status == 200
