"""Languages: those that there are, and those that are registered while the service runs."""
import json

import pytest

import harness

CALC = {
    "id": "calc", "name": "Calculator", "file": "main.calc", "find": [{"program": "/bin/sh"}],
    "version": ["/bin/sh", "-c", "echo 1.0"], "run": ["/bin/sh", "-c", "echo $(($(cat {file})))"],
}


def listed(service):
    return {row["id"]: row for row in service.get("/v1/languages").json()["languages"]}


def test_all_are_listed_with_what_they_can(service):
    # Versions are asked for when all else is warm.
    harness.wait_until(lambda: listed(service)["python"]["version"], "its version is known")
    rows = listed(service)
    assert {"python", "javascript", "bash", "c", "lua"} <= set(rows)
    python = rows["python"]
    assert python["installed"] is True and python["warm"] is True and python["registered"] is False
    assert python["version"].startswith("Python 3")
    assert "container" in python["isolation"] and "process" not in python["isolation"]
    assert ("vm" in python["isolation"]) == harness.HAS_KVM
    assert rows["c"]["compiles"] is True and rows["lua"]["warm"] is False


def test_one_is_registered_used_and_removed(service):
    reply = service.post("/v1/languages", CALC)
    assert reply.status == 201, reply
    assert (reply.json()["id"], reply.json()["registered"], reply.json()["installed"]) == ("calc", True, True)
    assert reply.json()["version"] == "1.0"
    assert service.execute("6 * 7", language="calc")["stdout"] == "42\n"
    assert listed(service)["calc"]["registered"] is True
    # Once more replaces it.
    changed = {**CALC, "run": ["/bin/sh", "-c", "echo changed"]}
    reply = service.post("/v1/languages", changed)
    assert reply.status in (200, 201, 409), reply
    reply = service.delete("/v1/languages/calc")
    assert reply.status == 204
    assert service.post("/v1/execute", {"code": "1", "language": "calc"}).status == 400
    assert "calc" not in listed(service)
    assert service.delete("/v1/languages/calc").status == 404


@pytest.mark.parametrize("definition, said", [
    ({**CALC, "id": "A B"}, "id: want "),
    ({"yaml": "id: calc\nname: 5\nbogus: 1\n"}, "line 3: bogus"),
    ({**CALC, "version": ["/bin/false"]}, "'version' command"),
    ({**CALC, "find": [{"program": "/nothing"}]}, "'find'"),
])
def test_what_is_wrong_with_one_is_told(service, definition, said):
    reply = service.post("/v1/languages", definition)
    assert reply.status == 422 and said in reply.detail(), reply
    assert not reply.detail()[0].isdigit(), reply


def test_a_name_that_is_no_text_is_told(service):
    for field in ("id", "name"):
        reply = service.post("/v1/languages", {"id": "five", "name": "Five", "extensions": ["five"], field: 5})
        assert (reply.status, reply.detail()) == (422, "Input should be a valid string"), reply


@pytest.mark.parametrize("yaml, kind", [(5, "string_type"), (["id: calc"], "string_type"), ("id: calc\0", "value_error")])
def test_a_file_that_is_no_text_is_told(service, yaml, kind):
    reply = service.post("/v1/languages", {"yaml": yaml})
    assert reply.status == 422, reply
    error, = reply.json()["detail"]
    assert (error["loc"], error["type"]) == (["body", "yaml"], kind)


def test_it_is_there_after_a_restart():
    with harness.Running() as service:
        assert service.post("/v1/languages", CALC).status == 201
        service.stop()
        service.start()
        assert service.execute("1 + 1", language="calc")["stdout"] == "2\n"


@pytest.mark.parametrize("language_id", ["python", "javascript", "sh"])
def test_a_shipped_one_cannot_be_replaced_or_removed(service, language_id):
    reply = service.post("/v1/languages", {**CALC, "id": language_id})
    assert reply.status in (403, 409, 422) and language_id in reply.detail(), reply
    reply = service.delete(f"/v1/languages/{language_id}")
    assert reply.status in (403, 404, 409, 422), reply
    assert listed(service)[language_id]["registered"] is False


def test_an_alias_of_a_shipped_one_cannot_be_taken(service):
    reply = service.post("/v1/languages", {**CALC, "aliases": ["py", "js"]})
    if reply.status == 201:
        service.delete("/v1/languages/calc")
    assert reply.status != 201 or listed(service)["python"]["aliases"], reply
    assert service.execute("print(1)", language="python")["stdout"] == "1\n"


@pytest.mark.parametrize("change", [
    {"id": "../evil"}, {"id": ""}, {"id": "a b"}, {"id": 5}, {"id": None}, {"id": "x" * 500}, {"run": None}, {"run": "sh"},
    {"run": []}, {"version": 5}, {"unknown_key": 1}, {"file": "../../etc/cron.d/x"}, {"file": "/abs"}, {"find": "x"},
    {"find": [{"program": "/no/such/program"}]}, {"version": ["/bin/sh", "-c", "exit 1"]}, {"name": "a\nb: c"},
    {"id": "a\nrun: [evil]"}, {"name": {"a": "b"}},
], ids=lambda change: json.dumps(change)[:40])
def test_one_that_is_wrong_is_refused_with_the_reason(service, change):
    reply = service.post("/v1/languages", {**CALC, "id": "wrong", **change})
    if reply.status == 201:
        # What is odd but harmless may be taken; it must not have become something else.
        row = reply.json()
        assert row["id"] in ("wrong", "5", "null") and "evil" not in json.dumps(row), row  # JSON is YAML
        assert service.delete(f"/v1/languages/{row['id']}").status == 204
    else:
        assert reply.status in (400, 422) and reply.detail(), reply
    assert service.execute("print(1)")["stdout"] == "1\n"
    assert "wrong" not in listed(service)


def test_two_at_one_time_are_both_there_or_told_to_wait(service):
    replies = harness.at_once(*[lambda i=i: service.post("/v1/languages", {**CALC, "id": f"calc{i}", "file": f"m.c{i}"})
                                for i in range(4)])
    assert {reply.status for reply in replies} <= {201, 409}
    assert 201 in {reply.status for reply in replies}
    for i, reply in enumerate(replies):
        assert (f"calc{i}" in listed(service)) == (reply.status == 201)
        if reply.status == 201:
            harness.wait_until(lambda: service.delete(f"/v1/languages/calc{i}").status == 204, "it is removed")
