#include "keeper/warm.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS = 3 };

/* By the mother, if there is one for such machines. If she fails, all that there is of her goes. */
static bool is_born(
	struct warm *w, struct program *p, const struct msg_exec *exec, const int sockets[2])
{
	pid_t pid;

	if (!w->mother.pid || exec->warm != EXEC_WARM_START_ONCE)
		return false;
	pid = mother_make(&w->mother, sockets[0], sockets[1]);
	if (pid > 0) {
		*p = (struct program){ .pid = pid, .stdin_fd = -1, .out_fd = { -1, -1 } };
		return true;
	}
	program_end_all(p);
	mother_forget(&w->mother);
	return false;
}

int warm_start(struct warm *w, struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, int snapshot_fd, struct err *e)
{
	auto_close int snapshot = snapshot_fd;
	auto_close int line = take_fd(&w->line_fd);
	auto_close int theirs = -1;
	int ends[2];

	own_close(&w->socket_fd);
	w->socket_fd = -1;
	if (snapshot < 0 || line < 0)
		return err_set(e, ERR_PROTOCOL, "a warm machine needs a snapshot and a line");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	theirs = ends[1];
	if (!is_born(w, p, exec, (int[]){ theirs, line }) &&
		program_start_warm(
			p, exec, options, &(struct vmm_fds){ theirs, line, snapshot, -1 }, e)) {
		close(ends[0]);
		return -1;
	}
	w->socket_fd = ends[0];
	fcntl(w->socket_fd, F_SETFL, O_NONBLOCK);
	return 0;
}

static void send_streams(const struct warm *w, const int *streams, size_t count)
{
	uint8_t told = WARM_STAGED;
	struct iovec piece = { &told, sizeof(told) };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(STREAMS * sizeof(int))];
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(count * sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
		      } };
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};

	memcpy(CMSG_DATA(&control.head), streams, count * sizeof(int));
	/* If it is gone, its wait status tells the rest. */
	(void)!sendmsg(w->socket_fd, &message, MSG_NOSIGNAL);
}

int warm_run(struct warm *w, struct program *p, bool with_stdin, struct err *e)
{
	int streams[STREAMS];

	if (p->pid <= 0)
		return err_set(e, ERR_PROTOCOL, "there is no warm machine in this cell");
	/* What its end has told already, counts; what its last run did, does not. */
	if (!p->main_reaped)
		*p = (struct program){ .pid = p->pid, .cpu_before_us = program_cpu_of(p->pid) };
	if (program_open_pipes(p, with_stdin, streams, e))
		return -1;
	send_streams(w, streams, STREAMS);
	for (int i = 0; i < STREAMS; i++)
		close(streams[i]);
	return 0;
}

int warm_run_again(struct warm *w, struct program *p, bool with_stdin, struct err *e)
{
	int theirs = -1;

	if (program_open_stdin(p, with_stdin, &theirs, e))
		return -1;
	p->cpu_us = p->processes = 0;
	p->cpu_before_us = program_cpu_of(p->pid);
	send_streams(w, &theirs, 1);
	close(theirs);
	return 0;
}

void warm_drop(const struct warm *w)
{
	const uint8_t told = WARM_DROPPED;

	if (w->socket_fd >= 0)
		(void)!send(w->socket_fd, &told, sizeof(told), MSG_NOSIGNAL);
}

int warm_receive(struct warm *w, struct warm_answer *ret, char *ret_text)
{
	struct iovec pieces[] = { { ret, sizeof(*ret) }, { ret_text, WARM_TEXT_MAX - 1 } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = COUNT(pieces) };
	ssize_t n = recvmsg(w->socket_fd, &message, 0);

	/* It ended with a message unread: that is told first, and then its last words. */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(w->socket_fd, &message, 0);
	if (n >= (ssize_t)sizeof(*ret)) {
		ret_text[(size_t)n - sizeof(*ret)] = '\0';
		return 1;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}
