"""`-f /` said that a path must not be empty."""


def test_the_root_directory(hotcell):
    for args in (["-f", "/"], ["-f", "//"]):
        result = hotcell.run("-l", "sh", "-c", "echo ran", *args)
        assert (result.out, result.code) == ("", 125)
        assert "'/'" in result.err or "'//'" in result.err
        assert "must not be empty" not in result.err
    result = hotcell.run("-l", "sh", "-c", "echo ran", "-f", "..", cwd="/tmp")
    assert (result.out, result.code) == ("", 125)
    assert "'..'" in result.err
