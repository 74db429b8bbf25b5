"""What cannot be held is refused if it was asked for, and said in the result if not."""
import harness
import pytest

NO_CGROUP = "needs a user who may write no cgroup"


@pytest.mark.needs_root(NO_CGROUP)
@pytest.mark.parametrize("isolation", ["container", "process", "auto"])
def test_cpus_are_refused_where_they_cannot_be_held(nobody, isolation):
    result = nobody.run("-l", "sh", "-c", "echo ran", "--cpus", "0.5", "--isolation", isolation)
    assert (result.out, result.code) == ("", 125)
    assert "cpus limit cannot be held" in result.err
    assert "cgroup" in result.err, "and why"


@pytest.mark.needs_root("only root may write cgroups here")
def test_cpus_are_held_where_they_can(hotcell):
    object = hotcell.json("-l", "sh", "-c", "echo ran", "--cpus", "0.5")
    assert (object["stdout"], object["limits_not_enforced"]) == ("ran\n", [])


@pytest.mark.needs_root("only root may write cgroups here")
def test_as_root_a_container_holds_everything(hotcell):
    assert hotcell.json("-l", "sh", "-c", "")["limits_not_enforced"] == []


@pytest.mark.needs_root(NO_CGROUP)
def test_soft_limits_are_listed(nobody):
    listed = nobody.json("-l", "sh", "-c", "")["limits_not_enforced"]
    assert sorted(limit.split(":")[0] for limit in listed) == ["cpu", "memory"]
    assert all("soft" in limit for limit in listed)


@pytest.mark.needs_root(NO_CGROUP)
def test_soft_limits_are_shown_with_stats(nobody):
    assert "limit not enforced: memory" in nobody.run("--stats", "-l", "sh", "-c", "").err
    assert nobody.run("-l", "sh", "-c", "").err == ""


@pytest.mark.needs_root(NO_CGROUP)
def test_a_soft_memory_limit_ends_a_bomb_all_the_same(nobody, isolation):
    object = nobody.json("-l", "python", "--memory", "100M", "--timeout", "20s", "-c", """
print("before", flush=True)
kept = []
while len(kept) < 4000: kept.append(bytearray(1 << 20))
""", "--isolation", isolation)
    assert (object["reason"], object["stdout"]) == ("memory_limit", "before\n")


@pytest.mark.needs_root(NO_CGROUP)
def test_a_soft_memory_limit_counts_files_since_they_are_in_memory(nobody):
    object = nobody.json("-l", "python", "--memory", "100M", "--disk", "600M", "--file-size", "600M",
                         "--timeout", "20s", "-c", """
import time
print("before", flush=True)
with open("/tmp/big", "wb") as f:
    for i in range(500): f.write(bytes(1 << 20))
time.sleep(5)
""")
    assert (object["reason"], object["stdout"]) == ("memory_limit", "before\n")


@pytest.mark.needs_root(NO_CGROUP)
def test_the_limit_of_processes_holds_without_a_cgroup(nobody):
    object = nobody.json("-l", "sh", "--pids", "5", "-c", "for i in 1 2 3 4 5 6; do sleep 5 & done")
    assert object["exit_code"] != 0
    assert "fork" in object["stderr"].lower()


@pytest.mark.needs_root(NO_CGROUP)
def test_in_a_process_cell_a_limit_of_processes_is_refused_where_it_cannot_be_held(nobody):
    result = nobody.run("--isolation", "process", "-l", "sh", "--pids", "5", "-c", "echo ran")
    assert (result.out, result.code) == ("", 125)
    assert "processes limit cannot be held" in result.err
    object = nobody.json("--isolation", "process", "-l", "sh", "-c", "")
    assert "processes" in object["limits_not_enforced"]


@pytest.mark.needs_root("only root may write cgroups here")
def test_as_root_a_process_cell_lacks_only_disk_and_network(hotcell):
    object = hotcell.json("--isolation", "process", "-l", "sh", "-c", "")
    assert sorted(object["limits_not_enforced"]) == ["disk", "network"]


def test_a_refusal_leaves_nothing(anyone):
    word = harness.token()
    result = anyone.run("--isolation", "process", "--disk", "1M", "-l", "sh", "-c", "", "--arg", word)
    assert result.code == 125
    harness.wait_until(lambda: not harness.pids_with(word), "nothing is left")
