"""Settings of a running service: where they come from, and what wrong ones say."""
import subprocess

import pytest

import harness


def failing(*words, env=None):
    done = subprocess.run([str(harness.HOTCELL), "serve", *words], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", **(env or {})}, timeout=harness.PATIENCE_S)
    assert done.returncode != 0
    return done.stderr


def test_flags_win_over_the_environment_and_that_over_the_file():
    def prepare(service):
        (service.directory / "config.yaml").write_text(
            "timeout_max_ms: 1s\ntimeout_default_ms: 1s\ncpu_max_ms: 1s\nprocesses_max: 7\n")
        service.options["config"] = service.directory / "config.yaml"

    environment = {"HOTCELL_TIMEOUT_MAX_MS": "2s", "HOTCELL_CPU_MAX_MS": "2s"}
    with harness.Running(environment, prepare=prepare, timeout_max_ms="3s") as service:
        assert service.post("/v1/execute", {"code": "1", "timeout_ms": 3001}).detail() == \
            "timeout_ms exceeds maximum of 3000 ms"
        def most(name):
            reply = service.post("/v1/execute", {"code": "1", "limits": {name: 10000000}})
            return reply.json()["detail"][0]["msg"]
        assert most("cpu_ms").endswith("equal to 2000")
        assert most("processes").endswith("equal to 7")


@pytest.mark.parametrize("words, told", [
    (["--port=0"], ["port", "'0'", "65535"]),
    (["--port=http"], ["port", "'http'"]),
    (["--reuse=maybe"], ["reuse", "'maybe'", "same-owner"]),
    (["--memory-max-bytes=lots"], ["memory_max_bytes", "'lots'"]),
    (["--no-such-flag"], ["no-such-flag"]),
    (["--host=no.such.host.invalid"], ["host", "no.such.host.invalid"]),
])
def test_a_wrong_value_is_told_with_its_name(words, told, tmp_path):
    said = failing(*words, f"--state-dir={tmp_path}/state", f"--socket={tmp_path}/sock")
    assert all(word in said for word in told), said


@pytest.mark.parametrize("make, why", [
    (lambda path: None, "No such file or directory"),
    (lambda path: path.mkdir(), "it is no regular file"),
    (lambda path: path.write_text("#!/bin/sh\n"), "it cannot be executed"),
])
def test_a_check_program_that_cannot_be_started_is_told_at_the_start(make, why, tmp_path):
    """Otherwise the service would be ready, and refuse every run."""
    make(tmp_path / "check")
    said = failing(f"--check={tmp_path}/check", f"--state-dir={tmp_path}/state", f"--socket={tmp_path}/sock")
    assert said == (f"hotcell: check = '{tmp_path}/check': {why}; want an executable file (program that is asked "
                    "before each run and may refuse it; empty: none)\n")
    assert not (tmp_path / "state").exists()


def test_a_port_that_is_taken_is_told(tmp_path):
    import socket
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = failing(f"--port={port}", f"--state-dir={tmp_path}/state", f"--socket={tmp_path}/sock")
    assert f"listen on 127.0.0.1 port {port}" in said and "in use" in said
    assert "--port N" in said and "PORT=N" in said


def test_where_it_listens_is_logged():
    with harness.Running() as service:
        line = next(line for line in service.log().splitlines() if "serve.listening" in line)
        assert f"address=http://127.0.0.1:{service.port} socket={service.socket_path}" in line
    with harness.Running(host="", port=None) as service:
        assert f"serve.listening address=none socket={service.socket_path}" in service.log()


def test_no_tcp_at_all():
    with harness.Running(host="", port=None) as service:
        assert service.local.execute("print(1)")["stdout"] == "1\n"
        with pytest.raises(OSError):
            service.connect(timeout=5)


def test_no_unix_socket():
    with harness.Running(socket="none") as service:
        assert service.execute("print(1)")["stdout"] == "1\n"
        assert list(service.runtime_dir.iterdir()) == []


def test_a_second_service_does_not_take_the_socket_or_the_state_of_the_first():
    with harness.Running() as service:
        other = harness.free_port()
        said = failing(f"--port={other}", f"--socket={service.socket_path}", f"--state-dir={service.directory}/other")
        assert "already" in said
        said = failing(f"--port={other}", f"--socket={service.runtime_dir}/other", f"--state-dir={service.state_dir}")
        assert str(service.state_dir) in said or "lock" in said or "in use" in said, said
        assert service.execute("print(1)")["stdout"] == "1\n"


def test_files_have_their_time():
    with harness.Running({"FILE_TTL_SEC": "1"}) as service:
        file_id = service.upload("a", b"x")
        assert service.download(file_id) == b"x"
        harness.wait_until(lambda: service.get(f"/v1/files/{file_id}").status == 404, "it is gone")
        assert service.get("/v1/files").json()["files"] == []
        blobs = [path for path in service.state_dir.rglob(f"*{file_id}*")]
        harness.wait_until(lambda: not [path for path in service.state_dir.rglob(f"*{file_id}*")],
                           f"its bytes are gone: {blobs}")


@pytest.mark.needs_root("only root can become another user")
def test_the_daemon_has_no_rights():
    with harness.Running() as service:
        status = harness.read(f"/proc/{service.daemon_pid()}/status").decode()
        assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert "0" not in uids
        assert (service.state_dir.stat().st_mode & 0o777) == 0o700
