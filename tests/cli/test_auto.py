"""--isolation auto, the default: a vm where there can be one, else a container, and the result says which
and why."""
import os
import pathlib
import pty
import subprocess

import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")

# shmget is a call that a container has and a vm has not.
ASK = "import ctypes, sys\nshared = ctypes.CDLL(None).shmget(0, 4096, 0o600)\n"
FAILS = ASK + "sys.exit('no memory' if shared < 0 else None)"
C_FAILS = """
#include <stdio.h>
#include <sys/shm.h>
int main(int argc, char **argv)
{
	printf("%s", argc > 1 ? argv[1] : "");
	fflush(stdout);
	return shmget(IPC_PRIVATE, 4096, 0600) < 0 ? 3 : 0;
}
"""


@pytest.mark.parametrize("isolation", [(), ("--isolation", "auto")])
@pytest.mark.parametrize("language", ["sh", "python"])
def test_what_can_be_a_vm_is_one(hotcell, language, isolation):
    object = hotcell.json("-l", language, "-c", "", *isolation)
    assert (object["isolation"], object["isolation_why"]) == ("vm", "")


def test_what_is_asked_for_needs_no_reason(hotcell):
    object = hotcell.json("--isolation", "container", "-l", "sh", "-c", "")
    assert (object["isolation"], object["isolation_why"]) == ("container", "")


def test_without_kvm_it_is_a_container_and_says_so(nobody):
    if pathlib.Path("/dev/kvm").stat().st_mode & 0o006 == 0o006:
        pytest.fail("here everybody may open /dev/kvm: this shows nothing")
    object = nobody.json("-l", "sh", "-c", "echo works")
    assert (object["isolation"], object["stdout"]) == ("container", "works\n")
    assert object["isolation_why"] == "a vm needs /dev/kvm: Permission denied"
    assert "in a container: a vm needs /dev/kvm" in nobody.run("--stats", "-l", "sh", "-c", "").err


def test_without_kvm_whoever_wants_a_vm_is_told(nobody):
    result = nobody.run("--isolation", "vm", "-l", "sh", "-c", "")
    assert result.code == 125 and "/dev/kvm" in result.err


# There, and access() has nothing against it: one cannot be asked, the other not be opened by who has no terminal.
@pytest.mark.parametrize("device, why", [("null", "Inappropriate ioctl for device"), ("tty", "No such device or address")])
def test_where_kvm_is_of_no_use_it_is_a_container_and_says_so(hotcell, device, why):
    wrapper = ["setsid", "-w", "unshare", "-m", "sh", "-c", f'mount --bind /dev/{device} /dev/kvm && exec "$@"', "sh"]
    object = hotcell.json("-l", "sh", "-c", "echo works", wrapper=wrapper)
    assert (object["isolation"], object["stdout"]) == ("container", "works\n")
    assert object["isolation_why"] == f"a vm needs /dev/kvm: {why}"
    asked = hotcell.run("--isolation", "vm", "-l", "sh", "-c", "", wrapper=wrapper)
    assert asked.code == 125 and f"/dev/kvm: {why}; what to do: " in asked.err


def test_a_language_that_no_vm_can_run_says_so(hotcell, tmp_path):
    (tmp_path / "mine.yaml").write_text("id: mine\nname: Mine\nfile: main\nfind:\n  - program: /bin/sh\n"
                                        "version: ['{program}', -c, echo 1]\nrun: ['{program}', '{file}']\n")
    object = hotcell.json("--languages", tmp_path, "-l", "mine", "-c", "")
    assert (object["isolation"], object["isolation_why"]) == ("container", "Mine cannot be run in a vm yet")


@pytest.mark.parametrize("options, says", [((), 1), (("--quiet",), 0), (("--stats",), 1), (("--isolation", "container"), 0)])
def test_on_a_terminal_people_are_told_why_it_is_no_vm(hotcell, tmp_path, options, says):
    (tmp_path / "mine.yaml").write_text("id: mine\nname: Mine\nfile: main\nfind:\n  - program: /bin/sh\n"
                                        "version: ['{program}', -c, echo 1]\nrun: ['{program}', '{file}']\n")
    ours, theirs = pty.openpty()
    subprocess.run([hotcell.program, "run", "--languages", tmp_path, "-l", "mine", "-c", "", *options],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.write(theirs, b"end\n")
    said = b""
    while not said.endswith(b"end\r\n"):
        said += os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    assert said.count(b"hotcell: in a container: Mine cannot be run in a vm yet") == says, said


# ---- what a vm has not ----

@pytest.mark.parametrize("args", [("-l", "python", "-c", FAILS), ("-l", "c", "-c", C_FAILS)])
def test_a_run_that_failed_for_a_call_is_made_again(hotcell, args):
    object = hotcell.json(*args)
    assert (object["exit_code"], object["stdout"], object["stderr"]) == (0, "", "")
    assert object["isolation"] == "container"
    assert object["isolation_why"] == "run again, for a vm does not have the call shmget"


def test_input_given_as_text_is_there_again(hotcell, tmp_path):
    (tmp_path / "in").write_text("given")
    object = hotcell.json("-l", "python", "-f", tmp_path / "in", "-c",
                          ASK + "open('made', 'w').write(open('in').read()); sys.exit(shared < 0)")
    assert (object["exit_code"], object["isolation"]) == (0, "container")
    assert [file["path"] for file in object["files"]] == ["made"]


def test_in_a_vm_it_is_told_what_was_missing(hotcell):
    object = hotcell.json("--isolation", "vm", "-l", "python", "-c", FAILS)
    assert (object["isolation"], object["exit_code"]) == ("vm", 1)
    assert object["stderr"] == ("no memory\nhotcell: the program called shmget, which a vm does not have; "
                                "container isolation has it\n")


def test_a_run_that_goes_on_without_is_not_made_again(hotcell):
    object = hotcell.json("-l", "python", "-c", ASK + "print('fine')")
    assert (object["isolation"], object["stdout"], object["stderr"]) == ("vm", "fine\n", "")


def test_a_run_that_failed_for_another_reason_is_not_made_again(hotcell):
    object = hotcell.json("-l", "python", "-c", "import sys; sys.exit(3)")
    assert (object["isolation"], object["exit_code"]) == ("vm", 3)


def test_what_was_streamed_is_not_made_again(hotcell):
    """Whoever watches has seen the beginning of it."""
    result = hotcell.run("-l", "c", "-c", C_FAILS, "--arg", "seen ")
    assert (result.out, result.code) == ("seen ", 3)
    assert "the program called shmget" in result.err


def test_input_that_was_read_is_not_made_again(hotcell):
    result = hotcell.run("-l", "c", "-c", C_FAILS, "--stdin", "-", input=b"typed")
    assert result.code == 3
    assert "the program called shmget" in result.err


def test_a_vm_that_does_not_start_is_replaced(private):
    """The VMM is there, and no use."""
    vmm = private.program.with_name("hotcell-vmm")
    vmm.unlink()
    vmm.write_bytes(pathlib.Path("/bin/false").read_bytes())
    vmm.chmod(0o755)
    object = private.json("-l", "sh", "-c", "echo works")
    assert (object["isolation"], object["stdout"]) == ("container", "works\n")
    assert "could not be started" in object["isolation_why"]
    assert private.json("--isolation", "vm", "-l", "sh", "-c", "echo works")["stdout"] == ""
