"""What /openapi.json says, for tests: operations, schemas, and whether an answer is as described.

    description.operation("GET", "/v1/files/2f1f...")  -> (path in the document, what is said of it)
    description.check_reply("GET", url, status, headers, body)
"""
import json
import re
from urllib.parse import urlsplit

import harness
import jsonschema

METHODS = ("get", "put", "post", "delete", "patch")


def table():
    """[(method, pattern, access, summary)] of src/api/routes.c, which is THE table."""
    text = (harness.ROOT / "src/api/routes.c").read_text()
    rows = re.findall(
        r'\{ "([A-Z]+)",\s+"([^"]+)",\s+\w+,(?:\s+(ROUTE_\w+),)?[^{}]*?\.summary = "([^"]+)" \}',
        text.split("const struct route routes[] = {")[1])
    assert len(rows) == text.count(".summary ="), "this cannot read the table any more"
    return rows


class Description:
    def __init__(self, document):
        self.document = document

    def resolve(self, value):
        while "$ref" in value:
            at = self.document
            assert value["$ref"].startswith("#/"), value
            for name in value["$ref"][2:].split("/"):
                at = at[name]
            value = at
        return value

    def operations(self):
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                yield method.upper(), path, operation

    def operation(self, method, url):
        """Of a real URL; literal paths go before those with parameters."""
        found = []
        for its_method, path, operation in self.operations():
            words = [".+" if word == "{path}" else "[^/]+" if word[0] == "{" else re.escape(word)
                     for word in re.split(r"(\{\w+\})", path) if word]
            if its_method == method and re.fullmatch("".join(words), urlsplit(url).path):
                found.append((path.count("{"), path, operation))
        assert found, f"{method} {url} is not described"
        return min(found, key=lambda one: one[0])[1:]

    # ---- values ----

    def complaints(self, schema, value):
        """What is wrong with a value, and what it has that nobody described."""
        whole = {**schema, "components": self.document["components"]}
        found = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
                 for error in jsonschema.Draft202012Validator(whole).iter_errors(value)]
        return found or list(self.undescribed(schema, value, ""))

    def parts(self, schema):
        """A schema and all that it is made of."""
        schema = self.resolve(schema)
        yield schema
        for word in ("allOf", "oneOf", "anyOf"):
            for part in schema.get(word, []):
                yield from self.parts(part)

    def undescribed(self, schema, value, where):
        parts = list(self.parts(schema))
        if isinstance(value, list):
            for items in (part["items"] for part in parts if "items" in part):
                for index, item in enumerate(value):
                    yield from self.undescribed(items, item, f"{where}/{index}")
        if not isinstance(value, dict):
            return
        known = {}
        for part in parts:
            for name, schema in part.get("properties", {}).items():
                known.setdefault(name, schema)
        is_open = any(part.get("additionalProperties") for part in parts)
        for name, item in value.items():
            if name in known:
                yield from self.undescribed(known[name], item, f"{where}/{name}")
            elif not is_open:
                yield f"{where}/{name} is not described"

    # ---- answers ----

    def schema_of(self, operation, status, content_type):
        assert str(status) in operation["responses"], f"{operation['operationId']} is not said to give {status}"
        content = self.resolve(operation["responses"][str(status)]).get("content", {})
        kind = content_type.split(";")[0]
        assert (kind or None) in (content or [None]), f"{status} is {kind}, not {list(content)}"
        return content.get(kind, {}).get("schema")

    def check_reply(self, method, url, status, content_type, body):
        """`body` may be None: then only that there is such an answer."""
        _, operation = self.operation(method, url)
        schema = self.schema_of(operation, status, content_type or "")
        if schema is None or body is None:
            return
        for part_schema, part in self.values(schema, content_type.split(";")[0], body):
            complaints = self.complaints(part_schema, part)
            assert not complaints, (method, url, status, complaints, part)

    def values(self, schema, kind, body):
        if kind == "application/json":
            yield schema, json.loads(body)
        elif kind == "application/x-ndjson":
            for line in body.decode().splitlines():
                if line:
                    yield schema, json.loads(line)
        elif kind == "text/event-stream":
            events = self.resolve(schema)["x-events"]
            for name, data in re.findall(r"event: (\w+)\ndata: (.*)\n\n", body.decode()):
                yield events[name], json.loads(data)

    def check_request(self, method, url, body):
        _, operation = self.operation(method, url)
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        complaints = self.complaints(schema, json.loads(body))
        assert not complaints, (method, url, complaints, body)


def of(service):
    return Description(service.get("/openapi.json").json())
