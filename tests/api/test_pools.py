"""Cells that wait: made ahead, as many as are needed, and none that nobody needs."""
import threading

import pytest

import harness
from harness import at_once, wait_until

SERVICE = {"warm": "python@container", "pool_idle_s": 2, "running_max": 4, "pool_max": 6}
CONTAINER = {"isolation": "container"}


def idle(service, language="python", profile="plain", isolation="container"):
    labels = f'language="{language}",profile="{profile}",isolation="{isolation}",state="idle"'
    return service.metrics().get(f"hotcell_pool_cells{{{labels}}}", 0)


def is_warm_soon(service):
    """A container that waits takes a moment to get warm; how many there are says nothing of that."""
    return service.execute("print(1)", **CONTAINER)["warm"]


def test_a_container_that_was_used_is_replaced(service):
    for _ in range(3):
        wait_until(lambda: is_warm_soon(service), "a warm container has served")
    wait_until(lambda: idle(service) >= 1, "the next one waits")


def test_who_finds_none_starts_cold(service):
    runs = at_once(*[lambda: service.execute("import time; time.sleep(0.2); print(1)", **CONTAINER)] * 8)
    assert [run["stdout"] for run in runs] == ["1\n"] * 8
    assert False in [run["warm"] for run in runs]


def test_a_pool_grows_with_demand_and_shrinks_without(service):
    at_once(*[lambda: service.execute("import time; time.sleep(0.2)", **CONTAINER)] * 6)
    wait_until(lambda: idle(service) >= 3, "it has grown")
    assert idle(service) <= 6
    wait_until(lambda: idle(service) == 1, "it has shrunk to what is always kept")


@pytest.mark.parametrize("wanted", ["python:data", "javascript@container"])
def test_what_is_to_be_warm_gets_so_under_load(wanted):
    """Those who run take what is made as quickly as it comes: they must not get all of it."""
    with harness.Running({}, ready=False, warm=f"python@container,{wanted}") as service:
        stop = threading.Event()

        def load():
            while not stop.is_set():
                try:
                    service.execute("open('o', 'w').write('z')", **CONTAINER)
                except (OSError, AssertionError):
                    stop.wait(0.1)  # it is not there yet

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            service.wait_ready()
        finally:
            stop.set()
            for thread in threads:
                thread.join()


@pytest.mark.skipif(not harness.HAS_KVM, reason="there are no vm cells here")
def test_without_the_files_that_a_vm_takes_it_is_a_container():
    def prepare(service):
        drop = ["setpriv", "--bounding-set=-sys_resource"] if harness.IS_ROOT else []  # root could raise the limit
        words = ["prlimit", "--nofile=1000:1000", *drop, *service.command()]
        service.command = lambda: words

    with harness.Running(prepare=prepare) as service:
        assert service.execute("print(1)")["isolation"] == "container"
        assert "serve.no_vms" in service.log() and "ulimit -Hn" in service.log()
        reply = service.post("/v1/execute", {"code": "1", "isolation": "vm"})
        assert reply.status == 400 and "open files" in reply.detail(), reply
