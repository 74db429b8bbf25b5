/* call_message: the send and receive families. All of them become one struct message, which holds a
 * copy of everything that the program said, and one sendmsg or recvmsg that does not block. */
#include "vmm/call_socket.h"

#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/fds.h"
#include "vmm/signal.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { CONTROL_SIZE = 8192, MESSAGES_MAX = 1024 };

struct message {
	int fd;
	int flags;
	bool is_receive;
	struct msghdr theirs; /* as the program gave it: addresses are its own */
	struct msghdr ours;
	struct pieces p;
	struct sockaddr_storage name;
	_Alignas(struct cmsghdr) char control[CONTROL_SIZE];
};

/* ---- ancillary data ---- */

static bool are_programs_fds(const struct cmsghdr *c)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (fds_get((uint64_t)fd) < 0)
			return false;
	}
	return true;
}

/* Numbers that go into a packet's header. */
static bool is_header_field(const struct cmsghdr *c)
{
	if (c->cmsg_level == IPPROTO_IP)
		return c->cmsg_type == IP_TTL || c->cmsg_type == IP_TOS;
	return c->cmsg_level == IPPROTO_IPV6 &&
	       (c->cmsg_type == IPV6_HOPLIMIT || c->cmsg_type == IPV6_TCLASS);
}

/* What is sent: descriptors of the program, who it is, which the host checks, or such a number. */
static int check_control(const struct message *m)
{
	size_t at = 0;

	while (at + sizeof(struct cmsghdr) <= m->ours.msg_controllen) {
		const struct cmsghdr *c = (const struct cmsghdr *)(const void *)(m->control + at);

		if (c->cmsg_len < CMSG_LEN(0) || c->cmsg_len > m->ours.msg_controllen - at)
			return -EINVAL;
		if (!is_header_field(c) &&
			(c->cmsg_level != SOL_SOCKET ||
				(c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_CREDENTIALS)))
			return -EINVAL;
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
			!are_programs_fds(c))
			return -EBADF;
		at += CMSG_ALIGN(c->cmsg_len);
	}
	return 0;
}

/* Keeps those received descriptors that the program may have; the rest is closed, as the kernel
 * does it at a limit. */
static void take_fds(struct guest *g, struct message *m, struct cmsghdr *c)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		fd = fds_new(g, fd);
		if (fd < 0) {
			m->ours.msg_flags |= MSG_CTRUNC;
			continue;
		}
		memcpy(CMSG_DATA(c) + kept++ * sizeof(fd), &fd, sizeof(fd));
	}
	/* Its place stays as long as it was; what follows is found by the old length in take_control(). */
	c->cmsg_len = CMSG_LEN(kept * sizeof(int));
}

/* Moves what was received together again, without what was taken out. */
static void take_control(struct guest *g, struct message *m)
{
	size_t end = m->ours.msg_controllen;
	size_t from = 0;
	size_t to = 0;

	while (from + sizeof(struct cmsghdr) <= end) {
		struct cmsghdr *c = (struct cmsghdr *)(void *)(m->control + from);
		size_t length = CMSG_ALIGN(c->cmsg_len);
		size_t kept;

		if (c->cmsg_len < CMSG_LEN(0) || c->cmsg_len > end - from)
			break;
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			take_fds(g, m, c);
		kept = c->cmsg_len;
		memmove(m->control + to, c, kept);
		to += kept;
		from += length;
		if (from + sizeof(struct cmsghdr) <= end)
			to = CMSG_ALIGN(to);
	}
	m->ours.msg_controllen = to;
}

/* ---- from the program, and back to it ---- */

static int copy_message_in(struct guest *g, struct message *m)
{
	struct msghdr *theirs = &m->theirs;

	m->ours = (struct msghdr){ .msg_iov = m->p.at, .msg_iovlen = (size_t)m->p.count };
	if (theirs->msg_name) {
		m->ours.msg_name = &m->name;
		m->ours.msg_namelen = sizeof(m->name);
	}
	if (theirs->msg_control && theirs->msg_controllen) {
		m->ours.msg_control = m->control;
		m->ours.msg_controllen = theirs->msg_controllen < CONTROL_SIZE ?
						 theirs->msg_controllen :
						 CONTROL_SIZE;
	}
	if (m->is_receive)
		return 0;
	if (theirs->msg_controllen > CONTROL_SIZE)
		return -ENOBUFS;
	if (theirs->msg_name) {
		if (theirs->msg_namelen > sizeof(m->name))
			return -EINVAL;
		m->ours.msg_namelen = theirs->msg_namelen;
		if (mem_read(&g->mem, &m->name, (uint64_t)(uintptr_t)theirs->msg_name,
			    theirs->msg_namelen))
			return -EFAULT;
	}
	if (m->ours.msg_control &&
		mem_read(&g->mem, m->control, (uint64_t)(uintptr_t)theirs->msg_control,
			m->ours.msg_controllen))
		return -EFAULT;
	return check_control(m);
}

/* `theirs` gets the lengths and flags that the program is to see. */
static int copy_message_out(struct guest *g, struct message *m)
{
	struct msghdr *theirs = &m->theirs;
	socklen_t length = m->ours.msg_namelen;

	if (length > theirs->msg_namelen)
		length = theirs->msg_namelen;
	if (length > sizeof(m->name))
		length = sizeof(m->name);
	if (theirs->msg_name &&
		mem_write(&g->mem, (uint64_t)(uintptr_t)theirs->msg_name, &m->name, length))
		return -EFAULT;
	theirs->msg_namelen = theirs->msg_name ? m->ours.msg_namelen : 0;
	if (m->ours.msg_control && mem_write(&g->mem, (uint64_t)(uintptr_t)theirs->msg_control,
					   m->control, m->ours.msg_controllen))
		return -EFAULT;
	theirs->msg_controllen = m->ours.msg_control ? m->ours.msg_controllen : 0;
	theirs->msg_flags = m->ours.msg_flags & ~MSG_CMSG_CLOEXEC;
	return 0;
}

/* ---- one message ---- */

static int64_t move_once(struct guest *g, struct message *m)
{
	int64_t n;

	m->ours.msg_iov = m->p.at;
	m->ours.msg_iovlen = (size_t)m->p.count;
	/* Waiting for all of it is our affair. */
	if (!m->is_receive)
		return host_result(
			sendmsg(m->fd, &m->ours, m->flags | MSG_DONTWAIT | MSG_NOSIGNAL));
	n = host_result(recvmsg(m->fd, &m->ours, (m->flags & ~MSG_WAITALL) | MSG_DONTWAIT));
	if (n >= 0)
		take_control(g, m);
	return n;
}

/* Whether the rest of what was asked for is moved as well: streams only. */
static bool wants_all(const struct message *m)
{
	int type = 0;
	socklen_t length = sizeof(type);

	if (m->is_receive && (!(m->flags & MSG_WAITALL) || m->flags & MSG_PEEK))
		return false;
	return getsockopt(m->fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

static int64_t end_message(struct guest *g, struct message *m, uint64_t *done, int64_t result)
{
	uint64_t total = *done;

	*done = 0;
	if (result == -EPIPE && !(m->flags & MSG_NOSIGNAL))
		signal_raise(g, guest_thread(g), SIGPIPE, NULL);
	if (total || result >= 0) {
		int error = m->is_receive ? copy_message_out(g, m) : 0;

		if (error)
			return error;
	}
	return total ? (int64_t)total : result;
}

static int64_t move_message(struct guest *g, struct message *m)
{
	uint64_t *done = file_progress(g);
	int64_t n = copy_message_in(g, m);
	bool is_stream;

	if (n)
		return n;
	/* What was sent with the first part is not sent again. */
	if (*done)
		m->ours.msg_controllen = 0;
	pieces_skip(&m->p, *done);
	is_stream = wants_all(m);
	do {
		n = move_once(g, m);
		if (n > 0 && is_stream) {
			*done += (uint64_t)n;
			pieces_skip(&m->p, (uint64_t)n);
			if (!m->is_receive)
				m->ours.msg_controllen = 0;
		}
		/* Descriptors came along: the next part would write over them. */
	} while (n > 0 && is_stream && m->p.size && !(m->is_receive && m->ours.msg_controllen));
	if (n != -EAGAIN || m->flags & MSG_DONTWAIT)
		return end_message(g, m, done, n);
	n = file_wait(g, m->fd, m->is_receive ? POLLIN : POLLOUT);
	return n == CALL_WAITS ? n : end_message(g, m, done, n);
}

/* ---- the calls ---- */

/* Too large for the stack of a call within a call; the VMM has one thread. */
static struct message message;

static struct message *begin(uint64_t fd, uint64_t flags, bool is_receive)
{
	message.fd = fds_get(fd);
	/* An error queue is the host's business. */
	message.flags = (int)flags & ~(MSG_ERRQUEUE | MSG_ZEROCOPY);
	message.is_receive = is_receive;
	message.theirs = (struct msghdr){ 0 };
	return &message;
}

int64_t call_sendto(struct guest *g, const uint64_t a[6])
{
	struct message *m = begin(a[0], a[3], false);
	int result;

	if (m->fd < 0)
		return m->fd;
	result = pieces_one(g, &m->p, a[1], a[2], false);
	if (result)
		return result;
	m->theirs.msg_name = (void *)(uintptr_t)a[4];
	m->theirs.msg_namelen = (socklen_t)a[5];
	return move_message(g, m);
}

int64_t call_recvfrom(struct guest *g, const uint64_t a[6])
{
	struct message *m = begin(a[0], a[3], true);
	int64_t result;

	if (m->fd < 0)
		return m->fd;
	result = pieces_one(g, &m->p, a[1], a[2], true);
	if (result)
		return result;
	m->theirs.msg_name = (void *)(uintptr_t)a[4];
	if (a[4] && mem_read(&g->mem, &m->theirs.msg_namelen, a[5], sizeof(socklen_t)))
		return -EFAULT;
	result = move_message(g, m);
	if (result >= 0 && a[4] &&
		mem_write(&g->mem, a[5], &m->theirs.msg_namelen, sizeof(socklen_t)))
		return -EFAULT;
	return result;
}

static int64_t move_header(struct guest *g, struct message *m, uint64_t header)
{
	int64_t result;

	if (m->fd < 0)
		return m->fd;
	if (mem_read(&g->mem, &m->theirs, header, sizeof(m->theirs)))
		return -EFAULT;
	result = pieces_vector(g, &m->p, (uint64_t)(uintptr_t)m->theirs.msg_iov,
		m->theirs.msg_iovlen, m->is_receive);
	if (result)
		return result == -EINVAL ? -EMSGSIZE : result;
	result = move_message(g, m);
	if (result >= 0 && m->is_receive &&
		mem_write(&g->mem, header, &m->theirs, sizeof(m->theirs)))
		return -EFAULT;
	return result;
}

int64_t call_sendmsg(struct guest *g, const uint64_t a[6])
{
	return move_header(g, begin(a[0], a[2], false), a[1]);
}

int64_t call_recvmsg(struct guest *g, const uint64_t a[6])
{
	return move_header(g, begin(a[0], a[2], true), a[1]);
}

/* Only the first one waits: a program must cope with fewer than it asked for. */
static int64_t move_many(struct guest *g, const uint64_t a[6], bool is_receive)
{
	uint64_t count = (uint32_t)a[2] < MESSAGES_MAX ? (uint32_t)a[2] : MESSAGES_MAX;
	uint64_t flags = a[3] & ~(uint64_t)MSG_WAITFORONE;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t header = a[1] + i * sizeof(struct mmsghdr);
		int64_t n = move_header(
			g, begin(a[0], i ? flags | MSG_DONTWAIT : flags, is_receive), header);
		uint32_t length = (uint32_t)n;

		if (n < 0)
			return i ? (int64_t)i : n;
		if (mem_write(&g->mem, header + offsetof(struct mmsghdr, msg_len), &length,
			    sizeof(length)))
			return -EFAULT;
	}
	return (int64_t)count;
}

int64_t call_sendmmsg(struct guest *g, const uint64_t a[6])
{
	return move_many(g, a, false);
}

/* The timeout is not looked at: only the first message is waited for, and for it Linux does not
 * look at it either. */
int64_t call_recvmmsg(struct guest *g, const uint64_t a[6])
{
	return move_many(g, a, true);
}
