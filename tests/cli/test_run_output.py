"""What a program prints: streamed as it comes, byte for byte, or as one object with --json."""
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import termios
from pathlib import Path

import harness
import pytest

# Deterministic, not compressible by chance, and of every byte value.
MAKE_BYTES = """
import hashlib, sys
def some_bytes(count):
    block = b"".join(hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(4096))
    return (block * (count // len(block) + 1))[:count]
"""
exec(MAKE_BYTES)
FIFTY_MB = 50 * 1000 * 1000


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# ---- streaming ----


def test_output_streams_through_as_it_comes(anyone, isolation):
    """The program goes on only after each line of its was seen out here."""
    process = anyone.start("run", "-q", "-l", "sh", "--stdin", "-", "--isolation", isolation, "-c",
                           "for i in 1 2 3; do echo out$i; read x; echo err$x >&2; read x; done",
                           stdin=subprocess.PIPE)
    for i in (b"1", b"2", b"3"):
        assert process.stdout.readline() == b"out" + i + b"\n"
        process.stdin.write(i + b"\n")
        process.stdin.flush()
        assert process.stderr.readline() == b"err" + i + b"\n"
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert process.wait(harness.PATIENCE_S) == 0


def test_output_without_a_line_end_streams_too(hotcell):
    process = hotcell.start("run", "-l", "sh", "--stdin", "-", "-c", "printf prompt; read x",
                            stdin=subprocess.PIPE)
    assert os.read(process.stdout.fileno(), 100) == b"prompt"
    process.communicate(b"\n", timeout=harness.PATIENCE_S)


def test_a_compilers_output_streams_to_stderr(hotcell):
    result = hotcell.run("-l", "c", "-c", "#warning watch out\nint main(void) { return 0; }")
    assert "watch out" in result.err
    assert (result.out, result.code) == ("", 0)


def test_streams_are_kept_apart(anyone):
    result = anyone.run("-l", "sh", "-c", "echo out; echo err >&2")
    assert (result.out, result.err) == ("out\n", "err\n")


def test_bytes_stream_through_unchanged(anyone):
    result = anyone.run("-l", "python", "-c",
                        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 3)")
    assert result.raw_out == bytes(range(256)) * 3


def test_fifty_megabytes_of_output_are_unharmed(hotcell, tmp_path):
    with open(tmp_path / "out", "wb") as file:
        result = hotcell.run("-l", "python", "-c", MAKE_BYTES +
                             f"sys.stdout.buffer.write(some_bytes({FIFTY_MB}))", stdout=file)
    assert (result.err, result.code) == ("", 0)
    out = (tmp_path / "out").read_bytes()
    assert len(out) == FIFTY_MB
    assert sha256(out) == sha256(some_bytes(FIFTY_MB))  # noqa: F821


def test_a_reader_that_goes_away_ends_the_run(anyone):
    word = harness.token()
    process = anyone.start("run", "-l", "sh", "-c", "yes", "--arg", word, "--timeout", "60s")
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(harness.PATIENCE_S) not in (0, 124)
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")


# ---- input ----


def test_fifty_megabytes_of_input_from_a_file_are_unharmed(hotcell, tmp_path):
    data = some_bytes(FIFTY_MB)  # noqa: F821
    (tmp_path / "big").write_bytes(data)
    result = hotcell.run("-l", "sh", "-c", "sha256sum", "--stdin", tmp_path / "big")
    assert result.out == f"{sha256(data)}  -\n"


def test_fifty_megabytes_of_input_from_a_pipe_are_unharmed(hotcell):
    data = some_bytes(FIFTY_MB)  # noqa: F821
    result = hotcell.run("-l", "sh", "-c", "sha256sum", "--stdin", "-", input=data)
    assert result.out == f"{sha256(data)}  -\n"


def test_input_and_output_flow_at_the_same_time(anyone):
    data = some_bytes(8 << 20)  # noqa: F821
    result = anyone.run("-l", "sh", "-c", "cat", "--stdin", "-", input=data)
    assert sha256(result.raw_out) == sha256(data)


def test_input_may_be_ignored(anyone):
    result = anyone.run("-l", "sh", "-c", "echo done", "--stdin", "-", input=bytes(4 << 20))
    assert (result.out, result.err, result.code) == ("done\n", "", 0)


def test_input_may_be_closed_early(anyone):
    result = anyone.run("-l", "sh", "-c", "exec <&-; sleep 0.1; echo done", "--stdin", "-",
                        input=bytes(4 << 20))
    assert (result.out, result.err, result.code) == ("done\n", "", 0)


def test_empty_input_is_empty(anyone):
    result = anyone.run("-l", "sh", "-c", "wc -c", "--stdin", "-", input=b"")
    assert result.out == "0\n"
    assert anyone.run("-l", "sh", "-c", "wc -c", "--stdin", "/dev/null").out == "0\n"


def test_input_from_a_fifo(hotcell, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    process = hotcell.start("run", "-l", "sh", "-c", "cat", "--stdin", tmp_path / "fifo")
    (tmp_path / "fifo").write_bytes(b"through the fifo\n")
    assert process.communicate(timeout=harness.PATIENCE_S)[0] == b"through the fifo\n"


# ---- code ----


def test_code_comes_from_standard_input(anyone):
    result = anyone.run("-l", "python", "-", input=b"print(6 * 7)\n")
    assert (result.out, result.code) == ("42\n", 0)


def test_code_from_standard_input_may_have_any_bytes(hotcell):
    code = b"import sys\nsys.stdout.write(repr('\xc3\xbc'))\n#" + b"x" * 2_000_000
    assert hotcell.run("-l", "python", "-", input=code).out == "'ü'"
    result = hotcell.run("-l", "sh", "-", input=b"echo one\n\0\necho two\n")
    assert result.out.startswith("one\n"), "a NUL does not end the code"


def test_code_from_standard_input_tells_its_language_by_its_first_line(hotcell):
    assert hotcell.run("-", input=b"#!/usr/bin/env python3\nprint(6 * 7)\n").out == "42\n"
    assert hotcell.run("-", input=b"#!/usr/bin/perl -w\nprint 6 * 7\n").out == "42"


def test_empty_code_is_a_program_that_does_nothing(anyone):
    for args in (["-c", ""], ["-"]):
        result = anyone.run("-l", "python", *args, input=b"")
        assert (result.out, result.err, result.code) == ("", "", 0)


def test_code_may_be_unicode(hotcell):
    assert hotcell.run("-l", "python", "-c", "print('grüße 🔥', '\\N{SNOWMAN}')").out == "grüße 🔥 ☃\n"


def test_code_given_as_text_may_be_large(hotcell):
    code = "x = '" + "y" * 120_000 + "'; print(len(x))"
    assert hotcell.run("-l", "python", "-c", code).out == "120000\n"


# ---- --json ----

KEYS = {
    "stdout": str, "stderr": str, "exit_code": int, "reason": str, "reason_text": str,
    "timed_out": bool, "duration_ms": int, "isolation": str, "isolation_why": str,
    "language": str, "compile": type(None), "files": list, "files_incomplete": bool, "usage": dict,
    "truncated": dict, "limits_not_enforced": list,
}


def test_json_prints_one_object_with_the_documented_keys(anyone):
    result = anyone.run("--json", "-l", "sh", "-c", "echo out; echo err >&2; echo x >file; exit 3")
    assert result.out.endswith("}\n") and result.out.count("\n") == 1
    object = json.loads(result.out)
    machine = {"vm": dict if object["isolation"] == "vm" else type(None)}
    assert {key: type(value) for key, value in object.items()} == KEYS | machine
    assert {key: type(value) for key, value in object["usage"].items()} == {
        "cpu_ms": int, "peak_memory_bytes": int, "processes": int}
    assert object["truncated"] == {"stdout": False, "stderr": False}
    assert object["files"] == [{"path": "file", "size_bytes": 2, "kind": "file"}]
    assert (object["stdout"], object["stderr"]) == ("out\n", "err\n")
    assert (object["exit_code"], object["reason"], object["language"]) == (3, "exited", "sh")
    assert all(isinstance(limit, str) for limit in object["limits_not_enforced"])
    assert result.code == 3
    assert result.err == "", "nothing is streamed"


def test_json_has_a_compile_object_for_compiled_languages(hotcell):
    compile = hotcell.json("-l", "c", "-c", "int main(void) { return 0; }")["compile"]
    assert {key: type(value) for key, value in compile.items()} == {
        "stdout": str, "stderr": str, "exit_code": int, "duration_ms": int}


def test_usage_is_plausible(anyone):
    usage = anyone.json("-l", "python", "-c", """
import os, time
keep = bytearray(50 << 20)
for i in range(3):
    if os.fork() == 0: time.sleep(0.2); os._exit(0)
while time.process_time() < 0.2: pass
for i in range(3): os.wait()
""")["usage"]
    assert usage["cpu_ms"] >= 150
    assert usage["peak_memory_bytes"] >= 50 << 20
    assert usage["processes"] == 4


def test_the_duration_is_the_programs(anyone):
    object = anyone.json("-l", "sh", "-c", "sleep 0.3")
    assert object["duration_ms"] >= 300


def test_json_of_a_failure_of_hotcells_own_is_nothing_but_a_message(hotcell):
    result = hotcell.run("--json", "-l", "nonsense", "-c", "x")
    assert (result.out, result.code) == ("", 125)
    assert result.err.startswith("hotcell: ")


@pytest.mark.parametrize("raw, shown", [
    (rb"a\xffb", "a\ufffdb"),
    (rb"\xff\xfe", "\ufffd\ufffd"),
    (rb"\xc3(", "\ufffd("),
    (rb"\xe2\x82", "\ufffd"),
    (rb"\xe2\x82x", "\ufffdx"),
    (rb"\xf0\x9f\x94\xa5", "\U0001f525"),
    (rb"\xf0\x9f\x94", "\ufffd"),
    (rb"\xed\xa0\x80", "\ufffd" * 3),
    (rb"\xc0\x80", "\ufffd" * 2),
    (rb"\xf4\x90\x80\x80", "\ufffd" * 4),
    (rb"a\0b", "a\0b"),
    (rb"\x1b[31mred\x1b[0m\r\n\t\"\\", "\x1b[31mred\x1b[0m\r\n\t\"\\"),
])
def test_output_that_is_not_utf8_is_shown_with_replacement_characters(hotcell, raw, shown):
    for stream in ("stdout", "stderr"):
        code = f"import sys; sys.{stream}.buffer.write(b\"" + raw.decode() + "\")"
        assert hotcell.json("-l", "python", "-c", code)[stream] == shown


def test_a_character_cut_by_a_frame_is_whole_again(hotcell):
    """Output travels in pieces; a character may lie across two of them."""
    object = hotcell.json("-l", "python", "-c", "print('x' + 'ü€🔥' * 50000, end='')")
    assert object["stdout"] == "x" + "ü€🔥" * 50000


# ---- --max-output ----


def test_json_shows_a_megabyte_of_each_stream_and_says_what_is_cut(hotcell):
    object = hotcell.json("-l", "python", "-c",
                          "import sys; sys.stdout.write('o' * 1500000); sys.stderr.write('e' * 999999)"
                          "; open('end', 'w')")
    assert object["stdout"] == "o" * 1_000_000
    assert object["stderr"] == "e" * 999_999
    assert object["truncated"] == {"stdout": True, "stderr": False}
    assert (object["reason"], [file["path"] for file in object["files"]]) == ("exited", ["end"])


@pytest.mark.parametrize("size, count", [("10", 10), ("1", 1), ("2k", 2048), ("1M", 1 << 20)])
def test_max_output_cuts_and_the_run_goes_on(hotcell, size, count):
    code = "import sys; sys.stdout.write('o' * 3000000); sys.stderr.write('e' * 3000000); sys.exit(5)"
    object = hotcell.json("-l", "python", "-c", code, "--max-output", size)
    assert (len(object["stdout"]), len(object["stderr"])) == (count, count)
    assert object["truncated"] == {"stdout": True, "stderr": True}
    assert (object["reason"], object["exit_code"]) == ("exited", 5)
    result = hotcell.run("-l", "python", "-c", code, "--max-output", size)
    assert result.raw_out == b"o" * count
    assert result.raw_err.startswith(b"e" * count + b"hotcell: ") and "was cut" in result.err
    assert result.code == 5


def test_max_output_says_nothing_when_nothing_was_cut(hotcell):
    result = hotcell.run("-l", "sh", "-c", "echo hello", "--max-output", "6")
    assert (result.out, result.err) == ("hello\n", "")
    object = hotcell.json("-l", "sh", "-c", "echo hello", "--max-output", "6")
    assert object["truncated"] == {"stdout": False, "stderr": False}


def test_without_max_output_all_is_streamed(hotcell):
    result = hotcell.run("-l", "python", "-c", "print('x' * 3000000)")
    assert len(result.out) == 3_000_001
    assert result.err == ""


# ---- --stats and --quiet ----


def test_stats_go_to_stderr(anyone, isolation):
    result = anyone.run("--stats", "-q", "--isolation", isolation, "-l", "sh", "-c", "echo x >f")
    (line,) = [line for line in result.err.splitlines() if "ms wall" in line]
    for word in ("hotcell: sh in " + isolation, "ms cpu", "MiB memory", "processes", "1 files"):
        assert word in line
    assert result.out == ""


def test_stats_beside_json(hotcell):
    result = hotcell.run("--stats", "--json", "-l", "sh", "-c", "")
    json.loads(result.out)
    assert "ms wall" in result.err


def test_without_stats_there_are_none(anyone):
    assert anyone.run("-l", "sh", "-c", "").err == ""


def test_quiet_means_no_remarks_but_errors(anyone):
    result = anyone.run("-q", "-l", "sh", "--timeout", "1s", "-c", "echo out; sleep 60")
    assert (result.out, result.err, result.code) == ("out\n", "", 124)
    assert anyone.run("--quiet", "-l", "nonsense", "-c", "x").err != ""


def test_a_remark_names_the_reason_otherwise(anyone):
    result = anyone.run("-l", "sh", "--timeout", "100ms", "-c", "sleep 60")
    assert result.err == "hotcell: timeout: wall limit of 100ms reached\n"


# ---- --last-line ----


@pytest.mark.parametrize("language, code, shown", [
    ("python", "x = 6\nx * 7", "42\n"),
    ("python", "print('p')\n'text'", "p\n'text'\n"),
    ("python", "x = 1", ""),
    ("python", "None", ""),
    ("python", "import sys\nsys.argv[1:]", "['a b']\n"),
    ("python", "[1,\n 2][0]", "1\n"),
    ("javascript", "const x = 6; x * 7", "42\n"),
    ("javascript", "console.log('p'); ({ a: [1, 'x'] })", "p\n{ a: [ 1, 'x' ] }\n"),
    ("javascript", "let x = 1;", ""),
    ("javascript", "undefined", ""),
    ("javascript", "await Promise.resolve(7)", "7\n"),
    ("javascript", "process.argv.slice(2)", "[ 'a b' ]\n"),
])
def test_last_line_echoes_the_value_of_a_last_expression(hotcell, language, code, shown):
    result = hotcell.run("--last-line", "-l", language, "-c", code, "--arg", "a b")
    assert (result.out, result.err, result.code) == (shown, "", 0)


@pytest.mark.parametrize("language, code", [("python", "6 * 7"), ("javascript", "6 * 7")])
def test_without_last_line_it_is_not_echoed(hotcell, language, code):
    assert hotcell.run("-l", language, "-c", code).out == ""


def test_last_line_keeps_errors_and_exit_codes(hotcell):
    result = hotcell.run("--last-line", "-l", "python", "-c", "import sys\nsys.exit(4)")
    assert (result.out, result.code) == ("", 4)
    result = hotcell.run("--last-line", "-l", "python", "-c", "def f():\n  return 1 / 0\nf()")
    assert "ZeroDivisionError" in result.err and "last_line" not in result.err
    assert result.code == 1
    result = hotcell.run("--last-line", "-l", "javascript", "-c", "null.x")
    assert "TypeError" in result.err
    assert result.code == 1


def test_last_line_is_refused_where_there_is_no_such_thing(hotcell):
    result = hotcell.run("--last-line", "-l", "c", "-c", "1")
    assert (result.out, result.code) == ("", 125)
    assert "last line" in result.err


# ---- Ctrl-C ----


def test_ctrl_c_in_a_terminal_ends_the_cell_and_shows_what_there_was(hotcell, isolation):
    word = harness.token()
    controller, terminal = os.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = hotcell.start(
        "run", "-l", "sh", "-c", "trap '' INT TERM HUP; echo before; while :; do sleep 1000; done",
        "--isolation", isolation, "--arg", word, stdin=terminal, preexec_fn=take_terminal)
    os.close(terminal)
    assert process.stdout.readline() == b"before\n"
    os.write(controller, b"\x03")
    out, err = process.communicate(timeout=harness.PATIENCE_S)
    os.close(controller)
    assert (process.returncode, out) == (130, b"")
    assert b"cancelled" in err
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_cell_and_leaves_nothing(anyone, isolation, number):
    word = harness.token()
    process = anyone.start("run", "-l", "sh", "-c", "echo before; sleep 1000", "--arg", word,
                           "--isolation", isolation)
    assert process.stdout.readline() == b"before\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=harness.PATIENCE_S)
    assert process.returncode == 130
    assert b"cancelled" in err
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")


def test_a_signal_while_compiling_ends_the_cell(hotcell, tmp_path):
    (tmp_path / "slow.yaml").write_text("""
id: slow
name: Slow
file: main.txt
find: [{ program: /bin/sh }]
version: ["{program}", -c, "echo 1"]
compile: [/bin/sh, -c, "echo compiling >&2; sleep 1000"]
run: [/bin/echo, ran]
""")
    process = hotcell.start("run", "--languages", tmp_path, "-l", "slow", "-c", "x")
    assert process.stderr.readline() == b"compiling\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=harness.PATIENCE_S)
    assert (process.returncode, out) == (130, b"")


def test_the_own_directory_of_hotcell_is_not_where_the_program_runs(hotcell, tmp_path):
    hotcell.run("-l", "sh", "-c", "echo x >file", cwd=tmp_path)
    assert os.listdir(tmp_path) == []
    assert Path("/file").exists() is False
