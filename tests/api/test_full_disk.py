"""A disk that is full: 507, and nothing that was stored is harmed."""
import shutil
import subprocess

import pytest

import harness
from sessions import Session

pytestmark = pytest.mark.needs_root("only root may mount")


@pytest.fixture(scope="module")
def service():
    place = harness.make_directory()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=755", "hotcell-test", place], check=True)
    try:
        with harness.Running(state_dir=place / "state") as running:
            yield running
    finally:
        subprocess.run(["umount", place], check=True)
        shutil.rmtree(place)


def fill(service):
    """Stores until there is no more room. Returns {file_id: bytes}, and the last reply."""
    stored = {}
    for i in range(100):
        data = bytes([i]) * 300000
        reply = service.upload_reply(f"{i}", data)
        if reply.status != 201:
            return stored, reply
        stored[reply.json()["file_id"]] = data
    raise AssertionError("the disk never became full")


def test_a_full_disk_is_507_and_harms_nothing(service):
    first = service.upload("first", b"kept")
    stored, reply = fill(service)
    assert reply.status == 507, reply
    assert reply.json() == {"detail": "The disk is full.", "code": "disk_full"} or reply.json()["code"] == "disk_full"
    assert stored
    for file_id, data in stored.items():
        assert service.download(file_id) == data
    assert service.download(first) == b"kept"
    # Runs are served; a file for which there is no room is told with its error.
    run = service.execute("import os\nn = open('big', 'wb').write(os.urandom(3000000))\nprint('ran')")
    assert run["stdout"] == "ran\n"
    file, = run["files"]
    assert file["file_id"] is None and "space" in file["error"], file
    # With room again it goes on.
    for file_id in stored:
        assert service.delete(f"/v1/files/{file_id}").status == 204
    assert service.download(service.upload("again", b"x" * 300000)) == b"x" * 300000
    run = service.execute("open('small', 'w').write('x')\nNone")
    assert service.download(run["files"][0]["file_id"]) == b"x"


def test_a_session_s_file_that_finds_no_room_is_507_and_stays(service):
    """On its way out of a cell it lies on the disk for a moment."""
    with Session(service) as session:
        session.execute("import os\nn = open('big', 'wb').write(os.urandom(3000000))")
        stored, _ = fill(service)
        for reply in (session.get("/files/big"), service.delete(f"{session.path}?keep_generated=true")):
            assert (reply.status, reply.json()) == (507, {"detail": "The disk is full.", "code": "disk_full"}), reply
        assert "big" in session.files()
        for file_id in stored:
            assert service.delete(f"/v1/files/{file_id}").status == 204
        assert len(session.get("/files/big").body) == 3000000


def test_a_session_that_cannot_be_deleted_is_there(service):
    """What answers 507 has not happened; what has happened answers 204."""
    opened = [Session(service, strategy="pool") for _ in range(20)]
    filling = service.options["state_dir"].parent / "filling"
    replies = []
    try:
        with filling.open("wb", 0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))
        for session in opened:
            replies.append(session.delete())
            assert session.get().status == (404 if replies[-1].status == 204 else 200), replies[-1]
    finally:
        filling.unlink()
    assert {reply.status for reply in replies} <= {204, 507} and replies[-1].status == 507, replies
    for session in opened:
        assert session.delete().status in (204, 404)
        assert session.get().status == 404
