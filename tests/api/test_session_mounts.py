"""Directories of the machine that a session's cells show."""
import os
import shutil
import tempfile
from pathlib import Path

import pytest

import harness
from sessions import ISOLATIONS, Session, refused

TOP = Path(tempfile.mkdtemp(prefix="hotcell-mounts-"))
ALLOWED, NEVER = TOP / "allowed", TOP / "never"
SERVICE = {"timeout_max_ms": 60000, "mounts": f"{ALLOWED},{NEVER}", "allow_process": True}
READ = "print(open('/mnt/{}/file').read(), end='')"


@pytest.fixture(scope="module", autouse=True)
def directories():
    for path in (ALLOWED, ALLOWED / "one", ALLOWED / "two", TOP / "other"):
        path.mkdir()
        (path / "file").write_text(f"{path.name}'s\n")
    (ALLOWED / "link").symlink_to("one")
    (ALLOWED / "out").symlink_to("/etc")
    for path in (TOP, *TOP.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777)
    yield
    shutil.rmtree(TOP)


def mount(path, name=None, **more):
    return {"source": str(path), **({"name": name} if name else {}), **more}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("strategy, workspace", [("per_session", "shared"), ("per_session", "isolated"),
                                                 ("per_execution", "shared"), ("per_execution", "isolated")])
def test_every_run_sees_them_and_changes_nothing(service, isolation, strategy, workspace):
    with Session(service, isolation=isolation, strategy=strategy, workspace=workspace, mounts=[
            mount(ALLOWED / "one"), mount(ALLOWED / "two", "second", read_only=True)]) as session:
        for _ in range(2):
            assert session.execute(READ.format("one"))["stdout"] == "one's\n"
        assert session.execute(READ.format("second"))["stdout"] == "two's\n"
        assert "Read-only file system" in session.execute("open('/mnt/one/file', 'w')")["stderr"]
        assert session.bash("cat /mnt/*/file; ls /mnt")["stdout"] == "one's\ntwo's\none\nsecond\n"
        assert session.state()["config"]["mounts"] == [
            {"source": str(ALLOWED / "one"), "name": "one", "read_only": True},
            {"source": str(ALLOWED / "two"), "name": "second", "read_only": True}]
    assert (ALLOWED / "one" / "file").read_text() == "one's\n"


def test_other_sessions_and_runs_see_none_of_them(service):
    code = "import os; print(os.listdir('/mnt'))"
    with Session(service, mounts=[mount(ALLOWED)]) as session, Session(service) as other:
        assert session.execute(code)["stdout"] == "['allowed']\n"
        assert other.execute(code)["stdout"] == "[]\n"
        reply = service.post("/v1/execute", {"code": code, "timeout_ms": 30000})
        assert reply.json()["stdout"] == "[]\n", reply


@pytest.mark.parametrize("mounts, status, says", [
    ([mount("/etc")], 403, "(setting mounts)"),
    ([mount(TOP)], 403, "(setting mounts)"),
    ([mount(TOP / "other")], 403, "(setting mounts)"),
    ([mount(f"{ALLOWED}2")], 403, "(setting mounts)"),
    ([mount(ALLOWED / "../other", "o")], 422, "without '..'"),
    ([mount("/", "r")], 422, "want an absolute path"),
    ([mount("one")], 422, "want an absolute path"),
    ([mount(ALLOWED, "a/b")], 422, "mount name 'a/b'"),
    ([mount(ALLOWED, "..")], 422, "mount name '..'"),
    ([mount(ALLOWED, "x"), mount(ALLOWED, "x")], 422, "two mounts have the name 'x'"),
    ([mount(ALLOWED, f"n{n}") for n in range(9)], 422, "more than 8 mounts"),
    ([mount(ALLOWED, read_only=False)], 400, "mounts are read-only"),
    ([{"name": "x"}], 422, "Field required"),
    ([{"source": 7}], 422, "valid string"),
    (["/etc"], 422, "valid dictionary"),
    ([mount(ALLOWED, read_only="maybe")], 422, "valid boolean"),
    ({}, 422, "valid list"),
])
def test_what_cannot_be_mounted_is_refused_in_words(service, mounts, status, says):
    assert says in refused(service, status, mounts=mounts)


def test_kinds_of_sessions_that_have_none_say_so(service):
    assert "pool" in refused(service, 422, strategy="pool", mounts=[mount(ALLOWED)])
    assert "process" in refused(service, 422, isolation="process", mounts=[mount(ALLOWED)])


@pytest.mark.parametrize("source, status, says", [
    (ALLOWED / "nosuch", 404, "its source is not there"),
    (ALLOWED / "link", 422, "its source leads through a symlink"),
    (ALLOWED / "out", 422, "its source leads through a symlink"),
    (ALLOWED / "file", 422, "its source is not a directory"),
    (NEVER / "x", 422, "No such file or directory"),
])
def test_a_source_that_the_warden_refuses_gives_no_session(service, source, status, says):
    assert says in refused(service, status, mounts=[mount(source, "d")])
    # Where each run has a cell of its own, the first one tells.
    with Session(service, strategy="per_execution", mounts=[mount(source, "d")]) as session:
        reply = session.post("/execute", {"code": "print(1)", "timeout_ms": 30000})
        assert reply.status == status and says in reply.detail(), reply


def test_a_target_is_a_name_or_is_refused(service):
    with Session(service, mounts=[mount(ALLOWED / "one", target="/mnt/there")]) as session:
        assert session.execute("open('/mnt/there/file').read()")["stdout"] == "\"one's\\n\"\n"
    for more in ({"target": "/etc"}, {"target": "there"}, {"target": "/mnt/"}, {"target": "/mnt/a/b"}, {"target": 5},
                 {"target": "/mnt/a", "name": "b"}):
        refused(service, 422, mounts=[mount(ALLOWED / "one", **more)])


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_cell_that_cannot_be_made_tells_why_however_quick_it_was(service, isolation):
    for _ in range(10):
        assert "symlink" in refused(service, 422, isolation=isolation, mounts=[mount(ALLOWED / "out", "d")])


def test_the_wardens_were_given_the_directories_by_the_supervisor(service):
    """Not by the daemon, which may be taken over."""
    for pid in service.warden_pids():
        words = harness.read(f"/proc/{pid}/cmdline").decode().split("\0")
        given = [words[i + 1] for i, word in enumerate(words) if word == "--mount"]
        assert given == [str(ALLOWED), str(NEVER)]
        assert os.readlink(f"/proc/{pid}/exe").endswith("hotcell-warden")
