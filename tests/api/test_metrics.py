"""Counters, for Prometheus."""
import re

import harness

SERVICE = {"warm": "python"}
ISOLATION = "vm" if harness.HAS_KVM else "container"


def parse(text):
    """As the format's description has it: every sample behind the HELP and TYPE of its family."""
    types, samples = {}, {}
    for line in text.splitlines():
        match = re.fullmatch(r"# TYPE (\w+) (counter|gauge|histogram)", line)
        if match:
            assert match[1] not in types, line
            types[match[1]] = match[2]
            continue
        if line.startswith("# HELP "):
            continue
        match = re.fullmatch(r'(\w+)(\{(?:\w+="[^"\\\n]*",?)*\})? (-?[\d.]+(?:e[+-]?\d+)?)', line)
        assert match, line
        family = re.sub(r"_(bucket|sum|count)$", "", match[1])
        assert match[1] in types or types.get(family) == "histogram", line
        key = match[1] + (match[2] or "")
        assert key not in samples, f"{key} comes twice"
        samples[key] = float(match[3])
    return types, samples


def test_the_text_is_well_formed(service):
    service.execute("print(1)")
    reply = service.get("/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert reply.body.endswith(b"\n")
    types, samples = parse(reply.body.decode())
    assert types["hotcell_runs_total"] == "counter"
    assert types["hotcell_run_seconds"] == "histogram"
    assert types["hotcell_pool_cells"] == "gauge"
    assert samples["hotcell_memory_bytes"] > 1 << 20


def test_runs_are_counted_by_language_isolation_and_reason(service):
    def count(reason):
        return service.metrics().get(
            f'hotcell_runs_total{{language="python",isolation="{ISOLATION}",reason="{reason}"}}', 0)

    before = {reason: count(reason) for reason in ("exited", "timeout", "signaled")}
    service.execute("print(1)")
    service.execute("import sys; sys.exit(1)")
    service.execute("while True: pass", timeout_ms=100)
    service.execute("import os; os.kill(os.getpid(), 9)")
    assert {reason: count(reason) - before[reason] for reason in before} == \
        {"exited": 2, "timeout": 1, "signaled": 1}


def test_cells_are_counted_by_isolation(service):
    def cells():
        return service.metrics()['hotcell_cells{isolation="container"}']

    before = cells()
    session = service.post("/v1/sessions", {"isolation": "container"}).json()["session_id"]
    harness.wait_until(lambda: cells() > before, "the session's cell is counted")
    service.delete(f"/v1/sessions/{session}")
    harness.wait_until(lambda: cells() <= before, "it is gone")
    assert service.metrics()['hotcell_cells{isolation="process"}'] == 0


def test_a_histogram_only_rises_and_ends_with_its_count(service):
    service.execute("print(1)")
    samples = service.metrics()
    for name in (f'hotcell_run_seconds_bucket{{language="python",isolation="{ISOLATION}",',
                 "hotcell_queue_seconds_bucket{"):
        buckets = [value for key, value in samples.items() if key.startswith(name)]
        assert len(buckets) > 5 and buckets == sorted(buckets)
        assert buckets[-1] == samples[name.replace("_bucket", "_count").rstrip("{,") + ("}" if "," in name else "")]


def test_warm_and_cold_cached_and_failed_are_told_apart(service):
    before = service.metrics()
    service.execute("print(1)")
    service.execute("echo 1", language="sh")
    for _ in range(2):
        service.execute("print(2)", cache=True)
    assert service.post("/v1/execute", {"code": "1", "profile": "no-such"}).status == 404
    after = service.metrics()
    moved = {name: after[f"hotcell_runs_{name}_total"] - before[f"hotcell_runs_{name}_total"]
             for name in ("warm", "cold", "cached", "failed")}
    assert moved == {"warm": 2, "cold": 1, "cached": 1, "failed": 1}


def test_pools_show_what_waits(service):
    names = [name for name in service.metrics() if name.startswith("hotcell_pool_cells")]
    assert any('language="python"' in name and 'state="idle"' in name for name in names)


def test_requests_are_counted(service):
    before = service.metrics()["hotcell_http_requests_total"]
    for _ in range(3):
        service.get("/livez")
    assert service.metrics()["hotcell_http_requests_total"] == before + 4


def test_samples_come_in_order(service):
    """Also between looks: else the rows of `hotcell top` would jump."""
    for language in ("sh", "perl", "javascript", "python"):
        code = "1" if language == "python" else ""
        service.execute(code, language=language, isolation="container")
        service.execute(code, language=language)

    def labels(text, family, *names):
        found = re.findall(rf"^{family}\{{(.*)\}} ", text, re.M)
        return [tuple(re.search(rf'{name}="(.*?)"', one)[1] for name in names) for one in found]

    for _ in range(5):
        text = service.get("/metrics").body.decode()
        pools = labels(text, "hotcell_pool_cells", "language", "profile", "isolation", "state")
        runs = labels(text, "hotcell_runs_total", "language", "isolation", "reason")
        times = labels(text, "hotcell_run_seconds_count", "language", "isolation")
        for found, least in ((pools, 8), (runs, 4), (times, 4)):
            assert len(found) >= least and found == sorted(found)
