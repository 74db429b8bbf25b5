"""hotcell files, hotcell top."""
import os
import re
import signal

import client
import harness
import pytest


@pytest.fixture
def cli(service, tmp_path):
    return client.Cli(client.url_of(service), tmp_path)


# ---- files ----


def test_files_are_stored_listed_got_and_removed(service, cli):
    (cli.home / "a.bin").write_bytes(bytes(range(256)) * 1000)
    (cli.home / "b").write_bytes(b"")
    ids = cli("files", "add", "a.bin", "b").out.split()
    assert len(ids) == 2
    assert service.download(ids[0]) == bytes(range(256)) * 1000
    listed = cli("files", "list").out
    assert re.search(rf"^{ids[0]}  250.0 KiB +\d+ s +a.bin$", listed, re.M), listed
    assert {file["file_id"] for file in cli("files", "list", "--json").json()["files"]} >= set(ids)
    assert cli("files", "get", ids[0]).raw_out == bytes(range(256)) * 1000
    assert cli("files", "get", ids[1], "-o", "got").code == 0
    assert (cli.home / "got").read_bytes() == b""
    assert cli("files", "rm", *ids).code == 0
    assert cli("files", "list", "--json").json() == {"files": []}


def test_adding_tells_json(cli):
    (cli.home / "x").write_text("1234")
    added = cli("files", "add", "x", "--json").json()["files"]
    assert [(file["filename"], file["size_bytes"]) for file in added] == [("x", 4)]
    cli("files", "rm", added[0]["file_id"])


def test_one_that_is_not_there_is_told_and_the_others_are_removed(cli):
    (cli.home / "x").write_text("1")
    id = cli("files", "add", "x").out.strip()
    result = cli("files", "rm", "nonsense", id)
    assert (result.code, result.err) == (125, "hotcell: File with ID 'nonsense' not found\n")
    assert cli("files", "list", "--json").json() == {"files": []}


def test_what_is_there_stays_if_there_is_nothing_to_get(cli):
    (cli.home / "kept").write_text("mine")
    assert cli("files", "get", "nonsense", "-o", "kept").code == 125
    assert (cli.home / "kept").read_text() == "mine"


def test_a_file_is_not_printed_on_a_terminal(cli):
    (cli.home / "x").write_bytes(b"\x1b[2J")
    id = cli("files", "add", "x").out.strip()
    terminal = client.Terminal(cli, "files", "get", id)
    terminal.wait_for(b"-o FILE")
    assert terminal.end() == (125, True)
    assert b"\x1b" not in terminal.seen
    cli("files", "rm", id)


@pytest.mark.parametrize("words", [[], ["nonsense"], ["get"], ["get", "a", "b"], ["rm"], ["list", "x"],
                                   ["rm", "x", "--json"], ["list", "-o", "x"], ["add", "absent"]])
def test_words_that_do_not_fit_are_told(cli, words):
    result = cli("files", *words)
    assert result.code == 125 and result.out == "" and result.err.startswith("hotcell")


# ---- top ----


def test_top_prints_once_without_a_terminal(service, cli):
    service.execute("1")
    result = cli("top")
    assert result.code == 0
    assert f"hotcell at {client.url_of(service)}" in result.out
    assert re.search(r"^python +\S+ +\w+ +\d+ +\d+$", result.out, re.M), result.out
    assert re.search(r"^[0-9a-f-]{36}  done +python ", result.out, re.M), result.out


def test_top_tells_json(service, cli):
    id = service.execute("1")["id"]
    seen = cli("top", "--json").json()
    assert seen["runs"][0]["id"] == id and seen["sessions"] == []
    assert "hotcell_runs_running" in {metric["name"] for metric in seen["metrics"]}


def test_top_shows_runs_as_they_come_and_q_ends_it(service, cli):
    terminal = client.Terminal(cli, "top")
    terminal.wait_for(rb"POOL ")
    id = service.execute("1")["id"]
    terminal.wait_for(id.encode())
    terminal.type(b"q")
    assert terminal.end() == (0, True)
    assert terminal.seen.endswith(b"\x1b[?25h\x1b[?1049l")


def test_top_follows_the_size_of_the_terminal(service, cli):
    for _ in range(12):
        service.execute("1")
    terminal = client.Terminal(cli, "top", rows=40, columns=100)
    terminal.wait_for(rb"RUN ")
    terminal.size(8, 30)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    terminal.seen = b""
    terminal.wait_for(rb"\x1b\[H.*\x1b\[J")
    screen = re.findall(rb"\x1b\[H(.*?)\x1b\[J", terminal.seen, re.S)[-1]
    lines = screen.replace(b"\x1b[K", b"").replace(b"\r", b"").split(b"\n")[:-1]
    assert len(lines) <= 7 and max(len(line) for line in lines) <= 30, lines
    terminal.type(b"q")
    assert terminal.end() == (0, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_top_restores_the_terminal_after_a_signal(cli, number):
    terminal = client.Terminal(cli, "top")
    terminal.wait_for(rb"POOL ")
    os.kill(terminal.process.pid, number)
    code, is_restored = terminal.end()
    assert is_restored and code == 0
    assert terminal.seen.endswith(b"\x1b[?25h\x1b[?1049l")


def test_top_stops_and_goes_on(cli):
    terminal = client.Terminal(cli, "top")
    terminal.wait_for(rb"POOL ")
    os.kill(terminal.process.pid, signal.SIGTSTP)
    harness.wait_until(lambda: harness.stat_of(terminal.process.pid)[0] == "T", "it is stopped")
    terminal.read()
    assert terminal.seen.endswith(b"\x1b[?1049l")
    terminal.seen = b""
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.wait_for(rb"\x1b\[\?1049h.*POOL ")
    terminal.type(b"q")
    assert terminal.end() == (0, True)


def test_top_says_when_the_service_is_gone_and_goes_on(tmp_path):
    with harness.Running() as running:
        terminal = client.Terminal(client.Cli(client.url_of(running), tmp_path), "top")
        terminal.wait_for(rb"POOL ")
        running.stop()
        terminal.wait_for(rb"cannot be reached")
        terminal.type(b"q")
        assert terminal.end() == (0, True)


def test_top_of_nothing_is_a_failure(cli):
    result = cli.at("http://127.0.0.1:1")("top")
    assert (result.code, result.out) == (125, "") and "cannot be reached" in result.err
