"""That it could not be made was found out after the run, whose result was then lost."""
import os


def test_the_program_does_not_even_start(hotcell, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for path in ("/nonexistent/deep/out", tmp_path / "file", tmp_path / "file/below", "/proc/out"):
        result = hotcell.run("-l", "sh", "-c", "echo ran", "-o", path)
        assert (result.out, result.code) == ("", 125)
        assert str(path) in result.err
    assert os.listdir(tmp_path) == ["file"]
