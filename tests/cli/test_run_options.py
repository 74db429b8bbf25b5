"""The options of `hotcell run`: what each does, and what it says to wrong input."""
import os
import re

import harness
import pytest


def message(result):
    """A message of hotcell's own, and nothing else."""
    assert result.code == 125, result
    assert result.out == ""
    assert result.err.startswith("hotcell"), result
    return result.err


# ---- what is run, and in which language ----


def test_a_file_is_run_under_its_own_name(anyone, public):
    (public / "greet.py").write_text("import sys; print(__file__, sys.argv[0])")
    assert anyone.run(public / "greet.py").out == "/workspace/greet.py greet.py\n"


def test_code_given_as_text_has_the_languages_file_name(hotcell):
    assert hotcell.run("-l", "python", "-c", "print(__file__)").out == "/workspace/main.py\n"
    assert hotcell.run("-l", "bash", "-c", "echo $0").out == "main.sh\n"


@pytest.mark.parametrize("name, language", [
    ("x.py", "python"), ("x.PY", "python"), ("x.js", "javascript"), ("x.mjs", "javascript"),
    ("x.sh", "bash"), ("x.c", "c"), ("x.C", "cpp"), ("x.cpp", "cpp"), ("x.cc", "cpp"), ("x.go", "go"),
    ("x.rs", "rust"), ("x.java", "java"), ("x.rb", "ruby"), ("x.pl", "perl"), ("x.php", "php"),
    ("x.lua", "lua"), ("x.R", "r"), ("x.r", "r"), ("x.sql", "sqlite"), ("x.awk", "awk"),
    ("x.tar.py", "python"), (".hidden.py", "python")])
def test_the_ending_tells_the_language(hotcell, tmp_path, name, language):
    (tmp_path / name).write_text("")
    object = hotcell.json(tmp_path / name)
    assert object["language"] == language


@pytest.mark.parametrize("line, language", [
    ("#!/bin/sh", "sh"), ("#!/bin/bash -eu", "bash"), ("#! /usr/bin/python3", "python"),
    ("#!/usr/bin/env python3", "python"), ("#!/usr/bin/env -S python3.11 -u", "python"),
    ("#!/usr/bin/env A=b node", "javascript"), ("#!/usr/bin/perl", "perl"), ("#!/usr/bin/lua5.4", "lua"),
    ("#!/usr/bin/gawk -f", "awk"), ("#!/usr/bin/Rscript", "r"), ("#!/opt/x/ruby3.1", "ruby")])
def test_the_first_line_tells_the_language(hotcell, tmp_path, line, language):
    (tmp_path / "script").write_text(line + "\n")
    assert hotcell.json(tmp_path / "script")["language"] == language
    assert hotcell.json("-c", line + "\n")["language"] == language


def test_the_ending_is_stronger_than_the_first_line(hotcell, tmp_path):
    (tmp_path / "x.sh").write_text("#!/usr/bin/python3\necho $((6 * 7))")
    assert hotcell.run(tmp_path / "x.sh").out == "42\n"


def test_what_is_asked_for_is_stronger_than_both(hotcell, tmp_path):
    (tmp_path / "x.sh").write_text("#!/bin/sh\nprint(6 * 7)")
    assert hotcell.run("-l", "python", tmp_path / "x.sh").out == "42\n"


def test_a_language_that_nothing_tells_is_an_error(hotcell, tmp_path):
    (tmp_path / "mystery").write_text("hello")
    assert "language" in message(hotcell.run(tmp_path / "mystery"))
    assert "language" in message(hotcell.run("-", input=b"hello"))
    assert "-l LANG" in message(hotcell.run("-c", "hello"))


def test_entry_says_which_of_several_files_is_run(anyone, public):
    project = public / f"project-{harness.token()}"
    (project / "src").mkdir(parents=True)
    (project / "src/main.py").write_text("import sys, helper; print(helper.twice(21), sys.argv[1:])")
    (project / "src/helper.py").write_text("def twice(x): return 2 * x")
    result = anyone.run("-f", f"{project}:app", "--entry", "app/src/main.py", "--arg", "x")
    assert (result.out, result.err, result.code) == ("42 ['x']\n", "", 0)


def test_entry_of_compiled_files_finds_what_is_beside_it(hotcell, tmp_path):
    (tmp_path / "main.c").write_text('#include "answer.h"\nint main(void) { return ANSWER; }')
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    assert hotcell.run("-f", tmp_path / "main.c", "-f", tmp_path / "answer.h", "--entry",
                       "main.c").code == 42
    assert hotcell.run(tmp_path / "main.c", "-f", tmp_path / "answer.h").code == 42


def test_entry_names_the_code_given_as_text(hotcell):
    result = hotcell.run("--entry", "pkg/tool.py", "-c", "print(__file__)")
    assert result.out == "/workspace/pkg/tool.py\n"


def test_an_entry_that_is_not_there_is_an_error(hotcell, tmp_path):
    (tmp_path / "a.py").write_text("")
    assert "no.py" in message(hotcell.run("-f", tmp_path / "a.py", "--entry", "no.py"))


def test_code_does_not_overwrite_a_file_that_was_handed_in(hotcell, tmp_path):
    (tmp_path / "main.py").write_text("")
    assert "main.py" in message(hotcell.run("-l", "python", "-c", "1", "-f", tmp_path / "main.py"))


def test_arguments_reach_the_program_as_they_are(anyone):
    args = ["", "-x", "--json", "a b", "$HOME", "*", "\n", "ü", "--", "'\"\\"]
    result = anyone.run("-l", "python", "-c", "import sys; print(sys.argv[1:])",
                        *(f"--arg={arg}" for arg in args))
    assert result.out == repr(args) + "\n"


def test_options_may_stand_anywhere(hotcell, tmp_path):
    (tmp_path / "x.py").write_text("import sys; print(sys.argv[1:])")
    assert hotcell.run("--arg", "1", tmp_path / "x.py", "--arg", "2").out == "['1', '2']\n"


def test_a_file_whose_name_begins_with_a_dash(hotcell, tmp_path):
    (tmp_path / "-x.py").write_text("print(6 * 7)")
    assert hotcell.run("--", "-x.py", cwd=tmp_path).out == "42\n"
    assert hotcell.run("./-x.py", cwd=tmp_path).out == "42\n"


# ---- times and sizes ----


@pytest.mark.parametrize("time", ["30", "30s", "0.5m", "30000ms", "1h", "2min", "1.5s"])
def test_times_are_written_in_many_ways(hotcell, time):
    assert hotcell.run("-l", "sh", "-c", "exit 3", "--timeout", time, "--cpu-time", time).code == 3


@pytest.mark.parametrize("size, bytes", [
    ("65536", 65536), ("64k", 65536), ("64K", 65536), ("64KB", 65536), ("64KiB", 65536),
    ("0.0625M", 65536), ("1M", 1 << 20), ("1mb", 1 << 20), ("1G", 1 << 30)])
def test_sizes_are_written_in_many_ways(hotcell, size, bytes):
    result = hotcell.run("-l", "sh", "-c", "ulimit -f", "--file-size", size)
    assert result.out == f"{bytes // 512}\n"


def test_the_wall_limit_may_be_longer_than_the_default(hotcell):
    """A longer time on the clock brings as much processor time along."""
    assert hotcell.run("-l", "sh", "-c", "ulimit -t", "--timeout", "90s").out == "91\n"
    assert hotcell.run("-l", "sh", "-c", "ulimit -t", "--timeout", "90s", "--cpu-time", "5s").out == (
        "6\n")


# ---- wrong input ----

WRONG = [
    (["--timeout", "0"], "timeout = '0': want a time"),
    (["--timeout", "-1s"], "timeout = '-1s': want a time"),
    (["--timeout", "ten"], "timeout = 'ten': want a time"),
    (["--timeout", ""], "timeout = '': want a time"),
    (["--timeout", "10x"], "timeout = '10x'"),
    (["--timeout", "1e9s"], "timeout = '1e9s'"),
    (["--timeout", "inf"], "timeout = 'inf'"),
    (["--timeout", "nan"], "timeout = 'nan'"),
    (["--timeout", "25h"], "timeout = '25h'"),
    (["--timeout", "10 s"], "timeout = '10 s'"),
    (["--cpu-time", "0"], "cpu-time = '0': want a time"),
    (["--cpu-time", "x"], "cpu-time = 'x'"),
    (["--memory", "0"], "memory = '0': want a size"),
    (["--memory", "1k"], "memory = '1k': want a size from 4M"),
    (["--memory", "lots"], "memory = 'lots'"),
    (["--memory", "-5M"], "memory = '-5M'"),
    (["--memory", "0x100000000"], "memory = '0x100000000'"),
    (["--memory", "99999999999999999999"], "memory = '99999999999999999999'"),
    (["--cpus", "0"], "cpus = '0': want a number"),
    (["--cpus", "half"], "cpus = 'half'"),
    (["--cpus", "-1"], "cpus = '-1'"),
    (["--cpus", "1e9"], "cpus = '1e9'"),
    (["--pids", "0"], "pids = '0': want a number from 1"),
    (["--pids", "1.5"], "pids = '1.5'"),
    (["--pids", "99999999"], "pids = '99999999'"),
    (["--pids", "-3"], "pids = '-3'"),
    (["--disk", "1"], "disk = '1': want a size"),
    (["--disk", "x"], "disk = 'x'"),
    (["--file-size", "0"], "file-size = '0'"),
    (["--file-size", "x"], "file-size = 'x'"),
    (["--open-files", "1"], "open-files = '1': want a number from 16"),
    (["--open-files", "x"], "open-files = 'x'"),
    (["--output-end", "1"], "output-end = '1': want a size"),
    (["--output-end", "x"], "output-end = 'x'"),
    (["--max-output", "0"], "max-output = '0'"),
    (["--max-output", "x"], "max-output = 'x'"),
    (["--max-output", "-1"], "max-output = '-1'"),
    (["--isolation", "none"], "isolation = 'none': want auto, vm, container or process"),
    (["--isolation", ""], "isolation = ''"),
    (["--network", "yes"], "network = 'yes': want none or host"),
    (["--env", "NAME"], "env = 'NAME': want NAME=VALUE"),
    (["--env", "=x"], "env = '=x': want NAME=VALUE"),
    (["--stdin", "/nonexistent/file"], "'/nonexistent/file': No such file or directory"),
    (["-f", "/nonexistent/file"], "'/nonexistent/file': No such file or directory"),
    (["-f", "/nonexistent/file:x"], "'/nonexistent/file': No such file or directory"),
    (["-f", "/dev/null"], "'/dev/null' is not a file or directory"),
    (["-f", "/bin/sh:/abs"], "File paths must be relative"),
    (["-f", "/bin/sh:a/../b"], "File paths must not contain '..'"),
    (["-f", "/bin/sh:.."], "File paths must not contain '..'"),
    (["-f", "/bin/sh:./x"], "'.'"),
    (["-f", "/bin/sh:"], "must not be empty"),
    (["-f", "/bin/sh:a//b"], "empty names"),
    (["-f", "/bin/sh:a/"], "empty names"),
    (["-f", "/bin/sh:" + "x" * 256], "longer than 255 bytes"),
    (["-f", "/bin/sh:" + "x/" * 300 + "x"], "deeper"),
    (["-f", "/bin/sh:" + ("y" * 200 + "/") * 30 + "x"], "longer than"),
    (["-l", "nonsense"], "unknown language 'nonsense'; 'hotcell languages' lists them"),
    (["-l", ""], "unknown language"),
    (["--languages", "/nonexistent/languages"], "/nonexistent/languages"),
    (["-o", "/nonexistent/deep/out"], "/nonexistent/deep/out"),
    (["-o", "/bin/sh"], "/bin/sh"),
    (["--no-such-option"], "--no-such-option"),
    (["-Z"], "Z"),
    (["--timeout"], "timeout"),
    (["--json=yes"], "json"),
    (["extra.py"], "both -c and FILE"),
]


@pytest.mark.parametrize("args, said", WRONG, ids=[" ".join(args)[:40] for args, _ in WRONG])
def test_wrong_input_gets_a_clear_message_and_125(hotcell, tmp_path, args, said):
    result = hotcell.run("-l", "sh", "-c", "echo ran", *args)
    assert said in message(result)
    assert os.listdir(tmp_path) == []


def test_wrong_input_says_what_was_wanted(hotcell):
    err = message(hotcell.run("-l", "sh", "-c", "", "--memory", "1k"))
    assert "want a size from 4M to 1" in err and "memory of the whole cell" in err


@pytest.mark.parametrize("args, said", [
    ([], "what is to be run?"),
    (["-l", "python"], "what is to be run?"),
    (["a.py", "b.py"], "more than one FILE: 'a.py' and 'b.py'"),
    (["/nonexistent/x.py"], "'/nonexistent/x.py': No such file or directory"),
    (["/bin"], "'/bin' is a directory"),
    (["-l", "python", "/bin"], "'/bin' is a directory"),
    (["/etc/hostname"], "'/etc/hostname': the language is not named, and neither an ending nor a #! line tells it; "
     "give -l LANG"),
    (["-f", "/bin/sh", "--entry", "../x"], "entry = '../x': File paths must not contain '..'."),
    (["-f", "/bin/sh", "--entry", "/x"], "entry = '/x': File paths must be relative."),
    (["-l", "sh", "-f", "/etc/passwd:x", "-f", "/etc/group:x", "--entry", "x"],
     "both '/etc/passwd' and '/etc/group' would be 'x' in the workspace"),
    (["-l", "sh", "/etc/passwd", "-f", "/etc/group:passwd"], "would be 'passwd' in the workspace"),
    (["-", "-l", "sh", "--stdin", "-"], "standard input cannot be both"),
    (["-l", "sh", "/dev/null"], "'/dev/null'"),
])
def test_what_cannot_be_run_gets_a_clear_message_and_125(hotcell, args, said):
    assert said in message(hotcell.run(*args))


def test_one_file_given_twice_and_directories_of_one_name_are_fine(hotcell, tmp_path):
    for name in "ab":
        (tmp_path / name / "d").mkdir(parents=True)
        (tmp_path / name / "d" / name).touch()
    script = tmp_path / "s.sh"
    script.write_text("ls d")
    assert hotcell.run(script, "-f", script, "-f", tmp_path / "a/d", "-f", tmp_path / "b/d").out == "a\nb\n"


def test_a_file_that_may_not_be_read_is_named(hotcell, tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("print(1)")
    secret.chmod(0)
    if os.access(secret, os.R_OK):  # we are root: then a directory in its place
        secret.unlink()
        secret.mkdir()
    assert "secret.py" in message(hotcell.run(secret))


def test_many_of_one_option_are_fine_and_too_many_are_told(hotcell):
    code = "import sys; print(len(sys.argv) - 1)"
    assert hotcell.run("-l", "python", "-c", code, *["--arg=x"] * 255).out == "255\n"
    assert "more than 255" in message(hotcell.run("-l", "python", "-c", code, *["--arg=x"] * 256))
    result = hotcell.run("-l", "sh", "-c", r"tr '\0' '\n' </proc/self/environ | grep -c ^N",
                         *(f"--env=N{i}=x" for i in range(200)))
    assert result.out == "200\n"


def test_arguments_that_are_too_long_together_are_told(hotcell):
    err = message(hotcell.run("-l", "sh", "-c", "", *["--arg=" + "x" * 100_000] * 10))
    assert "arguments" in err and "bytes" in err


# ---- help ----


def test_help_is_on_stdout_and_names_every_command(hotcell):
    for args in (["--help"], ["-h"], ["help"]):
        result = hotcell(*args)
        assert (result.code, result.err) == (0, "")
        for command in ("run", "languages", "doctor"):
            assert re.search(rf"^  {command}\s", result.out, re.M)


@pytest.mark.parametrize("command", ["run", "languages", "doctor"])
def test_every_command_has_help(hotcell, command):
    result = hotcell(command, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"hotcell {command}" in result.out
    assert hotcell(command, "--usage").code == 0


def test_without_a_command_help_goes_to_stderr(hotcell):
    result = hotcell()
    assert (result.code, result.out) == (125, "")
    assert "usage: hotcell" in result.err


def test_an_unknown_command_is_told(hotcell):
    assert "unknown command 'fly'" in message(hotcell("fly"))


def test_version(hotcell):
    for flag in ("--version", "-V"):
        result = hotcell(flag)
        assert re.fullmatch(r"hotcell \d+\.\d+\.\d+\n", result.out)
        assert result.code == 0


@pytest.mark.parametrize("command", ["languages", "doctor"])
def test_wrong_input_to_other_commands_is_told(hotcell, command):
    assert "--nonsense" in message(hotcell(command, "--nonsense"))
    assert "arguments" in message(hotcell(command, "extra"))
