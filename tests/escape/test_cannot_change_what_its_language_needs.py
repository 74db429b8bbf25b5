"""A directory that a language file shows to its cells is read-only there, even if the user who started
the cell owns it."""
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from escape import with_prelude

LANGUAGE = """id: needy
name: Needy
file: main.py
install: "-"
find:
  - program: /usr/bin/python3
version: ["{program}", --version]
run: ["{program}", "{file}", "{args}"]
needs: ["%s"]
vm: yes
"""

ATTACK = r"""
import fcntl
top = %r
file = top + "/file"
said = {
    "read": open(file).read(),
    "write": attempt(os.open, file, os.O_WRONLY),
    "create": attempt(os.open, top + "/new", os.O_CREAT | os.O_WRONLY),
    "unlink": attempt(os.unlink, file),
    "rename": attempt(os.rename, file, top + "/other"),
    "chmod": attempt(os.chmod, file, 0o777),
    "utime": attempt(os.utime, file),
    "link": attempt(os.link, file, "/tmp/linked"),
    "mkdir": attempt(os.mkdir, top + "/d"),
    "through proc": attempt(os.open, "/proc/self/root" + file, os.O_WRONLY),
    "reopen": attempt(os.open, "/proc/self/fd/%%d" %% os.open(file, os.O_RDONLY), os.O_WRONLY),
    "up": attempt(os.listdir, top + "/.."),
    "symlink out": attempt(lambda: open(top + "/out").read()),
}
tell(said)
"""


@pytest.fixture
def needed(attack):
    """A directory of this user's, not in /tmp: there a cell has a directory of its own."""
    places = [place for place in ("/srv", Path.home()) if os.access(place, os.W_OK)]
    assert places and not str(places[0]).startswith("/tmp"), "a home outside /tmp is needed to try this"
    path = attack.own(Path(tempfile.mkdtemp(dir=places[0])))
    yield path
    shutil.rmtree(path)


def test_cannot_change_what_its_language_needs(attack, host_secret, needed):
    secret, text = host_secret
    languages = attack.new_directory()
    needed.chmod(0o777)
    (needed / "file").write_text("the host's")
    (needed / "file").chmod(0o666)
    attack.own(needed / "file")
    (needed / "out").symlink_to(secret)
    (languages / "needy.yaml").write_text(LANGUAGE % needed)
    languages.chmod(0o755)
    code = ATTACK % str(needed)
    result = attack(with_prelude(code), language="needy", languages=languages)
    said = result.said
    assert said.pop("read") == "the host's"
    assert said.pop("up") == [needed.name]
    assert said.pop("symlink out") in ("ENOENT", "EACCES")
    assert said.pop("through proc") in {"EROFS", "EACCES", *attack.denied("file")}
    assert set(said.values()) <= {"EROFS", "EACCES", "EPERM", "EXDEV"}, said
    assert (needed / "file").read_text() == "the host's"
    assert sorted(path.name for path in needed.iterdir()) == ["file", "out"]
