#include "keeper/mother.h"

#include "base/own.h"
#include "wire/vmm_mother.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	PATIENCE_MS = 500, /* it needs a tenth of one, once it has started */
	SWEEPS_MAX = 64,   /* each meets at least one who has died since */
	SOCKETS = 2,
};

void mother_forget(struct mother *m)
{
	if (m->pid)
		close(m->socket_fd);
	*m = (struct mother){ .socket_fd = -1 };
}

static int hear(const struct mother *m)
{
	struct pollfd socket = { .fd = m->socket_fd, .events = POLLIN };
	struct mother_answer a;
	int ready;

	do
		ready = poll(&socket, 1, PATIENCE_MS);
	while (ready < 0 && errno == EINTR);
	return ready > 0 && recv(m->socket_fd, &a, sizeof(a), MSG_DONTWAIT) == sizeof(a) ?
		       a.result :
		       -1;
}

/* Returns what it answers, -1 if it does not. Whoever was in the cell may have stopped it. */
static int ask(const struct mother *m, uint8_t order, const int *sockets)
{
	struct iovec piece = { &order, sizeof(order) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(SOCKETS * sizeof(int))];
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(SOCKETS * sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
		      } };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (sockets) {
		memcpy(CMSG_DATA(&control.head), sockets, SOCKETS * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(SOCKETS * sizeof(int));
	}
	if (sendmsg(m->socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return -1;
	return hear(m);
}

/* It is known to be ending, mostly: one question less. */
static void end_known(const struct program *p)
{
	if (p->pid <= 0 || p->main_reaped)
		return;
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
}

bool mother_sweep(struct mother *m, const struct program *program)
{
	if (!m->pid)
		return false;
	end_known(program);
	for (int i = 0; i < SWEEPS_MAX; i++) {
		int is_alone = ask(m, MOTHER_SWEEP, NULL);

		if (is_alone == 1)
			return true;
		if (is_alone < 0 || wait4(-1, NULL, 0, NULL) == m->pid)
			break;
	}
	return false;
}

static bool fits(const struct mother *m, const struct mother *wanted)
{
	return m->pid && m->open_files == wanted->open_files && m->processes == wanted->processes &&
	       m->file_bytes == wanted->file_bytes && m->memory_bytes == wanted->memory_bytes &&
	       m->snapshot_device == wanted->snapshot_device &&
	       m->snapshot_number == wanted->snapshot_number;
}

int mother_start(struct mother *m, const struct msg_exec *exec,
	const struct keeper_options *options, int snapshot_fd, struct err *e)
{
	struct mother wanted = {
		.open_files = exec->open_files,
		.processes = exec->processes,
		.file_bytes = exec->file_bytes,
		.memory_bytes = exec->memory_bytes,
	};
	struct program started = { .stdin_fd = -1, .out_fd = { -1, -1 } };
	struct stat snapshot;
	int ends[2];

	if (fstat(snapshot_fd, &snapshot))
		return err_sys(e, "look at the snapshot");
	wanted.snapshot_device = snapshot.st_dev;
	wanted.snapshot_number = snapshot.st_ino;
	if (fits(m, &wanted))
		return 0;
	if (m->pid)
		program_end_all(&started);
	mother_forget(m);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	if (program_start_warm(&started, exec, options,
		    &(struct vmm_fds){ -1, -1, snapshot_fd, ends[1] }, e) == 0) {
		*m = wanted;
		m->pid = started.pid;
		m->socket_fd = ends[0];
	} else {
		close(ends[0]);
	}
	close(ends[1]);
	return m->pid ? 0 : -1;
}

pid_t mother_make(struct mother *m, int warm_fd, int line_fd)
{
	int sockets[SOCKETS] = { warm_fd, line_fd };
	int pid = ask(m, MOTHER_MAKE, sockets);

	return pid > 0 ? pid : -1;
}
