"""A VMM that its guest has taken over says what it likes, to the engine and to the keeper. It can lie about
its own run, and do nothing else: here one that attacks is put in its place."""
import os
import shutil
import time
from pathlib import Path

import harness
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
VMM = r"""
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <signal.h>
#include <unistd.h>
#include "vmm/mother.h"
enum { KEEPER = 1003, LINE = 1004, SNAPSHOT = 1005, GOES_OUT = 78, EXITED = 73 };
static char buffer[200000];
static char is_quiet = 1;

/* ended by itself, status 0, a few numbers, no output */
static int exited(const char *out, uint32_t len)
{
	char frame[70000] = { EXITED };
	/* kind, status, wall, cpu, rss, processes, disk, warm, new, waited, kept, exits, unknown, name, out, err, put, errno, text */
	int at = 1 + 1 + 4 + 8 * 4 + 5 + 8 * 2;

	frame[39] = frame[40] = is_quiet;
	frame[at] = 1; /* the name: "" and its NUL */
	at += 5;
	memcpy(frame + at, &len, 4);
	memcpy(frame + at + 4, out, len);
	at += 4 + len + 4 + 1 + 4;
	frame[at] = 1;
	return send(LINE, frame, at + 5, MSG_NOSIGNAL);
}

static void give_descriptor(int to)
{
	struct iovec piece = { "\116", 1 };
	union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = {
		.head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };

	*(int *)CMSG_DATA(&control.head) = 0;
	sendmsg(to, &m, MSG_NOSIGNAL);
}

/* A name that is taken as long as some process holds the socket. */
static int take_name(void)
{
	struct sockaddr_un name = { AF_UNIX, "\0left" };

	return bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, 8);
}

int main(int argc, char **argv)
{
	static const char goes_out = GOES_OUT;

	if (strcmp(argv[argc - 1], "--from-snapshot") != 0)
		return ftruncate(SNAPSHOT, 4 << 20);
	if (strcmp(argv[argc - 2], "--mother") == 0)
		mother_serve(); /* as it is: no guest can take that over */
	do
		read(LINE, buffer, sizeof(buffer));
	while (buffer[0] & 4); /* a rehearsal */
	memset(buffer, 0, sizeof(buffer));
	ATTACK;
	for (;;)
		pause();
}
"""

# What it does, the reason that the run ends with, and how it is told.
ATTACKS = {
    "says the right thing": ('exited("lie", 3)', "exited"),
    "garbage": ('send(LINE, buffer, 1000, 0)', "cell_failed"),
    "nothing": ('send(LINE, "", 1, 0)', "cell_failed"),
    "largest": ('memset(buffer, 73, 65536); send(LINE, buffer, 65536, 0)', "cell_failed"),
    "too large": ('memset(buffer, 73, 70000); send(LINE, buffer, 70000, 0)', "timeout"),
    "too much output": ('exited(buffer, 8193)', "cell_failed"),
    "not a quiet end": ('is_quiet = 0; exited("lie", 3)', "cell_failed"),
    "files": ('send(LINE, "\\112\\5\\0\\0\\0name\\0\\1\\1\\0\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0", 27, 0)', "cell_failed"),
    "output": ('send(LINE, "\\110\\1\\4\\0\\0\\0text", 10, 0)', "cell_failed"),
    "goes out twice": ('send(LINE, &goes_out, 1, 0); send(LINE, &goes_out, 1, 0)', "cell_failed"),
    "goes out, and ends here": ('send(LINE, &goes_out, 1, 0); exited("lie", 3)', "cell_failed"),
    "goes out, and is silent": ('send(LINE, &goes_out, 1, 0)', "timeout"),
    "goes out with more": ('buffer[0] = goes_out; send(LINE, buffer, 9, 0)', "cell_failed"),
    "a descriptor": ('give_descriptor(LINE)', "timeout"),
    "hangs up": ('close(LINE)', "timeout"),
    "hangs up on all": ('close(LINE); close(KEEPER)', "timeout"),
    "garbage for the keeper": ('send(KEEPER, buffer, 1000, 0); send(LINE, &goes_out, 1, 0)', "timeout"),
    "a descriptor for the keeper": ('give_descriptor(KEEPER); send(LINE, &goes_out, 1, 0)', "timeout"),
    "ends": ('return 7', "exited"),
    "floods": ('for (;;) send(LINE, &goes_out, 1, 0)', "cell_failed"),
}


def take_over(private, attack):
    spy = private.program.with_name("hotcell-vmm")
    source = private.where / "vmm.c"
    source.write_text(VMM.replace("ATTACK", attack))
    spy.unlink()
    compiler = shutil.which("gcc")
    assert os.spawnv(os.P_WAIT, compiler, [compiler, "-w", "-static", "-D_GNU_SOURCE", f"-I{SOURCE}", "-o", str(spy), str(source),
                                           str(SOURCE / "vmm/mother.c")]) == 0
    spy.chmod(0o755)


@pytest.mark.parametrize("name", ATTACKS)
def test_can_say_anything_and_gain_nothing(private, name):
    attack, reason = ATTACKS[name]
    take_over(private, attack)
    before = time.monotonic()
    result = private.json("--isolation", "vm", "--timeout", "1", "-l", "python", "-c", "print(1)")
    assert result["reason"] == reason, result
    assert result["stdout"] == ("lie" if name == "says the right thing" else "")
    assert time.monotonic() - before < 30
    harness.wait_until(lambda: not harness.pids_below(private.where), "all of it is gone")


# What it does to all others in its cell, whoever they are: from the second machine on that is one that makes machines.
HARMS = {
    "no harm": "",
    "death": "kill(-1, SIGKILL)",
    "a stop": "kill(-1, SIGSTOP)",
    "a wish to be alone": "for (int i = 0; i < 3; i++) kill(-1, SIGTERM)",
    "a crowd": "for (int i = 0; i < 30; i++) if (fork() == 0) for (;;) fork()",
}


@pytest.mark.parametrize("harm", HARMS)
def test_leaves_nothing_to_the_next_machine_of_its_cell(private, programs, harm):
    """It says that its run was quiet, and has left a file and a process."""
    take_over(private, r"""
	if (access("left", F_OK) == 0 || access("/tmp/left", F_OK) == 0 || take_name())
		return exited("left", 4), 0;
	HARM;
	close(open("left", O_CREAT | O_WRONLY, 0600));
	close(open("/tmp/left", O_CREAT | O_WRONLY, 0600));
	if (fork() == 0)
		for (setsid();;)
			pause();
	exited("clean", 5)""".replace("HARM", HARMS[harm]))
    shutil.copy(programs / "reuse", private.program.with_name("reuse"))
    assert harness.in_one_cell(private.program.parent, "vm", *["9000 40 - pass"] * 4, once=True) == [
        "exited 0 clean|"] * 4


def test_that_is_silent_is_ended_all_the_same(private):
    take_over(private, "")
    result = private.json("--isolation", "vm", "--timeout", "1", "-l", "python", "-c", "print(1)")
    assert result["reason"] == "timeout"
    harness.wait_until(lambda: not harness.pids_below(private.where), "all of it is gone")
