"""packaging/systemd: the units are well-formed, and what they switch off is not what cells are made of."""
import re
import shutil
import subprocess

import harness
import pytest

UNITS = harness.ROOT / "packaging" / "systemd"


def settings():
    """{"Type": ["notify"], ...} of the service, as it is installed."""
    found = {}
    for line in (UNITS / "hotcell.service.in").read_text().splitlines():
        if re.match(r"^[A-Z]\w*=", line):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def bounding_set():
    return {name.removeprefix("CAP_").lower() for name in " ".join(settings()["CapabilityBoundingSet"]).split()}


def test_systemd_finds_nothing_wrong(tmp_path):
    text = (UNITS / "hotcell.service.in").read_text()
    assert text.count("@bindir@") == 1
    (tmp_path / "hotcell.service").write_text(text.replace("@bindir@/hotcell", str(harness.HOTCELL)))
    shutil.copy(UNITS / "hotcell.socket", tmp_path)
    if not shutil.which("systemd-analyze"):
        return  # nothing to ask; the other tests hold all the same
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "hotcell.service", tmp_path / "hotcell.socket"],
        capture_output=True, text=True, env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_warden_keeps_its_capabilities():
    kept = re.findall(r"\{ CAP_(\w+), \"", (harness.ROOT / "src/warden/privileges.c").read_text())
    assert len(kept) >= 9
    assert {name.lower() for name in kept} <= bounding_set()


@pytest.mark.skipif(not harness.IS_ROOT, reason="the unit is started by root")
@pytest.mark.parametrize("isolation", harness.EVERY_ISOLATION)
def test_cells_can_be_made_with_what_the_unit_leaves(hotcell, isolation):
    wrapper = ["setpriv", "--no-new-privs", "--bounding-set", ",".join(["-all", *(f"+{one}" for one in bounding_set())])]
    result = hotcell("run", "--isolation", isolation, "-l", "sh", "-c", "echo works", wrapper=wrapper)
    assert (result.code, result.out) == (0, "works\n"), result


def test_nothing_is_switched_off_that_cells_are_made_of():
    text = (UNITS / "hotcell.service.in").read_text()
    for name in ("RestrictNamespaces", "ProtectControlGroups", "PrivateDevices", "ProtectKernelTunables",
                 "ProtectKernelLogs", "ProtectProc", "ProcSubset", "ProtectHostname", "PrivateUsers", "PrivateNetwork",
                 "MemoryDenyWriteExecute"):
        assert name not in settings()
        assert re.search(rf"^# .*\b{name}\b", text, re.M), f"{name}: say why not"
    assert settings()["Delegate"] == ["yes"]
    assert settings()["OOMPolicy"] == ["continue"]


def test_a_stop_takes_longer_than_draining(hotcell):
    drain = int(re.search(r"^drain_s: (\d+)$", hotcell("serve", "--print-config").out, re.M)[1])
    assert int(settings()["TimeoutStopSec"][0].removesuffix("s")) > drain


def test_the_sockets_are_those_of_the_settings(hotcell):
    printed = dict(re.findall(r"^(\w+): \"?(.*?)\"?$", hotcell("serve", "--print-config").out, re.M))
    listens = re.findall(r"^ListenStream=(.*)$", (UNITS / "hotcell.socket").read_text(), re.M)
    assert f"{printed['host']}:{printed['port']}" in listens
    assert "/run/hotcell/hotcell.sock" in listens
