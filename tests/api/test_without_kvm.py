"""A service that has no vms: whoever asks for one is told why, and nothing is left that waits for one."""
import pytest

import harness
import sessions

pytestmark = pytest.mark.needs_root("something else is mounted where /dev/kvm is")
WHY = "vm isolation: /dev/kvm: "
VM_POOL = 'hotcell_pool_cells{language="python",profile="",isolation="vm",state="%s"}'


def hide_kvm(service):
    if harness.HAS_KVM:
        words = ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null /dev/kvm && exec "$@"', "sh", *service.command()]
        service.command = lambda: words


@pytest.fixture(scope="module")
def service():
    with harness.Running(prepare=hide_kvm, pool_idle_s=3600) as running:
        yield running


@pytest.mark.parametrize("strategy, workspace", sessions.PLACES)
@pytest.mark.parametrize("files", [[], [{"path": "a", "content": "b"}]])
def test_a_session_of_vms_is_refused_as_a_run_is(service, strategy, workspace, files):
    run = service.post("/v1/execute", {"code": "print(1)", "isolation": "vm"})
    assert run.status == 400 and run.detail().startswith(WHY), run
    reply = service.post("/v1/sessions", {"isolation": "vm", "strategy": strategy, "workspace": workspace, "files": files})
    assert (reply.status, reply.json()) == (400, run.json())
    assert service.get("/v1/sessions").json()["sessions"] == []


@pytest.mark.parametrize("strategy, workspace", sessions.PLACES)
@pytest.mark.parametrize("isolation", ["auto", "container"])
def test_other_sessions_are_not(service, strategy, workspace, isolation):
    with sessions.Session(service, strategy=strategy, workspace=workspace, isolation=isolation) as session:
        run = session.execute("print(1)")
        assert (run["stdout"], run["isolation"]) == ("1\n", "container")


def test_no_vm_waits_in_a_pool(service):
    assert service.post("/v1/execute", {"code": "print(1)", "isolation": "vm"}).status == 400
    seen = []

    def has_given_up():
        seen.append(service.metrics()[VM_POOL % "idle"])
        return "pool.failed" in service.log()

    harness.wait_until(has_given_up, "no more of them are tried")
    # One that is being made is there for a moment, until the warden has said no.
    assert sum(seen) < len(seen) / 2, seen
    harness.wait_until(lambda: service.metrics()[VM_POOL % "idle"] == 0, "none is left")
    assert service.metrics()[VM_POOL % "busy"] == 0
    assert service.log().count("pool.failed") == 1
