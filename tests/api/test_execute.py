"""What POST /v1/execute takes and returns beyond the contract."""
import base64
import json

import pytest

import harness

SERVICE = {"output_max_bytes": 2000, "timeout_max_ms": 120000, "memory_max_bytes": "1G", "warm": "python"}
ISOLATIONS = ["container"] + ["vm"] * harness.HAS_KVM


def refused(service, status, **fields):
    reply = service.post("/v1/execute", {"code": "1", **fields})
    assert reply.status == status, reply
    return reply.detail()


# ---- languages and isolation ----

HELLO = {
    "python": "print('hello')",
    "javascript": "console.log('hello')",
    "bash": "echo hello",
    "sh": "echo hello",
    "lua": "print('hello')",
    "perl": "print \"hello\\n\";",
    "ruby": "puts 'hello'",
    "awk": "BEGIN { print \"hello\" }",
    "c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }",
}


@pytest.mark.parametrize("language", HELLO)
def test_a_language_runs(service, language):
    run = service.execute(HELLO[language], language=language, timeout_ms=60000)
    assert (run["stdout"], run["exit_code"], run["reason"]) == ("hello\n", 0, "exited"), run
    assert run["language"] == language


@pytest.mark.parametrize("language, code", [
    ("java", "class Main { public static void main(String[] a) { System.out.println(\"hello\"); } }"),
    ("go", "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }"),
])
def test_a_language_that_needs_more_than_the_default_has_it(service, language, code):
    run = service.execute(code, language=language, timeout_ms=100000)
    assert (run["stdout"], run["exit_code"]) == ("hello\n", 0), run


def test_python_is_the_default_and_an_alias_is_told_by_its_id(service):
    assert service.execute("1")["language"] == "python"
    assert service.execute("console.log(1)", language="js", timeout_ms=60000)["language"] == "javascript"


def test_a_compiler_that_complains_is_told_apart(service):
    run = service.execute("int main(void) { return nothing; }", language="c", timeout_ms=60000)
    assert run["exit_code"] != 0 and run["compile"]["exit_code"] != 0
    assert "nothing" in run["compile"]["stderr"]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_isolation_is_as_asked_for(service, isolation):
    run = service.execute("print(1)", isolation=isolation)
    assert (run["isolation"], run["stdout"]) == (isolation, "1\n")


def test_a_warm_cell_serves_and_says_so(service):
    run = service.execute("print(1)")
    assert run["warm"] is True
    assert run["isolation"] == ISOLATIONS[-1]
    run = service.execute("echo 1", language="sh")
    assert run["warm"] is False


def test_an_isolation_that_is_not_allowed_is_refused(service):
    assert "allow_process" in refused(service, 403, isolation="process")


def test_why_there_is_no_vm_is_told_without_advice_for_who_sits_at_the_machine():
    def prepare(service):
        (service.directory / "no-kvm").touch()
        words = service.command()
        service.command = lambda: ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/kvm && exec "$@"',
                                   str(service.directory / "no-kvm"), *words]

    with harness.Running(prepare=prepare, warm="") as service:
        asked = {"code": "1", "isolation": "vm"}
        reply = service.post("/v1/execute", asked)
        assert (reply.status, reply.detail()) == (400, "vm isolation: /dev/kvm: Inappropriate ioctl for device")
        stream = service.post("/v1/execute/stream", asked)
        assert "Inappropriate ioctl" in stream.body.decode() and "what to do" not in stream.body.decode()


def test_an_unknown_language_is_400(service):
    assert refused(service, 400, language="cobol") == "unknown language 'cobol'"


def test_of_two_files_for_one_path_the_later_one_wins(service):
    """Chat applications send all that was attached, and names repeat."""
    files = [{"path": "a", "content": "1"}, {"path": "b", "content": "2"}, {"path": "a", "content": "3"}]
    assert service.execute("print(open('a').read(), open('b').read())", files=files)["stdout"] == "3 2\n"


def test_dependencies_are_400_with_a_clear_message(service):
    assert "cannot be installed" in refused(service, 400, dependencies=["requests"])
    assert service.execute("print(1)", dependencies=[])["exit_code"] == 0


# ---- environment, arguments, files ----


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_env_is_the_programs(service, isolation):
    run = service.execute("import os\nprint(os.environ['A'], os.environ['B'] == '')", isolation=isolation,
                          env={"A": "ä =\n", "B": ""})
    assert run["stdout"] == "ä =\n True\n"
    # And of no other run.
    run = service.execute("import os\nprint('A' in os.environ)", isolation=isolation)
    assert run["stdout"] == "False\n"


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_args_are_the_programs(service, isolation):
    run = service.execute("import sys\nprint(sys.argv[1:])", isolation=isolation, args=["a b", "", "-é"])
    assert run["stdout"] == "['a b', '', '-é']\n"


def test_inline_files_need_no_upload(service):
    raw = bytes(range(256))
    run = service.execute(
        "print(open('t/x.txt').read(), open('b.bin', 'rb').read() == bytes(range(256)))",
        files=[{"path": "t/x.txt", "content": "häl\u0000lo"},
               {"path": "b.bin", "content_base64": base64.b64encode(raw).decode()}])
    assert run["stdout"] == "häl\u0000lo True\n"
    assert run["files"] == []


def test_an_entry_point_is_one_of_the_files(service):
    run = service.post("/v1/execute", {
        "entry_point": "app/run.py", "args": ["x"],
        "files": [{"path": "app/run.py", "content": "import sys\nfrom other import f\nprint(f(), sys.argv[1])"},
                  {"path": "app/other.py", "content": "def f(): return 'other'"}]}).json()
    assert (run["stdout"], run["exit_code"]) == ("other x\n", 0), run


def test_an_entry_point_names_the_code(service):
    run = service.execute("print(__file__)", entry_point="sub/my.py")
    assert run["stdout"] == "/workspace/sub/my.py\n"


def test_an_entry_point_that_is_not_there_is_refused(service):
    reply = service.post("/v1/execute", {"entry_point": "nothing.py"})
    assert reply.status == 404 and "nothing.py" in reply.detail()
    assert refused(service, 422, entry_point="../x.py") == "File paths must not contain '..'."


@pytest.mark.parametrize("file, detail", [
    ({"path": "a", "content": "x", "content_base64": "eA=="}, "one of file_id, content, content_base64"),
    ({"path": "a", "content_base64": "???"}, "content_base64 of 'a' is not base64."),
    ({"path": "a\u0000b", "content": "x"}, "NUL"),
    ({"path": "a//b", "content": "x"}, ""),
    ({"path": "x" * 5000, "content": "x"}, ""),
])
def test_an_inline_file_that_is_wrong_is_422(service, file, detail):
    assert detail in refused(service, 422, files=[file])


def test_two_files_at_one_path_are_refused_or_the_last_wins(service):
    reply = service.post("/v1/execute", {"code": "print(open('a').read())", "files": [
        {"path": "a", "content": "1"}, {"path": "a", "content": "2"}]})
    assert reply.status == 422 or reply.json()["stdout"] == "2\n", reply


def test_a_file_in_the_place_of_a_directory_is_a_message_not_a_crash(service):
    reply = service.post("/v1/execute", {"code": "print(1)", "files": [
        {"path": "a", "content": "1"}, {"path": "a/b", "content": "2"}]})
    assert reply.status == 422, reply


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("files", [
    [{"path": "large", "content": "x" * (2 << 20)}],
    [{"path": f"{i}", "content": "x"} for i in range(1500)],
], ids=["large", "many"])
def test_files_that_do_not_fit_into_the_disk_are_too_large(service, isolation, files):
    detail = refused(service, 413, isolation=isolation, limits={"disk_bytes": 1 << 20}, files=files)
    assert detail.startswith("the files do not fit into the run's disk: write '"), detail


# ---- limits, and how runs end ----


def ended(service, reason, code, **fields):
    run = service.execute(code, **{"timeout_ms": 20000, **fields})
    assert run["reason"] == reason, run
    assert (run["exit_code"] is None) == (reason == "timeout")
    assert run["timed_out"] == (reason == "timeout")
    if run["exit_code"] is not None and reason != "exited":
        assert run["exit_code"] != 0
    return run


@pytest.mark.parametrize("isolation", ISOLATIONS)
class TestReasons:
    def test_exited(self, service, isolation):
        ended(service, "exited", "import sys; sys.exit(3)", isolation=isolation)

    def test_signaled(self, service, isolation):
        run = ended(service, "signaled", "import os; os.kill(os.getpid(), 9)", isolation=isolation)
        assert run["exit_code"] == 137

    def test_timeout(self, service, isolation):
        ended(service, "timeout", "import time\nwhile True: time.sleep(1)", isolation=isolation, timeout_ms=200)

    def test_cpu_limit(self, service, isolation):
        run = ended(service, "cpu_limit", "while True: pass", isolation=isolation, limits={"cpu_ms": 200})
        assert run["usage"]["cpu_ms"] >= 150

    def test_memory_limit(self, service, isolation):
        ended(service, "memory_limit",
              "x = []\nwhile True: x.append(bytearray(1 << 20))\n", isolation=isolation,
              limits={"memory_bytes": 64 << 20})

    def test_output_limit(self, service, isolation):
        run = ended(service, "output_limit", "while True: print('x' * 1000)", isolation=isolation,
                    limits={"output_bytes": 100000})
        assert run["truncated"]["stdout"] is True

    def test_output_that_ended_the_run_is_marked_as_cut(self, service, isolation):
        run = ended(service, "output_limit", "import sys\nprint('y', file=sys.stderr, flush=True)\nprint('x' * 5000)",
                    isolation=isolation, limits={"output_bytes": 1500})
        assert run["stdout"] == "x" * (1500 - 32) + "\n...[truncated]"
        assert run["stderr"] == "y\n"
        assert run["truncated"] == {"stdout": True, "stderr": False, "full_output_file_id": None}

    def test_disk_limit(self, service, isolation):
        ended(service, "disk_limit", "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))",
              isolation=isolation, limits={"disk_bytes": 4 << 20})

    def test_processes(self, service, isolation):
        run = service.execute(
            "import threading, time\nmade = 0\ntry:\n    for i in range(50):\n"
            "        threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); made += 1\n"
            "except RuntimeError: pass\nprint(made)\nimport os; os._exit(0) if not print(end='', flush=True) else 0",
            isolation=isolation, limits={"processes": 10}, timeout_ms=20000)
        assert 0 < int(run["stdout"]) < 12, run


def test_cpus_slow_a_run_down(service):
    code = "import time\nt = time.monotonic()\nx = 0\nfor i in range(3000000): x += i\nprint(time.process_time() / (time.monotonic() - t))"
    run = service.execute(code, isolation="container", limits={"cpus": 0.2, "cpu_ms": 60000}, timeout_ms=60000)
    assert run["exit_code"] == 0
    assert "cpus" in run["limits_not_enforced"] or float(run["stdout"]) < 0.7, run


@pytest.mark.parametrize("limits, at", [
    ({"cpu_ms": 0}, "cpu_ms"), ({"cpu_ms": 60001}, "cpu_ms"), ({"cpu_ms": -5}, "cpu_ms"),
    ({"memory_bytes": 100}, "memory_bytes"), ({"memory_bytes": (1 << 30) + 1}, "memory_bytes"),
    ({"processes": 0}, "processes"), ({"processes": 100000}, "processes"),
    ({"disk_bytes": 1}, "disk_bytes"), ({"disk_bytes": 1 << 62}, "disk_bytes"),
    ({"output_bytes": 0}, "output_bytes"), ({"output_bytes": 1023}, "output_bytes"),
    ({"output_bytes": 1 << 40}, "output_bytes"),
    ({"cpus": 0}, "cpus"), ({"cpus": -1}, "cpus"), ({"cpus": 1e300}, "cpus"), ({"cpus": "2"}, "cpus"),
    ({"cpu_ms": 10 ** 30}, "cpu_ms"), ({"memory_bytes": (4 << 20) - 1}, "memory_bytes"), ({"cpu_ms": "a"}, "cpu_ms"), ({"cpu_ms": 1.5}, "cpu_ms"),
    ([], None), ("x", None),
])
def test_a_limit_out_of_bounds_is_422_at_its_place(service, limits, at):
    reply = service.post("/v1/execute", {"code": "1", "limits": limits})
    assert reply.status == 422, reply
    if at:
        error, = reply.json()["detail"]
        assert error["loc"] == ["body", "limits", at]


@pytest.mark.parametrize("field, value, at, said", [
    ("files", [{"path": "a"}], ["files", 0, "file_id"], "Field required"),
    ("files", [{"path": "a", "content": "x", "file_id": "y"}], ["files", 0], "only one of"),
    ("args", ["a", "b\0c"], ["args", 1], "NUL"),
    ("args", ["a", 5], ["args", 1], "valid string"),
])
def test_a_field_that_is_wrong_is_told_why(service, field, value, at, said):
    reply = service.post("/v1/execute", {"code": "1", field: value})
    assert reply.status == 422, reply
    error, = reply.json()["detail"]
    assert error["loc"] == ["body", *at] and said in error["msg"], error


def test_network_is_none_and_host_is_not_allowed(service):
    run = service.execute("import socket\nsocket.create_connection(('127.0.0.1', %d), 2)" % service.port,
                          network="none")
    assert run["exit_code"] == 1
    assert "allow_host_network" in refused(service, 403, network="host")
    assert "'none' or 'host'" in refused(service, 422, network="all")


# ---- what comes back ----


def test_a_reply_has_all_its_fields(service):
    run = service.execute("print(1)")
    assert set(run) >= {"stdout", "stderr", "exit_code", "timed_out", "duration_ms", "files", "reason",
                        "result", "outputs", "usage", "isolation", "warm", "truncated",
                        "limits_not_enforced", "id"}
    assert run["result"] is None and run["outputs"] == []
    assert run["limits_not_enforced"] == []
    assert run["truncated"] == {"stdout": False, "stderr": False, "full_output_file_id": None}
    usage = run["usage"]
    assert set(usage) == {"cpu_ms", "peak_memory_bytes", "wall_us", "queue_us"}
    assert all(isinstance(value, int) and value >= 0 for value in usage.values())
    assert usage["peak_memory_bytes"] > 0 and usage["wall_us"] > 0


def test_usage_is_what_was_used(service):
    usage = service.execute("x = bytearray(50 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\n"
                            "import time\nt = time.process_time()\nwhile time.process_time() < t + 0.2: pass",
                            timeout_ms=20000)["usage"]
    assert usage["peak_memory_bytes"] > 50 << 20
    assert usage["cpu_ms"] >= 190
    assert usage["wall_us"] >= 190000


BUSY = "import time\nt = time.process_time()\nwhile time.process_time() < t + 0.5: pass"


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("code", ["import time; time.sleep(9)", "import os; os.kill(os.getpid(), 9)"])
def test_the_end_of_a_cell_is_not_charged_for_the_runs_before(service, isolation, code):
    for _ in range(2):
        assert service.execute(BUSY, isolation=isolation, timeout_ms=20000)["usage"]["cpu_ms"] >= 490
        assert service.execute(code, isolation=isolation, timeout_ms=400)["usage"]["cpu_ms"] < 400


def test_a_long_output_is_kept_whole_in_a_file(service):
    run = service.execute("import sys\nfor i in range(5000): print(i)\nprint('x' * 5000, file=sys.stderr)")
    assert run["exit_code"] == 0
    assert run["truncated"]["stdout"] is True and run["truncated"]["stderr"] is True
    assert run["stdout"].endswith("\n...[truncated]") and len(run["stdout"]) <= 2000
    whole = service.download(run["truncated"]["full_output_file_id"])
    numbers = "".join(f"{i}\n" for i in range(5000)).encode()
    assert whole == numbers + b"x" * 5000 + b"\n"


def test_one_short_stream_beside_a_long_one_is_not_cut(service):
    run = service.execute("import sys\nprint('short', file=sys.stderr)\nprint('x' * 5000)")
    assert run["truncated"]["stdout"] is True and run["truncated"]["stderr"] is False
    assert run["stderr"] == "short\n"


def test_bytes_that_are_no_text_are_replaced(service):
    run = service.execute("import sys\nsys.stdout.buffer.write(b'a\\xff\\xfe\\x00b')\nNone")
    assert run["stdout"] == "a\ufffd\ufffd\x00b"


def test_a_file_name_that_is_no_text_does_no_harm(service):
    run = service.execute("open(b'\\xff\\n\\x01', 'w').write('x')\nNone")
    assert [file["path"] for file in run["files"]] == ["\ufffd\n\x01"]
    assert service.download(run["files"][0]["file_id"]) == b"x"


def test_directories_and_links_are_not_files(service):
    run = service.execute("import os\nos.mkdir('d')\nos.symlink('/etc/passwd', 'l')\nos.mkfifo('p')\nNone")
    assert run["files"] == []


# ---- user, reuse, profile ----


def test_a_run_sees_nothing_of_the_one_before(service):
    for fields in ({}, {"user": "a"}, {"user": "b"}, {"reuse": "never"}):
        run = service.execute(
            "import os, builtins\nprint(hasattr(builtins, 'left'), os.listdir('/tmp'), os.path.exists('/workspace/left'))\n"
            "builtins.left = 1\nopen('/tmp/left', 'w').write('x')\nopen('/workspace/left', 'w').write('x')\nNone",
            **fields)
        assert run["stdout"].startswith("False [] False\n"), (fields, run)


def test_reuse_may_be_stricter_than_the_service_not_laxer(service):
    assert service.execute("print(1)", reuse="never")["stdout"] == "1\n"
    assert service.execute("print(1)", reuse="same-owner")["stdout"] == "1\n"
    assert "reuse" in refused(service, 403, reuse="always")
    refused(service, 422, reuse="sometimes")


def test_a_user_is_in_the_history(service):
    run = service.execute("print(1)", user="somebody ä")
    assert service.get(f"/v1/runs/{run['id']}").json()["user"] == "somebody ä"
    refused(service, 422, user="x" * 300)


def test_a_profile_is_known_or_refused(service):
    run = service.execute("print('numpy' in __import__('sys').modules)", profile="plain")
    assert run["stdout"] == "False\n"
    reply = service.post("/v1/execute", {"code": "1", "profile": "no-such"})
    assert reply.status == 404 and "no-such" in reply.detail(), reply


# ---- cache ----

RANDOM = "import uuid\nprint(uuid.uuid4())"


def test_the_same_request_again_is_answered_from_the_cache_if_asked_to(service):
    first = service.execute(RANDOM, cache=True)
    second = service.execute(RANDOM, cache=True)
    assert (first["cached"], second["cached"]) == (False, True)
    assert second["stdout"] == first["stdout"]
    assert service.execute(RANDOM)["cached"] is False
    assert service.execute(RANDOM)["stdout"] != first["stdout"]


def test_the_order_of_keys_does_not_matter_but_everything_else_does(service):
    body = {"code": RANDOM + "#2", "cache": True, "env": {"A": "1"}}
    first = service.post("/v1/execute", body).json()
    assert service.post("/v1/execute", dict(reversed(body.items()))).json()["cached"] is True
    for change in ({"env": {"A": "2"}}, {"stdin": "x"}, {"user": "x"}, {"code": body["code"] + "\n"}):
        run = service.post("/v1/execute", {**body, **change}).json()
        assert run["cached"] is False and run["stdout"] != first["stdout"]


def test_only_success_is_cached(service):
    for _ in range(2):
        assert service.execute("import sys; sys.exit(1)", cache=True)["cached"] is False


def test_a_cached_file_that_was_removed_is_made_again(service):
    code = "open('f', 'w').write('made')\nNone"
    first = service.execute(code, cache=True)
    assert service.execute(code, cache=True)["cached"] is True
    assert service.delete(f"/v1/files/{first['files'][0]['file_id']}").status == 204
    again = service.execute(code, cache=True)
    assert again["cached"] is False
    assert service.download(again["files"][0]["file_id"]) == b"made"


# ---- odd code ----


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_code_with_a_nul_is_pythons_to_refuse(service, isolation):
    run = service.execute("print(1)\0", isolation=isolation)
    assert run["exit_code"] == 1 and "null bytes" in run["stderr"]
    run = service.execute("printf 'a\\0b'", language="sh", isolation=isolation)
    assert run["stdout"] == "a\0b"


def test_no_code_at_all_is_an_empty_program(service):
    run = service.execute("")
    assert (run["exit_code"], run["stdout"]) == (0, "")


def test_a_megabyte_of_code_is_run(service):
    run = service.execute("x = '" + "a" * (1 << 20) + "'\nprint(len(x))", timeout_ms=10000)
    assert run["stdout"] == f"{1 << 20}\n", run


def test_much_stdin_is_read_or_left(service):
    text = "line\n" * 200000
    assert service.execute("import sys\nprint(len(sys.stdin.read()))", stdin=text, timeout_ms=10000)["stdout"] == f"{len(text)}\n"
    assert service.execute("print('done')", stdin=text, timeout_ms=10000)["stdout"] == "done\n"
