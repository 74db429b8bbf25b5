"""/openapi.json is a sound OpenAPI 3.1 document, says what the source does, and /docs shows it."""
import json
import re

import description
import harness
import jsonschema
import pytest

SERVICE = {"timeout_max_ms": 7000, "timeout_default_ms": 3000, "batch_max": 17, "cpus_max_milli": 1500,
           "reuse": "never"}

SOURCE = harness.ROOT / "src"


@pytest.fixture(scope="module")
def described(service):
    return description.of(service)


def read_all(*places):
    return "\n".join(path.read_text() for place in places for path in sorted((SOURCE / place).glob("*.c")))


# ---- it agrees with the table of routes ----


def test_it_has_the_routes_of_the_table_and_no_others(described):
    wanted = {(method, pattern.replace("…", "")) for method, pattern, _, _ in description.table()}
    assert {(method, path) for method, path, _ in described.operations()} == wanted


def test_summaries_and_who_may_are_those_of_the_table(described):
    for method, pattern, access, summary in description.table():
        operation = described.document["paths"][pattern.replace("…", "")][method.lower()]
        assert operation["summary"] == summary
        assert (operation.get("security") == []) == (access == "ROUTE_OPEN"), pattern


def test_the_file_of_operations_says_nothing_of_routes_that_are_not_there():
    said = json.loads((SOURCE / "api/openapi/operations.json").read_text())
    assert list(said["operations"]) == [f"{method} {pattern}" for method, pattern, _, _ in description.table()]
    used = set(re.findall(r"\{(\w+)…?\}", " ".join(pattern for _, pattern, _, _ in description.table())))
    assert set(said["params"]) == used


def test_parameters_of_the_path_are_described(described):
    for _, path, operation in described.operations():
        in_path = [one["name"] for one in operation.get("parameters", []) if one["in"] == "path"]
        assert in_path == re.findall(r"\{(\w+)\}", path)


# ---- it is OpenAPI ----

TEXT = {"type": "string", "minLength": 1}


def closed(needed, /, **properties):
    return {"type": "object", "required": needed.split(), "properties": properties, "additionalProperties": False}


def each(schema, names=".+"):
    return {"type": "object", "patternProperties": {f"^{names}$": schema}, "additionalProperties": False}


def either(*schemas):
    return {"oneOf": [closed("$ref", **{"$ref": TEXT}), *schemas]}


SCHEMA = {"type": "object"}  # looked at by itself, below
MEDIA = each(closed("", schema=SCHEMA), r"[a-z]+/[a-z.+-]+")
HEADERS = each(closed("description schema", description=TEXT, schema=SCHEMA))
RESPONSE = closed("description", description=TEXT, headers=HEADERS, content=MEDIA)
PARAMETER = {"oneOf": [
    closed("name in required schema description", name=TEXT, required={"const": True}, schema=SCHEMA,
           description=TEXT, **{"in": {"const": "path"}}),
    closed("name in schema description", name=TEXT, schema=SCHEMA, description=TEXT, **{"in": {"const": "query"}}),
]}
OPERATION = closed(
    "operationId tags summary description responses", operationId={"type": "string", "pattern": "^[a-zA-Z]+$"},
    tags={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 1}, summary=TEXT, description=TEXT,
    parameters={"type": "array", "items": PARAMETER, "minItems": 1},
    requestBody=closed("required content", required={"type": "boolean"}, content={**MEDIA, "minProperties": 1}),
    responses={**each(either(RESPONSE), "[2-5][0-9][0-9]"), "minProperties": 2},
    security={"const": []})
# The part of the specification that is used here. What it does not have, nobody should write by mistake.
OPENAPI = closed(
    "openapi info tags security paths components", openapi={"const": "3.1.0"},
    info=closed("title version summary description license", title=TEXT, version=TEXT, summary=TEXT,
                description=TEXT, license=closed("name identifier", name=TEXT, identifier=TEXT)),
    tags={"type": "array", "items": closed("name description", name=TEXT, description=TEXT)},
    security={"type": "array", "items": each({"const": []})},
    paths=each(each(OPERATION, f"({'|'.join(description.METHODS)})"), r"/[\w/.{}]*"),
    components=closed(
        "securitySchemes responses schemas",
        securitySchemes=each({"oneOf": [
            closed("type scheme description", type={"const": "http"}, scheme={"const": "bearer"}, description=TEXT),
            closed("type in name description", type={"const": "apiKey"}, name=TEXT, description=TEXT,
                   **{"in": {"const": "header"}})]}),
        responses=each(RESPONSE, "[2-5][0-9][0-9]"), schemas=each(SCHEMA, "[A-Z][A-Za-z]+")))

# Words of JSON Schema that are used; others are ignored by validators, and so a spelling mistake would be.
WORDS = {"type", "description", "properties", "required", "items", "enum", "default", "examples", "format", "pattern",
         "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "propertyNames", "const",
         "additionalProperties", "oneOf", "anyOf", "allOf", "$ref", "contentEncoding", "contentMediaType", "x-events"}


def schemas_within(value, is_schema=False):
    """All schemas of a document, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from schemas_within(item, is_schema)
    if not isinstance(value, dict):
        return
    if is_schema:
        yield value
    for name, inner in value.items():
        if is_schema and name in ("examples", "default", "enum", "required"):
            continue
        if name in ("schemas", "properties", "x-events") and isinstance(inner, dict):
            for one in inner.values():
                yield from schemas_within(one, True)
        elif is_schema and name in ("items", "oneOf", "anyOf", "allOf", "propertyNames", "additionalProperties"):
            yield from schemas_within(inner, True)
        else:
            yield from schemas_within(inner, name == "schema")


def test_it_is_a_sound_document(described):
    errors = list(jsonschema.Draft202012Validator(OPENAPI).iter_errors(described.document))
    assert not errors, [("/".join(map(str, error.absolute_path)), error.message[:300]) for error in errors]


def test_every_schema_is_one_of_json_schema(described):
    found = list(schemas_within(described.document))
    assert len(found) > 300
    for schema in found:
        jsonschema.Draft202012Validator.check_schema(schema)
        assert set(schema) <= WORDS, set(schema) - WORDS
        assert set(schema.get("required", [])) <= set(schema.get("properties", schema.get("required", [])))


def test_every_reference_leads_somewhere_and_every_part_is_used(described):
    references = re.findall(r'"\$ref": "([^"]+)"', json.dumps(described.document))
    for reference in references:
        assert described.resolve({"$ref": reference})
    for kind in ("schemas", "responses"):
        for name in described.document["components"][kind]:
            assert any(one.startswith(f"#/components/{kind}/{name}") for one in references), name


def test_operations_have_names_of_their_own_and_tags_that_are_told(described):
    operations = [operation for _, _, operation in described.operations()]
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert {one["tags"][0] for one in operations} == {tag["name"] for tag in described.document["tags"]}
    schemes = set(described.document["components"]["securitySchemes"])
    assert {name for one in described.document["security"] for name in one} == schemes


def test_every_example_is_valid(described):
    checked = 0
    for schema in schemas_within(described.document):
        for example in schema.get("examples", []):
            checked += 1
            assert not described.complaints(schema, example), example
        if "default" in schema:
            assert not described.complaints(schema, schema["default"]), schema
    assert checked > 20


def test_every_field_of_a_request_is_explained(described):
    for method, path, operation in described.operations():
        for media in operation.get("requestBody", {}).get("content", {}).values():
            properties = described.resolve(media.get("schema", {})).get("properties", {})
            for name, schema in properties.items():
                assert "description" in described.resolve(schema) or path == "/v1/languages", (method, path, name)


# ---- it says what the source does ----


def test_bounds_and_defaults_are_the_settings_of_this_service(service, described):
    execute = described.document["components"]["schemas"]["Execute"]["properties"]
    assert (execute["timeout_ms"]["maximum"], execute["timeout_ms"]["default"]) == (7000, 3000)
    assert execute["reuse"]["default"] == "never"
    schemas = described.document["components"]["schemas"]
    assert schemas["Limits"]["properties"]["cpus"]["maximum"] == 1.5
    assert schemas["Batch"]["properties"]["runs"]["maxItems"] == 17
    assert service.post("/v1/execute", {"code": "1", "timeout_ms": 7001}).status == 422
    assert '"setting"' not in json.dumps(described.document)


def test_the_fields_of_a_run_are_those_that_are_read(described):
    text = (SOURCE / "api/run_request.c").read_text()
    read = r'\w+\(\s*\w+,\s+{},\s+"(\w+)"|json_object_get\({}, "(\w+)"\)'
    schemas = described.document["components"]["schemas"]
    for schema, where in ((schemas["Execute"], "o"), (schemas["Limits"], "limits")):
        found = {one or other for one, other in re.findall(read.format(where, where), text)}
        files = set(schemas["InputFile"]["properties"]) if where == "o" else set()
        assert found == set(schema["properties"]) | files


def test_the_fields_of_sessions_and_batches_are_those_that_are_read(described):
    schemas = described.document["components"]["schemas"]
    read = r'body_\w+\(\s*&?\w+,\s+\w+(?:->|\.)root,\s+"(\w+)"'
    shared = {"files", "env", "limits", "isolation", "network", "timeout_ms"}  # run_request_files() and so on
    found = {name for path in (SOURCE / "api").glob("session*.c") for name in re.findall(read, path.read_text())}
    said = {name for one in ("NewSession", "SessionChange", "Bash") for name in schemas[one]["properties"]}
    assert found and found | shared == said
    assert set(re.findall(read, (SOURCE / "api/batch.c").read_text())) == set(schemas["Batch"]["properties"])


def test_the_keys_of_a_language_are_those_of_its_file(described):
    text = (harness.ROOT / "docs/LANGUAGES.md").read_text().split("## Keys")[1].split("## Finding")[0]
    said = described.document["components"]["schemas"]["NewLanguage"]["properties"]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.M)) | {"yaml"} == set(said)
    entry = re.search(r"An entry of `find` has (.*?)\. ", text, re.S)[1]
    assert set(re.findall(r"`(\w+)`", entry)) == set(said["find"]["items"]["properties"])


NOBODY = "00000000-0000-4000-8000-000000000000"
# What is refused, and how.
REFUSED = [
    ("POST", "/v1/execute", {"code": "1", "language": "cobol"}, 400),
    ("POST", "/v1/execute", {"code": "1", "dependencies": ["x"]}, 400),
    ("POST", "/v1/execute", {"code": "1", "isolation": "process"}, 403),
    ("POST", "/v1/execute", {"code": "1", "network": "host"}, 403),
    ("POST", "/v1/execute", {"code": "1", "reuse": "always"}, 403),
    ("POST", "/v1/execute", {"code": "1", "files": [{"path": "a", "file_id": NOBODY}]}, 404),
    ("POST", "/v1/execute", {"code": "1", "session_id": NOBODY}, 404),
    ("POST", "/v1/execute", {"code": "1", "files": [{"path": "../a", "content": ""}]}, 422),
    ("POST", "/v1/execute", {"code": 1, "args": [2], "limits": {"cpus": 9000}, "env": {"A=": "1"}}, 422),
    ("POST", "/v1/execute", b"{", 422),
    ("POST", "/v1/execute", b"[]", 422),
    ("POST", "/v1/execute", b"", 422),
    ("POST", "/v1/execute/stream", {"code": "1", "timeout_ms": 7001}, 422),
    ("POST", "/v1/batch", {}, 422),
    ("POST", "/v1/batch", {"runs": [{"code": "1"}] * 18}, 422),
    ("POST", "/v1/files", b"", 422),
    ("GET", f"/v1/files/{NOBODY}", None, 404),
    ("DELETE", "/v1/files/x", None, 404),
    ("POST", "/v1/sessions", {"strategy": "pool", "workspace": "shared"}, 422),
    ("POST", "/v1/sessions", {"mounts": [{"source": "/etc", "read_only": False}]}, 400),
    ("POST", "/v1/sessions", {"ttl_seconds": 0}, 422),
    ("GET", f"/v1/sessions/{NOBODY}", None, 404),
    ("PATCH", f"/v1/sessions/{NOBODY}", {}, 404),
    ("POST", f"/v1/sessions/{NOBODY}/execute", {"code": "1"}, 404),
    ("POST", f"/v1/sessions/{NOBODY}/bash", {"cmd": "1"}, 404),
    ("POST", f"/v1/sessions/{NOBODY}/interrupt", None, 404),
    ("PUT", f"/v1/sessions/{NOBODY}/files/a/b", b"1", 404),
    ("GET", f"/v1/sessions/{NOBODY}/archive", None, 404),
    ("GET", "/v1/runs?limit=0", None, 422),
    ("GET", f"/v1/runs/{NOBODY}", None, 404),
    ("GET", f"/v1/runs/{NOBODY}/stream", None, 404),
    ("DELETE", f"/v1/runs/{NOBODY}", None, 404),
    ("POST", "/v1/languages", {"id": "python"}, 422),
    ("DELETE", "/v1/languages/python", None, 422),
    ("DELETE", "/v1/languages/cobol", None, 404),
]


@pytest.mark.parametrize("method, path, body, status", REFUSED,
                         ids=[f"{method} {path[:30]} {status} {i}" for i, (method, path, _, status) in enumerate(REFUSED)])
def test_a_refusal_is_as_described(service, described, method, path, body, status):
    reply = service.request(method, path, body)
    assert reply.status == status, reply
    described.check_reply(method, path, status, reply.headers["Content-Type"], reply.body)


@pytest.mark.parametrize("headers, status", [
    ({"Origin": "https://example.org"}, 403), ({"Host": "example.org"}, 421), 
    ({"Content-Length": "0", "Transfer-Encoding": "chunked"}, 400)])
def test_a_refusal_that_any_route_can_have_is_described(service, described, headers, status):
    for method, path, _ in described.operations():
        reply = service.request(method, path.replace("{", "").replace("}", ""), headers=headers)
        assert reply.status == status, (method, path, reply)
        described.check_reply(method, path, status, reply.headers["Content-Type"], reply.body)


def test_that_a_key_is_needed_is_described_for_all_that_need_one(service, described, keys):
    keys.add("one")
    for method, path, operation in described.operations():
        reply = service.request(method, path.replace("{", "").replace("}", ""))
        assert (reply.status == 401) == ("401" in operation["responses"]), (method, path, reply)
        if reply.status == 401:
            described.check_reply(method, path, 401, reply.headers["Content-Type"], reply.body)
    keys.revoke("one")


def test_the_codes_of_errors_are_those_of_the_source(described):
    text = read_all("api")
    found = set(re.findall(r'\b(?:refuse|reply_error)\([&\w]+, [^,"]+, "(\w+)"', text))
    found |= set(re.findall(r'return "(\w+)";', text.split("reply_code(unsigned status)\n{")[1].split("\n}")[0]))
    found |= set(re.findall(r'= \{ \d+, "(\w+)" \}', text)) | set(re.findall(r'code = "(\w+)"', text))
    assert set(described.document["components"]["schemas"]["Error"]["properties"]["code"]["enum"]) == found


def test_every_status_that_the_api_sends_is_described(described):
    text = read_all("api", "service")
    found = set(re.findall(r'\b(?:refuse|reply_\w+|http_reply\w*|http_stream|job_fail)\([^,;]+, ([2-5]\d\d)\b', text))
    found |= set(re.findall(r"= \{ ([2-5]\d\d), |ret_status = ([2-5]\d\d)|return ([2-5]\d\d);", text))
    found = {status for one in found for status in ([one] if isinstance(one, str) else one) if status}
    said = {status for _, _, operation in described.operations() for status in operation["responses"]}
    assert {"200", "201", "202", "204", "401", "404", "422", "429", "507"} <= found
    # Not of any operation, since it is one that a path has not got.
    assert found - {"405"} - said == set()


# ---- the page ----

PAGE = ["/docs", "/docs/docs.js", "/docs/docs.css"]


@pytest.mark.parametrize("path, kind", zip(PAGE, ["text/html", "text/javascript", "text/css"]))
def test_the_page_is_served_with_its_type_and_is_not_guessed_at(service, path, kind):
    reply = service.get(path)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    name = path.split("/")[-1] if "." in path else "docs.html"
    assert reply.body == (harness.ROOT / "web/docs" / name).read_bytes()


@pytest.mark.parametrize("path", [*PAGE, "/openapi.json"])
def test_what_a_browser_has_is_not_sent_again(service, path):
    first = service.get(path)
    again = service.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    other = service.get(path, headers={"If-None-Match": '"something else"'})
    assert (other.status, other.body) == (200, first.body)


def test_the_page_may_use_nothing_from_elsewhere(service):
    policy = service.get("/docs").headers["Content-Security-Policy"]
    assert "default-src 'self';" in policy and "unsafe" not in policy


def test_the_page_refers_to_nothing_that_is_not_served(service):
    html = service.get("/docs").body.decode()
    for target in re.findall(r'(?:src|href)="([^"#]+)"', html):
        assert target.startswith("data:") or service.get("/" + target).status == 200, target
    for path in PAGE:
        text = service.get(path).body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|url\(|@import|innerHTML|style=", text), path


def test_everybody_may_read_it(service, keys):
    keys.add("reader")
    for path in [*PAGE, "/openapi.json"]:
        assert service.get(path).status == 200
    assert service.get("/v1/files").status == 401
    keys.revoke("reader")
