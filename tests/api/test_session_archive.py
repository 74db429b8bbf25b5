"""A session's workspace as a tar archive, and back."""
import gzip
import io
import lzma
import subprocess
import tarfile

import pytest

import harness
from sessions import PLACES, SHARED, Session

SERVICE = {"file_max_bytes": "8M", "warm": "python"}


def tar_of(*entries, format=tarfile.GNU_FORMAT):
    """A tar of these: (name, bytes), or a TarInfo."""
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w", format=format) as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            tar.addfile(info, io.BytesIO(entry[1]))
    return to.getvalue()


def entry(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    return info


def contents(data):
    """{name: bytes, or None for a directory}"""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read() if member.isfile() else None
                for member in tar.getmembers()}


def test_as_many_files_as_a_session_may_have_go_out_and_in(service):
    many = tar_of(*((f"d/{i}", b"") for i in range(12000)))
    large = {"strategy": "pool", "limits": {"disk_bytes": 1 << 30}}
    with Session(service, **large) as session, Session(service, **large) as other:
        assert session.put("/archive", many).json()["files"] == 12000
        archive = session.get("/archive")
        assert other.put("/archive", archive.body).json()["files"] == 12000
        refused = other.put("/archive", tar_of(*((f"d/{i}", b"") for i in range(20000))))
        assert (refused.status, "19900" in refused.detail()) == (413, True), refused


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_a_workspace_goes_out_and_into_another(service, strategy, workspace):
    big = bytes(range(256)) * 4096
    with Session(service, strategy=strategy, workspace=workspace, files=[
            {"path": "d/é", "content": "1"}, {"path": "empty", "content": ""}]) as session:
        session.put("/files/big", big)
        reply = session.get("/archive")
        assert reply.status == 200, reply
        assert reply.headers["Content-Type"] == "application/x-tar"
        assert 'filename="workspace.tar"' in reply.headers["Content-Disposition"]
    assert contents(reply.body) == {"d": None, "d/é": b"1", "empty": b"", "big": big}
    with Session(service, strategy=strategy, workspace=workspace) as other:
        done = other.put("/archive", reply.body)
        assert done.status == 200, done
        assert done.json() == {"files": 3, "directories": 1, "bytes": len(big) + 1, "skipped": [],
                               "skipped_count": 0}
        assert other.get("/files/big").body == big
        assert other.execute("import os; print(sorted(os.listdir('d')), os.path.getsize('big'))")[
            "stdout"] == f"['é'] {len(big)}\n"


@pytest.mark.parametrize("strategy, workspace", PLACES)
def test_an_empty_workspace_is_an_empty_archive(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        assert contents(session.get("/archive").body) == {}
        assert session.put("/archive", tar_of()).status == 200
        assert session.files() == {}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_an_empty_directory_comes_along(service, strategy):
    with Session(service, strategy=strategy) as session:
        assert session.put("/archive", tar_of(entry("a/b", tarfile.DIRTYPE))).status == 200
        assert contents(session.get("/archive").body) == {"a": None, "a/b": None}
        assert session.bash("ls -d a/b")["stdout"] == "a/b\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress,
                                  lambda data: subprocess.run(["zstd", "-c"], input=data, check=True,
                                                              capture_output=True).stdout],
                         ids=["tar", "gzip", "xz", "zstd"])
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_kind_of_tar_is_unpacked(service, pack, format):
    data = pack(tar_of(("./d/日本", b"text"), ("x" * 90, b""), format=format))
    with Session(service, strategy="pool") as session:
        reply = session.put("/archive", data)
        assert reply.status == 200, reply
        assert session.files() == {"d/日本": 4, "x" * 90: 0}


def test_what_may_be_run_may_still_be_run(service):
    info = tarfile.TarInfo("tool")
    info.mode, script = 0o755, b"#!/bin/sh\necho ran\n"
    info.size = len(script)
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w") as tar:
        tar.addfile(info, io.BytesIO(script))
    for strategy in ("per_session", "pool"):
        with Session(service, strategy=strategy) as session:
            assert session.put("/archive", to.getvalue()).status == 200
            assert session.bash("./tool")["stdout"] == "ran\n"


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a//b", "n" * 300, "d/" * 150 + "f"])
def test_a_name_that_leads_out_refuses_all_of_it(service, strategy, name):
    with Session(service, strategy=strategy) as session:
        reply = session.put("/archive", tar_of(("good", b"x"), (name, b"x")))
        assert reply.status == 422, reply
        assert session.files() == {}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_links_and_devices_are_skipped_and_told(service, strategy):
    data = tar_of(("good", b"x"), entry("soft", tarfile.SYMTYPE, "/etc/passwd"), entry("hard", tarfile.LNKTYPE, "good"),
                  entry("fifo", tarfile.FIFOTYPE), entry("device", tarfile.CHRTYPE),
                  entry("d", tarfile.SYMTYPE, "/tmp"), ("d/f", b"y"))
    with Session(service, strategy=strategy) as session:
        reply = session.put("/archive", data)
        assert reply.status == 200, reply
        said = reply.json()
        assert (said["files"], said["skipped_count"]) == (2, 5)
        assert {"path": "soft", "reason": "a symbolic link"} in said["skipped"]
        assert session.files() == {"good": 1, "d/f": 1}


NO_ARCHIVES = {
    "nothing": b"",
    "text": b"hello",
    "the head of a gzip": b"\x1f\x8b\x08\x00",
    "the head of an xz": b"\xfd7zXZ\x00rest",
    "the head of a zstd": b"\x28\xb5\x2f\xfdrest",
    "a zip": b"PK\x03\x04" + b"\x00" * 600,
    "a gzip of text": gzip.compress(b"no tar"),
    "half a tar": tar_of(("f", b"x" * 5000))[:3000],
    "half a gzip": gzip.compress(tar_of(("f", b"x" * 5000)))[:-20],
}


@pytest.mark.parametrize("data", NO_ARCHIVES.values(), ids=NO_ARCHIVES)
def test_what_is_no_archive_is_refused(service, data):
    with Session(service, strategy="pool") as session:
        reply = session.put("/archive", data)
        assert reply.status == 422, reply
        assert session.files() == {}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_an_archive_that_is_more_than_the_session_may_have_is_refused(service, strategy):
    with Session(service, strategy=strategy, limits={"disk_bytes": 2 << 20}) as session:
        for data in (gzip.compress(tar_of(("f", bytes(3 << 20)))),
                     gzip.compress(tar_of(*[(f"f{i}", bytes(1 << 19)) for i in range(5)])),
                     gzip.compress(tar_of(*[(f"f{i}", b"") for i in range(10001)])),
                     gzip.compress(tar_of(*[("same", bytes(1 << 20)) for i in range(400)]))):
            reply = session.put("/archive", data)
            assert reply.status == 413, reply
        assert session.files() == {}


def test_a_bomb_is_found_out_before_it_is_unpacked(service):
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w:gz", compresslevel=9) as tar:
        info = tarfile.TarInfo("f")
        info.size = 500 << 20
        tar.addfile(info, open("/dev/zero", "rb"))
    memory = service.memory()
    with Session(service, strategy="pool") as session:
        assert session.put("/archive", to.getvalue()).status == 413
        assert session.files() == {}
    assert harness.IS_SANITIZED or service.memory() < memory + (64 << 20)


def test_an_archive_that_is_too_large_to_be_read_is_refused(service):
    with Session(service, limits={"disk_bytes": 1 << 20}) as session:
        answer = service.raw(f"PUT {session.path}/archive HTTP/1.1\r\nHost: localhost\r\n"
                             f"Content-Length: {32 << 20}\r\n\r\n".encode())
        assert answer.split()[1] == b"413" and b"The archive is larger than" in answer


def test_an_archive_may_be_larger_than_a_file_since_a_workspace_is(service):
    with Session(service) as session:
        for name in ("a", "b"):
            assert session.put("/files/" + name, bytes(6 << 20)).status == 200
        archive = session.get("/archive").body
        assert len(archive) > 12 << 20
        reply = session.put("/archive", archive)
        assert reply.status == 200 and reply.json()["files"] == 2, reply


def test_a_workspace_with_as_many_files_as_it_may_have_still_runs(service):
    with Session(service, strategy="per_execution", workspace="shared", limits={"disk_bytes": 1 << 30}) as session:
        for name in "ab":
            assert session.put("/archive", tar_of(*[(f"{name}{i}", b"") for i in range(9950)])).status == 200
        assert session.put("/files/more", b"").status == 413
        assert session.execute("import os\nprint(len(os.listdir('.')))")["stdout"] == "19901\n"


def heads(data):
    """{name: (type, mode, target)}"""
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        return {member.name: (member.type, member.mode, member.linkname) for member in tar.getmembers()}


FILE, EXECUTABLE, DIRECTORY = [(tarfile.REGTYPE, 0o644, ""), (tarfile.REGTYPE, 0o755, ""), (tarfile.DIRTYPE, 0o755, "")]


def link_to(target):
    return tarfile.SYMTYPE, 0o777, target


def test_what_a_program_has_left_goes_out(service):
    with Session(service) as session:
        session.bash("mkdir d; echo x > d/f; ln -s f d/link; mkfifo p; touch -d @0 old; chmod 0 old")
        archive = session.get("/archive").body
    assert heads(archive) == {"d": DIRECTORY, "d/f": FILE, "d/link": link_to("f"), "old": FILE}


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_what_may_be_run_may_be_run_where_it_goes(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        session.put("/files/text", b"text")
        session.bash("printf '#!/bin/sh\\necho ran\\n' > tool; chmod 700 tool; ln -s tool link")
        archive = session.get("/archive").body
        assert heads(archive) == {"text": FILE, "tool": EXECUTABLE, "link": link_to("tool")}
        assert session.bash("stat -c %a text")["stdout"] == "644\n"
    with Session(service, strategy=strategy, workspace=workspace) as other:
        reply = other.put("/archive", archive).json()
        assert (reply["files"], reply["skipped"]) == (2, [{"path": "link", "reason": "a symbolic link"}])
        assert other.bash("./tool; stat -c %a text tool")["stdout"] == "ran\n644\n755\n"
        assert heads(other.get("/archive").body) == {"text": FILE, "tool": EXECUTABLE}


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_links_are_packed_as_they_are_and_followed_by_nobody(service, strategy, workspace):
    targets = ["/etc/passwd", "../../../../etc/shadow", "loop", "/proc/self/root", "x" * 1000, "a\nb", "\udcff\udcfe"]
    code = "import os\nfor i, target in enumerate(%r): os.symlink(target, f'link{i}')\nos.symlink('loop', 'loop')" % targets
    with Session(service, strategy=strategy, workspace=workspace) as session:
        assert session.execute(code)["exit_code"] == 0
        archive = session.get("/archive").body
        wanted = {f"link{i}": link_to(target) for i, target in enumerate(targets)}
        assert heads(archive) == {**wanted, "loop": link_to("loop")}
        assert len(archive) < 100000 and b"root:" not in archive
        assert session.put("/archive", archive).json()["skipped_count"] == len(targets) + 1


@pytest.mark.parametrize("strategy, workspace", SHARED)
def test_nothing_comes_behind_a_link_that_could_be_written_through_it(service, strategy, workspace):
    with Session(service, strategy=strategy, workspace=workspace) as session:
        session.bash("ln -s /etc a; mkdir b; touch b/f; ln -s / b/a; touch z")
        kinds = [kind for kind, _, _ in heads(session.get("/archive").body).values()]
    assert kinds[-2:] == [tarfile.SYMTYPE] * 2 and tarfile.SYMTYPE not in kinds[:-2]


def test_holes_do_not_make_an_archive_without_end(service):
    with Session(service, limits={"disk_bytes": 1 << 20}) as session:
        session.execute("for i in range(20):\n  with open(f'f{i}', 'wb') as f: f.truncate(6 << 20)")
        assert len(session.files()) == 20
        reply = session.get("/archive")
        assert reply.status == 413, reply
        assert session.bash("echo alive")["stdout"] == "alive\n"


def test_an_archive_waits_for_its_turn_and_others_for_it(service):
    with Session(service) as session:
        session.put("/files/f", b"x" * (1 << 20))
        results = harness.at_once(lambda: session.get("/archive"), lambda: session.bash("echo x > g"),
                                  lambda: session.put("/archive", tar_of(("h", b"h"))),
                                  lambda: session.get("/archive"))
        assert contents(results[0].body)["f"] == b"x" * (1 << 20)
        assert session.files() == {"f": 1 << 20, "g": 2, "h": 1}


@pytest.mark.parametrize("strategy", ["per_session", "pool"])
def test_a_client_that_leaves_meanwhile_harms_nobody(service, strategy):
    data = tar_of(*[(f"f{i}", bytes(100000)) for i in range(50)])
    with Session(service, strategy=strategy) as session:
        session.put("/archive", data)
        for _ in range(5):
            with service.connect() as sock:
                sock.sendall(f"GET {session.path}/archive HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            with service.connect() as sock:
                sock.sendall(f"PUT {session.path}/archive HTTP/1.1\r\nHost: localhost\r\n"
                             f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        assert session.bash("ls | wc -l")["stdout"] == "50\n"
        assert len(session.files()) == 50


def test_a_session_that_is_deleted_meanwhile_harms_nobody(service):
    data = tar_of(*[(f"f{i}", bytes(100000)) for i in range(60)])
    for strategy in ("per_session", "pool"):
        session = Session(service, strategy=strategy)
        session.put("/archive", data)
        def put():
            """Whoever is refused while it sends may find the line closed."""
            try:
                return session.put("/archive", data)
            except (BrokenPipeError, ConnectionResetError):
                return harness.Reply(404, {}, b"")

        replies = harness.at_once(lambda: session.get("/archive"), put,
                                  session.delete, lambda: session.get("/files"))
        assert replies[2].status == 204
        assert {reply.status for reply in replies} <= {200, 204, 404}, replies
