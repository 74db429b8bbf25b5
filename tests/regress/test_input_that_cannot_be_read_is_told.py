"""A directory as the program's input was taken for empty input."""


def test_a_directory_named_by_stdin(hotcell, tmp_path):
    result = hotcell.run("-l", "sh", "--stdin", tmp_path, "-c", "cat; echo ran")
    assert (result.out, result.code) == ("", 125)
    assert str(tmp_path) in result.err and "irectory" in result.err


def test_a_directory_as_our_own_input(hotcell, tmp_path):
    result = hotcell.run("-l", "sh", "--stdin", "-", "-c", "cat; echo ran",
                         wrapper=["sh", "-c", f'exec "$0" "$@" <{tmp_path}'])
    assert result.code == 125
    assert "irectory" in result.err
