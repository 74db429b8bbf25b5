"""`hotcell run -` opened /dev/stdin anew: not possible for sockets, and at the beginning of files."""
import socket

import harness
import pytest


def test_from_a_socket(hotcell):
    mine, its = socket.socketpair()
    process = hotcell.start("run", "-l", "python", "-", stdin=its)
    its.close()
    mine.sendall(b"print(6 * 7)\n")
    mine.close()
    assert process.communicate(timeout=harness.PATIENCE_S) == (b"42\n", b"")


def test_from_where_the_reader_before_stopped(hotcell, tmp_path):
    (tmp_path / "input").write_text("first line\nprint(6 * 7)\n")
    with open(tmp_path / "input") as file:
        result = hotcell("run", "-l", "python", "-", stdin=file,
                         wrapper=["sh", "-c", 'read line; exec "$0" "$@"'])
    assert (result.out, result.err) == ("42\n", "")


@pytest.mark.needs_root("a file that hotcell itself may not open")
def test_from_a_file_that_hotcell_may_not_open(nobody, tmp_path):
    (tmp_path / "secret.py").write_text("print(6 * 7)\n")
    (tmp_path / "secret.py").chmod(0o600)
    with open(tmp_path / "secret.py") as file:
        result = nobody("run", "-l", "python", "-", stdin=file)
    assert (result.out, result.err) == ("42\n", "")


def test_from_a_directory_is_told(hotcell, tmp_path):
    result = hotcell("run", "-l", "python", "-", wrapper=["sh", "-c", f'exec "$0" "$@" <{tmp_path}'])
    assert result.code == 125
    assert "irectory" in result.err
