#include "vmm/mother.h"

#include "base/own.h"
#include "wire/vmm_mother.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SOCKETS = 2, FAILED = 125 };

/* Returns the order; 0 if it is none, or the keeper is gone. */
static uint8_t hear(int sockets[SOCKETS])
{
	uint8_t order = 0;
	struct iovec piece = { &order, sizeof(order) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(SOCKETS * sizeof(int))];
	} control = { 0 };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n;

	do
		n = recvmsg(VMM_MOTHER_FD, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return 0;
	if (order == MOTHER_MAKE && control.head.cmsg_len != CMSG_LEN(SOCKETS * sizeof(int)))
		return 0;
	memcpy(sockets, CMSG_DATA(&control.head), SOCKETS * sizeof(int));
	return order;
}

static void answer(int result)
{
	struct mother_answer a = { .result = result };

	if (send(VMM_MOTHER_FD, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
		_exit(FAILED);
}

/* Somebody who is dying still counts: the keeper has not reaped him yet. Who forks at this moment does so before, and is
 * met, or finds that he has been killed. */
static int sweep(void)
{
	return kill(-1, SIGKILL) && errno == ESRCH;
}

/* Our parent's child, not ours: he waits for it. */
static int fork_aside(void)
{
	long pid =
		syscall(SYS_clone, (unsigned long)(CLONE_PARENT | SIGCHLD), NULL, NULL, NULL, 0UL);

	return pid < 0 ? -errno : (int)pid;
}

static void become_machine(const int sockets[SOCKETS])
{
	close(VMM_MOTHER_FD);
	setsid();
	if (dup3(sockets[0], VMM_WARM_FD, O_CLOEXEC) < 0 ||
		dup3(sockets[1], VMM_LINE_FD, O_CLOEXEC) < 0)
		_exit(FAILED);
}

void mother_serve(void)
{
	for (;;) {
		int sockets[SOCKETS] = { -1, -1 };
		uint8_t order = hear(sockets);
		int pid = -1;

		if (order == MOTHER_SWEEP) {
			answer(sweep());
			continue;
		}
		if (order != MOTHER_MAKE)
			_exit(0);
		pid = fork_aside();
		if (pid == 0)
			become_machine(sockets);
		own_close(&sockets[0]);
		own_close(&sockets[1]);
		if (pid == 0)
			return;
		answer(pid);
	}
}
