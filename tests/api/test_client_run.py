"""hotcell run --server: as on this machine, but over there."""
import hashlib
import json
import os
import signal
import subprocess

import client
import harness
import pytest

SERVICE = {"output_max_bytes": 20000}


@pytest.fixture
def cli(service, tmp_path):
    return client.Cli(client.url_of(service), tmp_path)


def run(cli, code, *words, **options):
    return cli("run", "-l", "python", "-c", code, *words, **options)


# ---- what comes back ----


def test_output_and_exit_code_are_the_programs(cli):
    result = run(cli, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (result.code, result.out, result.err) == (3, "out\n", "err\n")


def test_the_socket_will_do_too(service, cli):
    result = cli.at(None)("run", "--server", f"unix:{service.socket_path}", "-l", "python", "-c", "print(1)")
    assert (result.code, result.out, result.err) == (0, "1\n", "")


def test_it_runs_over_there_and_not_here(service, cli):
    before = service.metrics()
    assert run(cli, "print(1)").out == "1\n"
    after = service.metrics()
    count = 'hotcell_runs_total{language="python"'
    assert (sum(value for name, value in after.items() if name.startswith(count)) ==
            sum(value for name, value in before.items() if name.startswith(count)) + 1)


def test_local_is_local_though_a_server_is_named(cli):
    lost = cli.at("http://127.0.0.1:1")
    assert lost("run", "-l", "sh", "-c", "echo 1").code == 125
    result = lost("run", "--local", "-l", "sh", "-c", "echo 1", "--isolation", "container")
    assert (result.code, result.out) == (0, "1\n")


def test_output_comes_as_it_is_printed(cli):
    code = "import time\nfor i in range(100):\n print(i, flush=True)\n time.sleep(0.1)"
    process = cli.start("run", "-l", "python", "-c", code, "--timeout", "30s")
    assert process.stdout.readline() == b"0\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=harness.PATIENCE_S)


def test_output_that_is_cut_in_a_reply_comes_whole(cli):
    result = run(cli, "print('x' * 300000)")
    assert result.out == "x" * 300000 + "\n"


def test_max_output_cuts_and_says_so(cli):
    result = run(cli, "print('x' * 300000)", "--max-output", "1000")
    assert result.out == "x" * 1000
    assert "hotcell: output was cut" in result.err


@pytest.mark.parametrize("code, words, status, said", [
    ("while True: pass", ["--timeout", "300ms"], 124, "hotcell: timeout"),
    ("import os; os.kill(os.getpid(), 15)", [], 143, "hotcell: signaled"),
    ("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1", ["--memory", "64M"], None, None),
    ("raise SystemExit(124)", [], 124, ""),
])
def test_exit_codes_are_those_of_a_run_here(cli, code, words, status, said):
    there = run(cli, code, *words)
    here = cli.at(None)("run", "-l", "python", "-c", code, *words)
    assert there.code == here.code
    if status is not None:
        assert there.code == status
        assert there.err.startswith(said)


def test_quiet_makes_no_remarks(cli):
    result = run(cli, "while True: pass", "--timeout", "300ms", "--quiet")
    assert (result.code, result.err) == (124, "")


def test_json_has_all_that_a_run_here_has(cli):
    there = run(cli, "print(input())\nopen('made', 'w').write('1')", "--stdin", "-", "--json",
                input="häh\n".encode()).json()
    here = cli.at(None)("run", "-l", "python", "-c", "print(1)", "--json").json()
    assert set(here) <= set(there)
    assert (there["stdout"], there["stderr"], there["exit_code"], there["reason"]) == ("häh\n", "", 0, "exited")
    assert [file["path"] for file in there["files"]] == ["made"]


def test_json_is_cut_at_max_output(cli):
    result = run(cli, "print('x' * 5000)", "--json", "--max-output", "1000").json()
    assert result["stdout"] == "x" * 1000
    assert result["truncated"]["stdout"] is True and result["truncated"]["stderr"] is False


def test_stats_are_told(cli):
    result = run(cli, "pass", "--stats")
    assert "hotcell: python in " in result.err and " ms wall" in result.err


# ---- what goes there ----


def test_words_reach_the_program(cli):
    result = run(cli, "import sys, os; print(sys.argv[1:], os.environ['NAME'])", "--arg", "a b", "--arg",
                 "ü", "--env", "NAME=x=y")
    assert result.out == "['a b', 'ü'] x=y\n"


def test_the_last_line_is_echoed_only_if_it_is_asked_for(cli):
    assert run(cli, "6 * 7").out == ""
    assert run(cli, "6 * 7", "--last-line").out == "42\n"


def test_a_file_is_run_under_its_name(cli):
    (cli.home / "report.py").write_text("print(__file__)")
    result = cli("run", "report.py")
    assert result.out.strip().endswith("report.py"), result


def test_the_language_is_guessed_from_ending_or_first_line(cli):
    (cli.home / "x.sh").write_text("echo shell")
    (cli.home / "script").write_text("#!/usr/bin/env python3\nprint('python')")
    (cli.home / "nothing").write_text("print('python')")
    assert cli("run", "x.sh").out == "shell\n"
    assert cli("run", "script").out == "python\n"
    result = cli("run", "nothing")
    assert (result.code, result.out) == (125, "") and "-l LANG" in result.err


def test_code_comes_from_a_pipe(cli):
    assert cli("run", "-l", "python", "-", input=b"print(1)").out == "1\n"


def test_a_file_that_is_not_utf8_is_run_all_the_same(cli):
    (cli.home / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nprint(ascii('\xe4'))\n")
    assert cli("run", "latin.py").out == "'\\xe4'\n"


def test_files_go_there_small_and_large(service, cli):
    data = {"small": b"\x00\xff", "large": os.urandom(3 << 20), "dir/a/deep": b"deep", "dir/b": b""}
    for name, content in data.items():
        (cli.home / name).parent.mkdir(parents=True, exist_ok=True)
        (cli.home / name).write_bytes(content)
    before = service.get("/v1/files").json()
    result = run(cli, "import hashlib, os\nfor d, _, names in sorted(os.walk('.')):\n"
                 " for n in sorted(names):\n  p = os.path.join(d, n)\n"
                 "  print(p, hashlib.sha256(open(p, 'rb').read()).hexdigest())",
                 "-f", "small", "-f", "large:other/name", "-f", "dir")
    got = dict(line.split() for line in result.out.splitlines())
    got.pop("./__main__.py", None)
    names = {"small": "./small", "large": "./other/name", "dir/a/deep": "./dir/a/deep", "dir/b": "./dir/b"}
    assert got == {names[name]: hashlib.sha256(content).hexdigest() for name, content in data.items()}
    # What was stored for the run is gone with it.
    assert service.get("/v1/files").json() == before


@pytest.mark.parametrize("words, said", [
    (["--trace"], "--trace"), (["--languages", "/"], "--languages"), (["--file-size", "1M"], "--file-size"),
    (["--open-files", "100"], "--open-files"), (["--local", "--server", "http://x"], "both"),
    (["--timeout", "20h"], "timeout_ms exceeds maximum"), (["--isolation", "process"], "allow_process"),
    (["--network", "host"], "allow_host_network"), (["-l", "nonsense"], "unknown language 'nonsense'"),
    (["--profile", "nonsense"], "nonsense"), (["--arg", b"\xff".decode(errors="surrogateescape")], "UTF-8"),
    (["-f", "absent"], "absent"), (["--stdin", "absent"], "absent"),
])
def test_what_cannot_be_done_is_refused_in_one_sentence(cli, words, said):
    words = [os.fsencode(word) for word in words]
    done = subprocess.run([str(harness.HOTCELL).encode(), b"run", b"-l", b"python", b"-c", b"print(1)", *words],
                          env=cli.env, cwd=cli.home, capture_output=True)
    assert done.returncode == 125 and done.stdout == b""
    assert said in done.stderr.decode() and done.stderr.count(b"\n") <= 2


def test_links_in_a_directory_are_refused(cli):
    (cli.home / "dir").mkdir()
    (cli.home / "dir/file").write_text("1")
    (cli.home / "dir/link").symlink_to("file")
    result = run(cli, "pass", "-f", "dir")
    assert result.code == 125 and "symbolic link" in result.err


# ---- files that come back ----


def test_generated_files_are_fetched(cli):
    result = run(cli, "import os\nos.makedirs('a/b')\nopen('a/b/c', 'wb').write(bytes(range(256)))\n"
                 "open('empty', 'w')", "-o", "out")
    assert result.code == 0, result
    assert (cli.home / "out/a/b/c").read_bytes() == bytes(range(256))
    assert (cli.home / "out/empty").read_bytes() == b""


def test_files_that_are_there_are_replaced_and_links_are_not_followed(cli):
    (cli.home / "out").mkdir()
    (cli.home / "victim").write_text("mine")
    (cli.home / "elsewhere").mkdir()
    (cli.home / "out/made").symlink_to("../victim")
    (cli.home / "out/dir").symlink_to("../elsewhere")
    result = run(cli, "import os\nos.mkdir('dir')\nopen('dir/x', 'w').write('1')\n"
                 "open('made', 'w').write('new')", "-o", "out")
    assert (cli.home / "victim").read_text() == "mine"
    assert (cli.home / "out/made").read_text() == "new" and not (cli.home / "out/made").is_symlink()
    assert not list((cli.home / "elsewhere").iterdir())
    assert "'dir/x' could not be copied" in result.err


# ---- Ctrl-C ----


def test_ctrl_c_cancels_the_run_over_there(service, cli):
    process = cli.start("run", "-l", "python", "-c",
                        "import time; print('on', flush=True); time.sleep(50)", "--timeout", "55s")
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=harness.PATIENCE_S)
    assert (process.returncode, err) == (130, b"hotcell: cancelled\n")
    newest = service.get("/v1/runs?limit=1").json()["runs"][0]
    assert newest["reason"] == "cancelled"


def wait_for_output(service):
    """Until the newest run has printed something."""
    def newest():
        runs = service.get("/v1/runs?limit=1").json()["runs"]
        return runs and runs[0]["state"] == "running" and runs[0]["id"]
    id = harness.wait_until(newest, "it is running")
    with service.stream(f"/v1/runs/{id}/stream", method="GET") as stream:
        assert next(iter(stream))[0] == "output"


def test_ctrl_c_with_json_still_tells_what_there_was(service, cli):
    code = "import time; print('on', flush=True); open('x', 'w'); time.sleep(50)"
    process = cli.start("run", "-l", "python", "-c", code, "--json", "--timeout", "55s")
    wait_for_output(service)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=harness.PATIENCE_S)
    assert process.returncode == 130
    assert json.loads(out)["reason"] == "cancelled" and json.loads(out)["stdout"] == "on\n"


def test_a_reader_that_goes_away_ends_it(service, cli):
    process = cli.start("run", "-l", "python", "-c", "while True: print('y' * 1000)", "--timeout", "55s")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(harness.PATIENCE_S) == 141
    assert process.stderr.read() == b""
    process.stderr.close()
    harness.wait_until(lambda: service.get("/v1/runs?limit=1").json()["runs"][0].get("reason") == "cancelled",
                       "the run was cancelled")


# ---- keys, and servers that are not there ----


def test_one_that_is_not_there_is_told_in_one_line(cli):
    for url in ("http://127.0.0.1:1", "unix:/nonexistent/sock"):
        result = run(cli.at(url), "print(1)")
        assert result.code == 125 and result.out == ""
        assert url in result.err and result.err.count("\n") == 1


def test_a_service_with_keys_wants_one(tmp_path):
    with harness.Running() as running:
        made = subprocess.run([str(harness.HOTCELL), "keys", "add", "me", f"--state-dir={running.state_dir}"],
                              env=running.environment(), capture_output=True, text=True, check=True).stdout
        key = next(word for word in made.split() if word.startswith("hc_"))
        url = client.url_of(running)
        harness.wait_until(lambda: running.get("/v1/runs").status == 401, "keys are wanted")
        cli = client.Cli(url, tmp_path)
        result = run(cli, "print(1)")
        assert result.code == 125 and "--key" in result.err
        assert run(cli, "print(1)", "--key", key).out == "1\n"
        assert run(client.Cli(url, tmp_path, key), "print(1)").out == "1\n"
        place = tmp_path / ".config/hotcell"
        place.mkdir(parents=True)
        (place / "key").write_text(key + "\n")
        (place / "key").chmod(0o600)
        assert run(cli, "print(1)").out == "1\n"
        assert "unknown or revoked" in run(cli, "print(1)", "--key", "hc_wrong").err
