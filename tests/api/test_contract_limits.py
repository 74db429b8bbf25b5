"""The settings of the contract, as its environment names them, and what they cut off."""
import pytest

ENVIRONMENT = {
    "MAX_EXEC_TIMEOUT_MS": "3000",
    "MAX_OUTPUT_BYTES": "2000",
    "CPU_TIME_LIMIT_SEC": "1",
    "MEMORY_LIMIT_MB": "128",
    "MAX_FILE_SIZE_MB": "1",
    "FILE_TTL_SEC": "1000",
    "LOG_LEVEL": "debug",
    "LOG_FORMAT": "json",
}
MARK = "\n...[truncated]"


def test_the_maximum_of_a_timeout(service):
    reply = service.post("/v1/execute", {"code": "1", "timeout_ms": 3001})
    assert (reply.status, reply.json()["detail"]) == (422, "timeout_ms exceeds maximum of 3000 ms")


def test_output_over_the_limit_is_its_beginning_and_a_mark(service):
    for name in ("stdout", "stderr"):
        run = service.execute(f"import sys\nsys.{name}.write('abcdefghij' * 1000)\nNone")
        assert run[name] == ("abcdefghij" * 1000)[:2000 - 32] + MARK
        assert run["exit_code"] == 0


def test_output_of_just_the_limit_is_whole(service):
    for size in (1967, 1968, 1969, 1999, 2000):
        run = service.execute(f"import sys\nsys.stdout.write('x' * {size})\nNone")
        assert run["stdout"] == "x" * size
    run = service.execute("import sys\nsys.stdout.write('x' * 2001)\nNone")
    assert run["stdout"] == "x" * 1968 + MARK


def test_a_letter_is_not_cut_in_two(service):
    run = service.execute("import sys\nsys.stdout.write('é' * 5000)\nNone")
    text = run["stdout"].removesuffix(MARK)
    assert run["stdout"].endswith(MARK)
    assert set(text) == {"é"} and len(text.encode()) in (1967, 1968)


def test_the_processor_has_its_limit(service):
    run = service.execute("while True: pass", timeout_ms=3000)
    assert run["reason"] == "cpu_limit"
    assert run["timed_out"] is False and run["exit_code"] not in (0, None)


def test_memory_has_its_limit(service):
    run = service.execute("x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1", timeout_ms=3000)
    assert run["exit_code"] != 0
    assert run["reason"] == "memory_limit" or "MemoryError" in run["stderr"]


def test_a_file_over_the_limit_is_413_in_the_contracts_words(service):
    assert service.upload_reply("fits", b"x" * (1 << 20)).status == 201
    reply = service.upload_reply("over", b"x" * ((1 << 20) + 1))
    assert reply.status == 413
    assert reply.json()["detail"] == "File size exceeds maximum of 1 MB"
    assert "over" not in [file["filename"] for file in service.get("/v1/files").json()["files"]]


def test_a_file_that_says_it_is_huge_is_413_before_it_comes(service):
    answer = service.raw(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n"
                         b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ") and b"File size exceeds maximum of 1 MB" in answer


def test_the_log_is_json_without_code_or_output(service):
    import json
    run = service.execute("print('never-in-' + 'the-log')")
    lines = [json.loads(line) for line in service.log().splitlines()]
    assert all("event" in line or "msg" in line or len(line) > 1 for line in lines)
    assert run["id"] in service.log()
    assert "never-in-" not in service.log() and "the-log" not in service.log()
