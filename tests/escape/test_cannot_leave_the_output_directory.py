"""What a run made is written beneath the directory that was named, and nowhere else: symlinks that
wait there are replaced or refused, never followed."""
import os

import pytest

pytestmark = pytest.mark.every_isolation

MAKE = r"""
open("file", "w").write("from the cell")
os.makedirs("directory/below")
open("directory/file", "w").write("from the cell")
open("directory/below/file", "w").write("from the cell")
"""


@pytest.fixture
def victim(attack):
    """A directory of the host, with a file in it, that nothing may touch."""
    directory = attack.new_directory()
    file = directory / "file"
    file.write_text("the host's")
    attack.own(file)
    yield directory
    assert file.read_text() == "the host's"
    assert [path.name for path in directory.iterdir()] == ["file"]


def test_a_symlink_to_a_file_is_replaced(attack, victim):
    out = attack.new_directory()
    attack.own(out)
    os.symlink(victim / "file", out / "file")
    result = attack("open('file', 'w').write('from the cell')", o=out)
    assert result.status == 0
    assert not (out / "file").is_symlink()
    assert (out / "file").read_text() == "from the cell"


def test_a_symlink_to_a_directory_is_not_followed(attack, victim):
    out = attack.new_directory()
    os.symlink(victim, out / "directory")
    attack(MAKE, o=out)
    assert os.readlink(out / "directory") == str(victim)


def test_a_symlink_in_the_middle_is_not_followed(attack, victim):
    out = attack.new_directory()
    (out / "directory").mkdir()
    attack.own(out / "directory")
    os.symlink(victim, out / "directory/below")
    attack(MAKE, o=out)


def test_a_dangling_symlink_makes_no_file_where_it_points(attack, victim):
    out = attack.new_directory()
    os.symlink(victim / "new", out / "file")
    attack(MAKE, o=out)
    assert not (victim / "new").exists()


def test_a_fifo_that_waits_there_is_replaced(attack):
    out = attack.new_directory()
    os.mkfifo(out / "file")
    attack.own(out / "file")
    assert attack("open('file', 'w').write('from the cell')", o=out).status == 0
    assert (out / "file").read_text() == "from the cell"


def test_a_hard_link_that_waits_there_is_replaced(attack, victim):
    out = attack.new_directory()
    os.link(victim / "file", out / "file")
    attack("open('file', 'w').write('from the cell')", o=out)
    assert (out / "file").read_text() == "from the cell"


def test_a_directory_swapped_for_a_symlink_leads_nowhere(attack, victim):
    """Made as a directory, left as a symlink: and the other way round."""
    out = attack.new_directory() / "out"
    attack(r"""
os.mkdir("d")
open("d/file", "w").write("from the cell")
os.rename("d", "e")
os.symlink(%r, "d")
os.symlink("e", "f")""" % str(victim), o=out)
    assert (out / "e/file").read_text() == "from the cell"
    assert not (out / "d").exists()
