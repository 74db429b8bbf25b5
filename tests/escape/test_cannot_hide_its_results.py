"""Files that a program made unreadable come out all the same, or it is said that they did not."""
import pytest

pytestmark = pytest.mark.every_isolation


def test_an_unreadable_file_is_not_taken_for_an_empty_one(attack):
    out = attack.new_directory() / "out"
    result = attack("""
open("f", "w").write("contents")
os.chmod("f", 0)
open("g", "w").write("contents")""", o=out)
    assert (out / "g").read_text() == "contents"
    whole = (out / "f").exists() and (out / "f").read_text() == "contents"
    told = result.status != 0 or result.files_incomplete
    assert whole or (told and not (out / "f").exists()), result


def test_a_locked_directory_is_told_of(attack):
    result = attack("""
os.mkdir("d")
open("d/f", "w").write("contents")
os.chmod("d", 0)""")
    listed = [file["path"] for file in result.files]
    assert "d/f" in listed or result.files_incomplete
