#include "keeper/warm.h"

#include "base/own.h"
#include "keeper/vmm.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAMS = 3 };

static int send_rehearsal(const struct warm *w, const struct msg_exec *exec, struct err *e)
{
	uint8_t flags = WARM_REHEARSAL;
	struct iovec pieces[] = {
		{ &flags, 1 },
		{ (void *)(uintptr_t)exec->request, exec->request_len },
	};
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = COUNT(pieces) };

	if (sendmsg(w->socket_fd, &message, MSG_NOSIGNAL) < 0)
		return err_sys(e, "give a rehearsal to the warm machine");
	return 0;
}

int warm_start(struct warm *w, const struct msg_exec *exec, const struct keeper_options *options,
	int snapshot_fd, struct err *e)
{
	auto_close int snapshot = snapshot_fd;
	auto_close int theirs = -1;
	struct program started;
	int ends[2];

	if (snapshot < 0)
		return err_set(e, ERR_PROTOCOL, "a warm machine starts from a snapshot");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	theirs = ends[1];
	if (program_start_warm(&started, exec, options, theirs, snapshot, e)) {
		close(ends[0]);
		return -1;
	}
	w->socket_fd = ends[0];
	w->pid = started.pid;
	fcntl(w->socket_fd, F_SETFL, O_NONBLOCK);
	return exec->request_len ? send_rehearsal(w, exec, e) : 0;
}

/* Without streams it uses those that it has. */
static int send_request(const struct warm *w, const struct msg_exec *exec, const int *streams)
{
	uint8_t flags = exec->warm == EXEC_WARM_RUN_LAST ? WARM_LAST : 0;
	struct iovec pieces[] = {
		{ &flags, 1 },
		{ (void *)(uintptr_t)exec->request, exec->request_len },
	};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(STREAMS * sizeof(int))];
	} control = { .head = {
			      .cmsg_len = CMSG_LEN(STREAMS * sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
		      } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = COUNT(pieces) };

	if (streams) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.room);
		memcpy(CMSG_DATA(&control.head), streams, STREAMS * sizeof(int));
	}
	return sendmsg(w->socket_fd, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static void close_streams(struct warm *w)
{
	if (!w->has_streams)
		return;
	own_close(&w->out_fd[0]);
	own_close(&w->out_fd[1]);
	w->has_streams = false;
}

static int run_with_kept(
	struct warm *w, struct program *p, const struct msg_exec *exec, struct err *e)
{
	p->pid = w->pid;
	p->had_no_stdin = true;
	p->out_fd[0] = w->out_fd[0];
	p->out_fd[1] = w->out_fd[1];
	w->has_streams = false;
	if (send_request(w, exec, NULL) == 0)
		return 0;
	err_sys(e, "give the run to the warm machine");
	program_close(p);
	return -1;
}

void warm_keep_streams(struct warm *w, struct program *p)
{
	if (p->stdin_fd >= 0 || p->out_fd[0] < 0 || p->out_fd[1] < 0 || !p->had_no_stdin)
		return;
	w->out_fd[0] = take_fd(&p->out_fd[0]);
	w->out_fd[1] = take_fd(&p->out_fd[1]);
	w->has_streams = true;
}

void warm_tell_staged(struct warm *w)
{
	const uint8_t told = WARM_STAGED;

	if (w->socket_fd >= 0 && send(w->socket_fd, &told, 1, MSG_NOSIGNAL) != 1)
		warm_close(w);
}

int warm_run(struct warm *w, struct program *p, const struct msg_exec *exec, struct err *e)
{
	int streams[STREAMS];

	if (w->socket_fd < 0)
		return err_set(e, ERR_PROTOCOL, "there is no warm machine in this cell");
	if (w->has_streams && exec->stdin_kind != STDIN_STREAM)
		return run_with_kept(w, p, exec, e);
	close_streams(w);
	if (program_open_pipes(p, exec->stdin_kind == STDIN_STREAM, streams, e))
		return -1;
	p->pid = w->pid;
	p->had_no_stdin = exec->stdin_kind != STDIN_STREAM;
	if (send_request(w, exec, streams)) {
		err_sys(e, "give the run to the warm machine");
		program_close(p);
	}
	for (int i = 0; i < STREAMS; i++)
		close(streams[i]);
	return e->kind == ERR_NONE ? 0 : -1;
}

int warm_receive(struct warm *w, struct warm_answer *ret, char *ret_text)
{
	struct iovec pieces[] = { { ret, sizeof(*ret) }, { ret_text, WARM_TEXT_MAX - 1 } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = COUNT(pieces) };
	ssize_t n = recvmsg(w->socket_fd, &message, 0);

	/* It ended with a request unread: that is told first, and then its last words. */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(w->socket_fd, &message, 0);
	if (n >= (ssize_t)sizeof(*ret)) {
		ret_text[(size_t)n - sizeof(*ret)] = '\0';
		return 1;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void warm_reset(struct warm *w)
{
	const uint8_t order = WARM_RESET;

	if (w->socket_fd >= 0 && send(w->socket_fd, &order, 1, MSG_NOSIGNAL) != 1)
		warm_close(w);
}

void warm_close(struct warm *w)
{
	own_close(&w->socket_fd);
	close_streams(w);
	*w = (struct warm){ .socket_fd = -1 };
}
