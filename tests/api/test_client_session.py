"""hotcell session: what the verbs do, against a service."""
import re
import signal

import client
import harness
import pytest


@pytest.fixture
def cli(service, tmp_path):
    return client.Cli(client.url_of(service), tmp_path)


@pytest.fixture
def id(cli):
    made = cli("session", "new")
    assert made.code == 0 and re.fullmatch(r"[0-9a-f-]{36}\n", made.out), made
    id = made.out.strip()
    yield id
    cli("session", "close", id)


def execute(cli, id, code, *words, **options):
    return cli("session", "exec", id, "-c", code, *words, **options)


def test_variables_and_files_stay_between_runs(cli, id):
    assert execute(cli, id, "x = 41; open('f', 'w').write('hi')").code == 0
    result = execute(cli, id, "print(x + 1, open('f').read())")
    assert (result.code, result.out, result.err) == (0, "42 hi\n", "")


def test_the_server_may_be_named_before_exec(cli, id, service):
    server = client.url_of(service)
    for words in (["--server", server], [f"--server={server}"]):
        result = cli("session", *words, "exec", id, "-c", "print(6 * 7)")
        assert (result.code, result.out) == (0, "42\n"), result
    assert cli("session", "--server", server, "exec").code == 125


def test_exec_has_the_options_of_run(cli, id):
    (cli.home / "program.py").write_text("import sys; print(sys.argv[1:], input())")
    result = cli("session", "exec", id, "program.py", "--arg", "a", "--stdin", "-", input=b"in\n")
    assert result.out == "['a'] in\n"
    assert execute(cli, id, "6 * 7", "--last-line").out == "42\n"
    assert execute(cli, id, "raise SystemExit(3)").code == 3
    seen = execute(cli, id, "print(1)", "--json").json()
    assert (seen["stdout"], seen["session_id"]) == ("1\n", id)
    assert execute(cli, id, "open('made', 'w').write('x')", "-o", "out").code == 0


def test_exec_refuses_what_is_the_sessions(cli, id):
    for words in (["--isolation", "vm"], ["--network", "host"], ["--profile", "x"], ["--local"]):
        result = execute(cli, id, "1", *words)
        assert result.code == 125 and result.err.startswith("hotcell"), words


def test_ctrl_c_cancels_what_runs_in_it(cli, id):
    process = cli.start("session", "exec", id, "-c", "import time; print(1, flush=True); time.sleep(50)",
                        "--timeout", "55s")
    assert process.stdout.readline() == b"1\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=harness.PATIENCE_S)
    assert process.returncode == 130


def test_interrupt_is_ctrl_c_for_the_program_and_its_variables_stay(cli, id):
    assert execute(cli, id, "x = 5").code == 0
    process = cli.start("session", "exec", id, "-c",
                        "import time\ntry:\n print(1, flush=True); time.sleep(50)\n"
                        "except KeyboardInterrupt: print('caught')", "--timeout", "55s")
    assert process.stdout.readline() == b"1\n"
    assert cli("session", "interrupt", id).code == 0
    out, _ = process.communicate(timeout=harness.PATIENCE_S)
    assert (process.returncode, out) == (0, b"caught\n")
    assert execute(cli, id, "print(x)").out == "5\n"
    assert "Nothing runs" in cli("session", "interrupt", id).err


def test_bash_prints_and_ends_as_the_command_does(cli, id):
    result = cli("session", "bash", id, "echo out; echo err >&2; exit 7")
    assert (result.code, result.out, result.err) == (7, "out\n", "err\n")
    assert cli("session", "bash", id, "sleep 20", "--timeout", "300ms").code == 124
    assert cli("session", "bash", id, "echo 1", "--json").json()["stdout"] == "1\n"


def test_files_are_put_listed_got_and_removed(cli, id):
    (cli.home / "data").write_bytes(bytes(range(256)))
    assert cli("session", "put", id, "data").code == 0
    assert cli("session", "put", id, "data", "dir/with space/ü?#%.bin").code == 0
    assert execute(cli, id, "open('new', 'w').write('1')").code == 0
    paths = {file["path"] for file in cli("session", "files", id, "--json").json()["files"] if file["kind"] == "file"}
    assert paths >= {"data", "dir/with space/ü?#%.bin", "new"}
    made = {file["path"] for file in cli("session", "files", id, "--generated", "--json").json()["files"]}
    assert "new" in made and "data" not in made
    assert re.search(r"^file +256 B +no +data$", cli("session", "files", id).out, re.M)
    assert cli("session", "get", id, "dir/with space/ü?#%.bin").raw_out == bytes(range(256))
    assert cli("session", "get", id, "data", "-o", "got").code == 0
    assert (cli.home / "got").read_bytes() == bytes(range(256))
    assert cli("session", "rm", id, "data", "dir").code == 0
    assert cli("session", "get", id, "data").code == 125
    for path in ("../x", "/etc/passwd", "a/../../x"):
        assert cli("session", "get", id, path).code == 125


def test_new_takes_its_settings(cli):
    (cli.home / "dir").mkdir()
    (cli.home / "dir/in").write_text("content")
    id = cli("session", "new", "-l", "bash", "--isolation", "container", "--strategy", "per_execution",
             "--workspace", "shared", "--env", "NAME=x y", "-f", "dir", "--ttl", "5m", "--idle-timeout", "2m",
             "--memory", "128M", "--pids", "20", "--user", "somebody").out.strip()
    config = cli("session", "show", id, "--json").json()["config"]
    assert config["language"] == "bash" and config["isolation"] == "container"
    assert (config["strategy"], config["workspace"]) == ("per_execution", "shared")
    assert (config["ttl_seconds"], config["idle_timeout"]) == (300, 120)
    assert (config["limits"]["memory_bytes"], config["limits"]["processes"]) == (128 << 20, 20)
    assert execute(cli, id, 'echo "$NAME" $(cat dir/in)').out == "x y content\n"
    assert cli("session", "close", id).code == 0


def test_list_and_show_tell_of_it(cli, id):
    assert re.search(rf"^{id}  \w+ +python +", cli("session", "list").out, re.M)
    assert id in {one["session_id"] for one in cli("session", "list", "--json").json()["sessions"]}
    shown = cli("session", "show", id).out
    assert f"session_id     {id}\n" in shown and "language       python\n" in shown


def test_extend_lets_it_live_longer(cli, id):
    before = cli("session", "show", id, "--json").json()["expires_at"]
    assert cli("session", "extend", id, "--ttl", "2h").out.startswith("expires_at")
    assert cli("session", "show", id, "--json").json()["expires_at"] > before + 3600
    assert "--ttl" in cli("session", "extend", id).err


def test_close_keeps_what_was_generated_if_it_is_told_to(service, cli):
    id = cli("session", "new").out.strip()
    assert execute(cli, id, "open('made', 'w').write('kept')").code == 0
    closed = cli("session", "close", id, "--keep-generated", "--json").json()
    kept = {file["path"]: file["file_id"] for file in closed["files"]}
    assert service.download(kept["made"]) == b"kept"
    result = execute(cli, id, "1")
    assert result.code == 125 and id in result.err
    cli("files", "rm", *kept.values())


@pytest.mark.parametrize("words", [
    [], ["nonsense"], ["show"], ["exec"], ["exec", "-c", "1"], ["bash", "x"], ["put", "x"], ["list", "x"],
    ["list", "--ttl", "3s"], ["new", "--generated"], ["new", "--ttl", "0s"], ["new", "--ttl", "soon"],
    ["new", "--isolation", "none"], ["new", "--env", "x"], ["new", "--strategy", "nonsense"],
    ["new", "-l", "nonsense"], ["show", "../../health"], ["show", "nonsense"], ["close", "nonsense"],
    ["exec", "nonsense", "-c", "1"], ["new", "--strategy", "pool", "--workspace", "shared"],
])
def test_what_does_not_fit_is_told(cli, words):
    result = cli("session", *words)
    assert result.code == 125 and result.out == "" and result.err.startswith("hotcell")
