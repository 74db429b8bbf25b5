"""docs/API.md is true: its examples are run in their order against a service, and each answer is as it is shown there
and as /openapi.json describes it. Every route has an example, every status a line.

An example is a block `sh`. The block `http` behind it is its answer: the status of the last curl, headers that must
be there, and what the commands print. `…` stands for anything; numbers that differ from run to run need only be
numbers. `# $NAME is the answer's field` gives a name to later examples."""
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import description
import harness
import pytest

TEXT = (harness.ROOT / "docs/API.md").read_text()
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# There is a key for the examples that show one, and the others need none.
SERVICE = {"no_auth": True}

# Fields whose values depend on the machine, or on the moment.
VARIES = {"isolation", "warm", "hotcell_version", "duration_ms", "cpu_ms", "peak_memory_bytes", "wall_us", "queue_us",
          "queue_ms", "upload_time", "expires_at", "created", "submitted", "limits_not_enforced"}

# curl, which also tells what it has done: a line for each call.
CURL = r"""#!/bin/sh
exec %s -D "$CURL_HEADERS" -w '%%{stderr}%%{method} %%{url_effective} %%{http_code} %%{content_type}\n' "$@" \
	2>>"$CURL_SAID"
"""


class Example:
    def __init__(self, section, command, answer):
        self.section = section
        self.command = command
        self.answer = answer

    def __str__(self):
        return f"{self.section}: {self.command.splitlines()[-1][-70:]}"


def examples(text):
    section = ""
    for heading, command, answer in re.findall(
            r"^#+ ([^\n]+)$|^```sh\n(.*?)^```\n(?:```http\n(.*?)^```\n)?", text, re.M | re.S):
        section = heading or section
        if command:
            yield Example(section.strip("`"), command, answer)


# README has one, too.
README = (harness.ROOT / "README.md").read_text().replace("http://127.0.0.1:8000", "$HOTCELL")
EXAMPLES = [*examples(TEXT), *(one for one in examples(README) if one.answer)]


class Ran:
    """What an example has done."""

    def __init__(self, example, code, out, calls, headers):
        self.example = example
        self.code = code
        self.out = out
        self.calls = calls  # [(method, url, status, content type)]
        self.headers = headers

    def __repr__(self):
        return f"<{self.calls} {self.headers[:300]!r} {self.out[:2000]!r}>"


def named(ran):
    """The names that an example gives to those behind it."""
    for name, header, field in re.findall(r"# \$(\w+) is the answer's (?:header ([\w-]+)|(\S+))", ran.example.command):
        if header:
            yield name, re.search(rf"^{header}: (\S+)", ran.headers, re.M | re.I)[1]
            continue
        value = json.loads(ran.out)
        for step in re.findall(r"\w+", field):
            value = value[int(step)] if step.isdigit() else value[step]
        yield name, value


@pytest.fixture(scope="module")
def ran(service, keys, tmp_path_factory):
    """All examples, in order; one needs what those before it have made."""
    where = tmp_path_factory.mktemp("examples")
    (where / "bin").mkdir()
    curl = where / "bin/curl"
    curl.write_text(CURL % "/usr/bin/curl")
    curl.chmod(0o755)
    env = {"PATH": f"{where}/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOTCELL": f"http://127.0.0.1:{service.port}",
           "HOTCELL_SOCKET": str(service.socket_path), "HOTCELL_API_KEY": keys.add("reader"),
           "CURL_HEADERS": str(where / "headers"), "CURL_SAID": str(where / "said")}
    return [run(example, where, env) for example in EXAMPLES]


def run(example, where, env):
    for name in ("headers", "said"):
        (where / name).write_text("")
    done = subprocess.run(["sh", "-c", example.command], cwd=where, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=harness.PATIENCE_S)
    calls = [tuple((line + "  ").split(" ", 3)) for line in (where / "said").read_text().splitlines()
             if re.match(r"[A-Z]+ http", line)]
    one = Ran(example, done.returncode, done.stdout, calls, (where / "headers").read_text())
    try:
        env.update(named(one))
    except (ValueError, KeyError, IndexError, TypeError):
        pass  # that example's own test says so
    return one


# ---- comparing ----


def parse_shown(text):
    """JSON in which `…` may stand for further fields or items."""
    text = re.sub(r",?\s*…\s*\}", lambda found: found[0].replace("…", '"…": 0'), text)
    return json.loads(re.sub(r",?\s*…\s*\]", lambda found: found[0].replace("…", '"…"'), text))


def pattern_of(shown):
    return re.compile(".*".join(re.escape(part) for part in shown.split("…")), re.S)


def differences(shown, real, name=""):
    if isinstance(shown, dict) and isinstance(real, dict):
        missing = [key for key in shown if key != "…" and key not in real]
        more = [] if "…" in shown else [key for key in real if key not in shown]
        yield from (f"{name}.{key} is not there" for key in missing)
        yield from (f"{name}.{key} is not shown" for key in more)
        for key in shown:
            if key in real:
                yield from differences(shown[key], real[key], key)
    elif isinstance(shown, list) and isinstance(real, list):
        if name in VARIES:
            return
        first = shown[:-1] if shown[-1:] == ["…"] else shown
        if len(real) < len(first) or (first is shown and len(real) != len(shown)):
            yield f"{name} has {len(real)} items"
        for index, pair in enumerate(zip(first, real)):
            yield from differences(*pair, name)
    elif type(shown) is not type(real):
        yield f"{name} is {real!r}, not {shown!r}"
    elif isinstance(shown, str) and UUID.fullmatch(shown):
        if not UUID.fullmatch(real):
            yield f"{name} is {real!r}, which is no id"
    elif isinstance(shown, str) and "…" in shown:
        if not pattern_of(shown).fullmatch(real):
            yield f"{name} is {real!r}, not {shown!r}"
    elif shown != real and name not in VARIES:
        yield f"{name} is {real!r}, not {shown!r}"


def whole_events(text):
    """What a stream said, and how it ended; None if it is none, or not all of one. Where a piece of output ends, and
    which of two streams comes first, is not certain."""
    pairs = re.findall(r"^event: (\w+)\ndata: (.*)$", text, re.M)
    if not pairs or pairs[-1][0] == "output":
        return None
    printed = {}
    for _, data in pairs[:-1]:
        piece = json.loads(data)
        printed[piece["stream"]] = printed.get(piece["stream"], "") + piece["data"]
    return {"printed": printed, "event": pairs[-1][0], "last": parse_shown(pairs[-1][1])}


def check_body(shown, out):
    if whole_events(shown):
        assert not list(differences(whole_events(shown), whole_events(out.decode()))), out
        return
    try:
        wanted = parse_shown(shown)
    except ValueError:
        assert pattern_of(shown.strip()).fullmatch(out.decode().strip()), (shown, out)
        return
    assert not list(differences(wanted, json.loads(out)))


# ---- the claims ----


@pytest.mark.parametrize("index", range(len(EXAMPLES)), ids=[str(one) for one in EXAMPLES])
def test_the_example_is_true(ran, index):
    one = ran[index]
    if not one.example.answer:
        assert [call[2] for call in one.calls] == ["200"] * one.example.command.count("curl "), one
        return
    head, _, body = one.example.answer.partition("\n\n")
    status, *headers = head.strip().splitlines()
    answers = re.findall(r"^HTTP/1.1 .*?(?=\r?$)", one.headers, re.M)
    assert answers and answers[-1] == status, one
    for header in headers:
        name, value = header.split(": ", 1)
        real = re.search(rf"^{re.escape(name)}: (.*?)\r?$", one.headers, re.M | re.I)
        assert real and pattern_of(value).fullmatch(real[1]), (header, one)
    if body.strip():
        check_body(body, one.out)
    else:
        assert one.out == b"", one
    dict(named(one))


@pytest.mark.parametrize("index", range(len(EXAMPLES)), ids=[str(one) for one in EXAMPLES])
def test_the_answer_is_as_openapi_describes_it(service, ran, index):
    described = description.of(service)
    one = ran[index]
    assert one.calls, one
    for method, url, status, kind in one.calls:
        # What went through a pipe, or into a file, is not the answer any more.
        is_whole = len(one.calls) == 1 and not re.search(r"\$HOTCELL\S* *[|>]", one.example.command)
        described.check_reply(method, url, int(status), kind.strip(), one.out if is_whole else None)
        for body in re.findall(r"--json (.*?) *\\?\n? *\"?\$HOTCELL", one.example.command, re.S):
            sent = shlex.split(body.replace("$FILE_ID", "id"))[0]
            if int(status) < 300:
                described.check_request(method, url, sent)


def test_every_route_has_an_example_and_no_other_has_a_heading():
    headings = re.findall(r"^### `([A-Z]+ /.*)`$", TEXT, re.M)
    assert sorted(headings) == sorted(f"{method} {pattern}" for method, pattern, _, _ in description.table())


def test_the_example_of_a_route_asks_for_it(ran):
    for method, pattern, _, _ in description.table():
        words = [".+" if word.endswith("…}") else "[^/]+" if word[0] == "{" else re.escape(word)
                 for word in re.split(r"(\{[^}]+\})", pattern) if word]
        here = [call for one in ran if one.example.section == f"{method} {pattern}" for call in one.calls]
        assert any(call[0] == method and re.fullmatch("".join(words), urlsplit(call[1]).path) for call in here), (
            method, pattern)


def test_every_status_that_can_be_sent_has_a_line_in_the_table(service):
    lines = set(re.findall(r"^\| (\d{3}) \|", TEXT, re.M))
    operations = [operation for _, _, operation in description.of(service).operations()]
    described = {status for operation in operations for status in operation["responses"]}
    sources = [*(harness.ROOT / "src/http").glob("*.c"), *(harness.ROOT / "src/api").glob("*.c")]
    text = "\n".join(path.read_text() for path in sources)
    sent = set(re.findall(r"return [^;]*\b([45]\d\d);|(?:refuse|refuse_head|reply_error)\(\w+, (\d{3})\b", text))
    assert lines == described | {status for pair in sent for status in pair if status}


def test_what_it_leads_to_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (Path(harness.ROOT) / "docs" / target).exists(), target
    assert os.path.basename(__file__) in TEXT
