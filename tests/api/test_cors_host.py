"""Browsers: pages of other sites, and names that were made to point here."""
import pytest

import harness

SERVICE = {"cors_origins": "https://good.example,http://also.example:8080", "allowed_hosts": "box.example,named.example:99"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:1", "127.0.0.1:8000", "box.example",
                                  "box.example:8000", "BOX.example:1", "named.example:99"])
def test_a_host_that_is_ours_is_served(service, host):
    assert service.get("/health", headers={"Host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "box.example.evil",
                                  "[::1].evil", "localhostevil", "named.example", "named.example:98", "named.example:999",
                                  "box.example.evil:8000", "", "127.0.0.2x"])
def test_another_host_is_not(service, host):
    for method, path in (("GET", "/health"), ("POST", "/v1/execute"), ("OPTIONS", "/v1/execute"), ("GET", "/docs")):
        reply = service.request(method, path, headers={"Host": host})
        assert reply.status in (400, 421), (host, reply)


def test_the_unix_socket_has_no_such_names(service):
    assert service.local.get("/health", headers={"Host": "whatever"}).status == 200


def test_an_origin_that_is_allowed_is_told_so(service):
    for origin in ("https://good.example", "http://also.example:8080"):
        reply = service.post("/v1/execute", {"code": "print(1)"}, headers={"Origin": origin})
        assert reply.status == 200
        assert reply.headers["Access-Control-Allow-Origin"] == origin
        assert "Origin" in reply.headers["Vary"]
        assert {"X-Run-Id", "Retry-After"} <= set(reply.headers["Access-Control-Expose-Headers"].split(", "))


def test_also_for_errors_and_streams(service):
    headers = {"Origin": "https://good.example"}
    for reply in (service.post("/v1/execute", {}, headers=headers), service.get("/v1/nothing", headers=headers),
                  service.post("/v1/execute/stream", {"code": "print(1)"}, headers=headers)):
        assert reply.headers["Access-Control-Allow-Origin"] == "https://good.example", reply


@pytest.mark.parametrize("origin", ["https://evil.example", "http://good.example", "https://good.example:444",
                                    "https://good.example.evil", "null", "", "https://sub.good.example"])
def test_another_origin_is_refused_and_nothing_is_run(service, origin):
    before = service.metrics()["hotcell_run_seconds_count" + '{language="python",isolation="%s"}' % "vm"] \
        if harness.HAS_KVM else 0
    reply = service.post("/v1/execute", {"code": "print(1)"}, headers={"Origin": origin})
    assert reply.status == 403, reply
    assert reply.headers["Access-Control-Allow-Origin"] is None
    if harness.HAS_KVM:
        assert service.metrics()['hotcell_run_seconds_count{language="python",isolation="vm"}'] == before


def test_our_own_pages_may_use_us(service):
    origin = f"http://127.0.0.1:{service.port}"
    assert service.post("/v1/execute", {"code": "print(1)"}, headers={"Origin": origin}).status == 200


def test_a_preflight_is_answered(service):
    reply = service.request("OPTIONS", "/v1/execute", headers={
        "Origin": "https://good.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,authorization"})
    assert reply.status == 204
    assert reply.headers["Access-Control-Allow-Origin"] == "https://good.example"
    assert "POST" in reply.headers["Access-Control-Allow-Methods"]
    assert {"authorization", "content-type", "x-api-key"} <= \
        {name.strip().lower() for name in reply.headers["Access-Control-Allow-Headers"].split(",")}


def test_a_preflight_of_another_origin_is_refused(service):
    reply = service.request("OPTIONS", "/v1/execute", headers={
        "Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    assert reply.status == 403 and reply.headers["Access-Control-Allow-Origin"] is None
