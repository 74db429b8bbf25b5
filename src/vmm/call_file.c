/* call_file: reading and writing.
 *
 *	regular file, directory     at once: they do not block for long
 *	one of ours                 device.c
 *	everything else             tried without blocking; if it would block, the thread waits for
 *	                            poll to say otherwise and the call is made again
 *
 * "Tried without blocking" is RWF_NOWAIT where the host has it (pipes since Linux 6.4) and
 * MSG_DONTWAIT for sockets. What has neither is asked by poll first and then moved by one read or
 * write of at most PIPE_BUF bytes, which does not block once poll has said so. There another process
 * may be faster between the two; then this one blocks in the host, as its guest would have. */
#include "vmm/call_file.h"

#include "base/own.h"
#include "vmm/device.h"
#include "vmm/fds.h"
#include "vmm/signal.h"
#include "vmm/thread.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define OWN_OFFSET (-1)
#define RETRY_NS   10000000

struct transfer {
	int fd;
	bool is_read;
	int64_t offset;
	int flags; /* RWF_… */
	struct pieces p;
};

static uint64_t progress[THREADS_MAX];

uint64_t *file_progress(struct guest *g)
{
	if (!guest_thread(g)->tries_again)
		progress[g->current] = 0;
	return &progress[g->current];
}

uint64_t file_take_progress(int index)
{
	uint64_t taken = progress[index];

	progress[index] = 0;
	return taken;
}

/* A socket may have a limit for its waits. We never block in it, so the host does not hold it. */
static void set_sockets_deadline(struct thread *t, int fd, short events)
{
	struct timeval limit = { 0 };
	socklen_t length = sizeof(limit);
	int option = events & POLLOUT ? SO_SNDTIMEO : SO_RCVTIMEO;

	if (getsockopt(fd, SOL_SOCKET, option, &limit, &length) == 0 &&
		(limit.tv_sec || limit.tv_usec))
		thread_wait_until(
			t, guest_now_ns() + limit.tv_sec * 1000000000LL + limit.tv_usec * 1000LL);
}

int64_t file_wait(struct guest *g, int fd, short events)
{
	struct thread *t = guest_thread(g);
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK || thread_expired(t))
		return -EAGAIN;
	if (!t->tries_again)
		set_sockets_deadline(t, fd, events);
	thread_wait_fd(t, fd, events);
	return CALL_WAITS;
}

int64_t file_wait_a_little(struct guest *g)
{
	thread_wait_until(guest_thread(g), guest_now_ns() + RETRY_NS);
	return CALL_WAITS;
}

static bool may_keep_output(const struct guest *g, int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return g->keeps_output && !g->in_vfork && flags >= 0 && (flags & O_ACCMODE) != O_RDONLY &&
	       !(flags & O_NONBLOCK) && fds_kind(fd) == FD_PLAIN && fstat(fd, &st) == 0 &&
	       S_ISFIFO(st.st_mode);
}

void file_update_output(struct guest *g)
{
	guest_shared(g)->out_fds =
		(may_keep_output(g, 1) ? 2UL : 0) | (may_keep_output(g, 2) ? 4UL : 0);
}

/* ---- one try ---- */

static int64_t move_at_once(struct transfer *x)
{
	const struct pieces *p = &x->p;
	ssize_t n;

	do {
		if (x->offset == OWN_OFFSET && x->flags == 0)
			n = x->is_read ? readv(x->fd, p->at, p->count) :
					 writev(x->fd, p->at, p->count);
		else
			n = x->is_read ? preadv2(x->fd, p->at, p->count, x->offset, x->flags) :
					 pwritev2(x->fd, p->at, p->count, x->offset, x->flags);
	} while (n < 0 && errno == EINTR);
	return host_result(n);
}

/* By way of a buffer, so that it is exactly one read or write whatever the pieces are: an eventfd
 * wants its 8 bytes whole, and an inotify would be read, and might block, once for each piece. */
static int64_t move_by_buffer(struct transfer *x)
{
	char data[PIPE_BUF];
	struct pollfd poll_fd = { .fd = x->fd, .events = x->is_read ? POLLIN : POLLOUT };
	size_t size = x->p.size < sizeof(data) ? x->p.size : sizeof(data);
	ssize_t n;

	if (poll(&poll_fd, 1, 0) == 0)
		return -EAGAIN;
	if (x->is_read) {
		n = read(x->fd, data, size);
		if (n > 0 && pieces_copy_out(&x->p, data, (size_t)n) == 0)
			return -EFAULT;
	} else {
		size = pieces_copy_in(&x->p, data, size);
		if (size == 0 && x->p.size)
			return -EFAULT;
		n = write(x->fd, data, size);
	}
	/* A signal for the program came: the scheduler will see it. */
	if (n < 0 && errno == EINTR)
		return -EAGAIN;
	return host_result(n);
}

static int64_t move_on_socket(struct transfer *x)
{
	struct msghdr message = { .msg_iov = x->p.at, .msg_iovlen = (size_t)x->p.count };

	return host_result(x->is_read ? recvmsg(x->fd, &message, MSG_DONTWAIT) :
					sendmsg(x->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static int64_t move_without_blocking(struct transfer *x, mode_t mode)
{
	ssize_t n;

	if (S_ISSOCK(mode))
		return move_on_socket(x);
	n = x->is_read ? preadv2(x->fd, x->p.at, x->p.count, OWN_OFFSET, RWF_NOWAIT) :
			 pwritev2(x->fd, x->p.at, x->p.count, OWN_OFFSET, RWF_NOWAIT);
	if (n < 0 && errno == EOPNOTSUPP)
		return move_by_buffer(x);
	return host_result(n);
}

/* ---- with waiting ---- */

static int64_t read_waiting(struct guest *g, struct transfer *x, mode_t mode)
{
	int64_t n = move_without_blocking(x, mode);

	return n == -EAGAIN ? file_wait(g, x->fd, POLLIN) : n;
}

/* What was written before counts more than why it stopped. */
static int64_t end_write(struct guest *g, uint64_t *done, int64_t result)
{
	uint64_t total = *done;

	if (result == -EPIPE)
		signal_raise(g, guest_thread(g), SIGPIPE, NULL);
	*done = 0;
	return total ? (int64_t)total : result;
}

static int64_t write_waiting(struct guest *g, struct transfer *x, mode_t mode)
{
	/* Others take a write as a whole, like an eventfd, whose rest must not be written again. */
	bool is_stream = S_ISFIFO(mode) || S_ISSOCK(mode);
	uint64_t *done = file_progress(g);
	int64_t n;

	pieces_skip(&x->p, *done);
	do {
		n = move_without_blocking(x, mode);
		if (n > 0) {
			*done += (uint64_t)n;
			pieces_skip(&x->p, (uint64_t)n);
		}
	} while (n > 0 && is_stream && x->p.size);
	if (n != -EAGAIN)
		return end_write(g, done, n);
	n = file_wait(g, x->fd, POLLOUT);
	return n == CALL_WAITS ? n : end_write(g, done, n);
}

static int64_t transfer(struct guest *g, struct transfer *x)
{
	struct stat st;

	if (fds_kind(x->fd) != FD_PLAIN)
		return x->is_read ? device_read(x->fd, &x->p) : device_write(x->fd, &x->p);
	if (fstat(x->fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return move_at_once(x);
	if (x->offset != OWN_OFFSET)
		return -ESPIPE;
	return x->is_read ? read_waiting(g, x, st.st_mode) : write_waiting(g, x, st.st_mode);
}

/* ---- the calls: all are one buffer or many, with or without an offset ---- */

static int64_t move_one(struct guest *g, const uint64_t a[6], bool is_read, int64_t offset)
{
	struct transfer x = { .fd = fds_get(a[0]), .is_read = is_read, .offset = offset };
	int result;

	if (x.fd < 0)
		return x.fd;
	result = pieces_one(g, &x.p, a[1], a[2], is_read);
	return result ? result : transfer(g, &x);
}

static int64_t move_vector(
	struct guest *g, const uint64_t a[6], bool is_read, int64_t offset, int flags)
{
	/* What only hints or what writes at the end is left; waiting is our own affair. */
	struct transfer x = { .fd = fds_get(a[0]),
		.is_read = is_read,
		.offset = offset,
		.flags = flags & (RWF_DSYNC | RWF_SYNC | RWF_APPEND) };
	int result;

	if (x.fd < 0)
		return x.fd;
	if (flags & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND))
		return -EOPNOTSUPP;
	result = pieces_vector(g, &x.p, a[1], a[2], is_read);
	return result ? result : transfer(g, &x);
}

int64_t call_read(struct guest *g, const uint64_t a[6])
{
	return move_one(g, a, true, OWN_OFFSET);
}

int64_t call_write(struct guest *g, const uint64_t a[6])
{
	return move_one(g, a, false, OWN_OFFSET);
}

int64_t call_pread64(struct guest *g, const uint64_t a[6])
{
	return (int64_t)a[3] < 0 ? -EINVAL : move_one(g, a, true, (int64_t)a[3]);
}

int64_t call_pwrite64(struct guest *g, const uint64_t a[6])
{
	return (int64_t)a[3] < 0 ? -EINVAL : move_one(g, a, false, (int64_t)a[3]);
}

int64_t call_readv(struct guest *g, const uint64_t a[6])
{
	return move_vector(g, a, true, OWN_OFFSET, 0);
}

int64_t call_writev(struct guest *g, const uint64_t a[6])
{
	return move_vector(g, a, false, OWN_OFFSET, 0);
}

int64_t call_preadv(struct guest *g, const uint64_t a[6])
{
	return (int64_t)a[3] < 0 ? -EINVAL : move_vector(g, a, true, (int64_t)a[3], 0);
}

int64_t call_pwritev(struct guest *g, const uint64_t a[6])
{
	return (int64_t)a[3] < 0 ? -EINVAL : move_vector(g, a, false, (int64_t)a[3], 0);
}

int64_t call_preadv2(struct guest *g, const uint64_t a[6])
{
	return (int64_t)a[3] < OWN_OFFSET ? -EINVAL :
					    move_vector(g, a, true, (int64_t)a[3], (int)a[5]);
}

int64_t call_pwritev2(struct guest *g, const uint64_t a[6])
{
	return (int64_t)a[3] < OWN_OFFSET ? -EINVAL :
					    move_vector(g, a, false, (int64_t)a[3], (int)a[5]);
}

int64_t call_lseek(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	if (fd < 0)
		return fd;
	if (fds_kind(fd) != FD_PLAIN)
		return device_seek(fd, (int64_t)a[1], (int)a[2]);
	return host_result(lseek(fd, (off_t)a[1], (int)a[2]));
}

/* ---- from file to file ---- */

struct sending {
	int to;
	int from;
	bool has_offset;
	int64_t offset;
	uint64_t left;
	int64_t total;
};

/* Moves one buffer; returns what was moved, 0 at the end, or a negative errno. */
static int64_t send_portion(struct guest *g, struct sending *s)
{
	static char data[65536];
	uint64_t size = s->left < sizeof(data) ? s->left : sizeof(data);
	struct transfer x = { .fd = s->to, .offset = OWN_OFFSET };
	struct stat st;
	int64_t n = host_result(pread(s->from, data, size, s->offset));

	if (n <= 0)
		return n;
	x.p.room[0] = (struct iovec){ data, (size_t)n };
	x.p.at = x.p.room;
	x.p.count = 1;
	x.p.size = (uint64_t)n;
	if (fds_kind(s->to) != FD_PLAIN)
		return device_write(s->to, &x.p);
	if (fstat(s->to, &st))
		return -errno;
	n = S_ISREG(st.st_mode) ? move_at_once(&x) : move_without_blocking(&x, st.st_mode);
	if (n == -EPIPE)
		signal_raise(g, guest_thread(g), SIGPIPE, NULL);
	return n;
}

static int64_t send_all(struct guest *g, struct sending *s)
{
	int64_t n = 0;

	while (s->left) {
		n = send_portion(g, s);
		if (n <= 0)
			break;
		s->offset += n;
		s->total += n;
		s->left -= (uint64_t)n;
	}
	if (s->total || n != -EAGAIN)
		return s->total ? s->total : n;
	return file_wait(g, s->to, POLLOUT);
}

int64_t call_sendfile(struct guest *g, const uint64_t a[6])
{
	struct sending s = { .to = fds_get(a[0]), .from = fds_get(a[1]), .has_offset = a[2] != 0 };
	struct stat st;
	int64_t result;

	if (s.to < 0 || s.from < 0)
		return -EBADF;
	s.left = a[3] < PIECES_BYTES_MAX ? a[3] : PIECES_BYTES_MAX;
	if (fstat(s.from, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || fds_kind(s.from) != FD_PLAIN)
		return -EINVAL;
	if (s.has_offset && mem_read(&g->mem, &s.offset, a[2], sizeof(s.offset)))
		return -EFAULT;
	if (!s.has_offset)
		s.offset = lseek(s.from, 0, SEEK_CUR);
	if (s.offset < 0)
		return -EINVAL;
	result = send_all(g, &s);
	if (s.total && !s.has_offset)
		lseek(s.from, s.offset, SEEK_SET);
	if (s.total && s.has_offset && mem_write(&g->mem, a[2], &s.offset, sizeof(s.offset)))
		return -EFAULT;
	return result;
}

static bool is_regular(int fd)
{
	struct stat st;

	return fds_kind(fd) == FD_PLAIN && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int64_t call_copy_file_range(struct guest *g, const uint64_t a[6])
{
	int from = fds_get(a[0]);
	int to = fds_get(a[2]);
	off64_t from_offset = 0;
	off64_t to_offset = 0;
	int64_t n;

	if (from < 0 || to < 0)
		return -EBADF;
	if (a[5] || !is_regular(from) || !is_regular(to))
		return -EINVAL;
	if ((a[1] && mem_read(&g->mem, &from_offset, a[1], sizeof(from_offset))) ||
		(a[3] && mem_read(&g->mem, &to_offset, a[3], sizeof(to_offset))))
		return -EFAULT;
	n = host_result(copy_file_range(
		from, a[1] ? &from_offset : NULL, to, a[3] ? &to_offset : NULL, a[4], 0));
	if ((n > 0 && a[1] && mem_write(&g->mem, a[1], &from_offset, sizeof(from_offset))) ||
		(n > 0 && a[3] && mem_write(&g->mem, a[3], &to_offset, sizeof(to_offset))))
		return -EFAULT;
	return n;
}

static bool is_ready(int fd, short events)
{
	struct pollfd poll_fd = { .fd = fd, .events = events };

	return poll(&poll_fd, 1, 0) != 0;
}

/* Of the two sides only a pipe can be told not to block. The other one is asked before, and gets no
 * more than what it takes then, unless it is a file, which does not block for long. */
int64_t call_splice(struct guest *g, const uint64_t a[6])
{
	int from = fds_get(a[0]);
	int to = fds_get(a[2]);
	bool may_wait = !(a[5] & SPLICE_F_NONBLOCK);
	size_t size = a[4] < PIECES_BYTES_MAX ? a[4] : PIECES_BYTES_MAX;
	off64_t from_offset = 0;
	off64_t to_offset = 0;
	int64_t n;

	if (from < 0 || to < 0)
		return -EBADF;
	if (fds_kind(from) != FD_PLAIN || fds_kind(to) != FD_PLAIN)
		return -EINVAL;
	if ((a[1] && mem_read(&g->mem, &from_offset, a[1], sizeof(from_offset))) ||
		(a[3] && mem_read(&g->mem, &to_offset, a[3], sizeof(to_offset))))
		return -EFAULT;
	if (may_wait && !is_ready(from, POLLIN))
		return file_wait(g, from, POLLIN);
	if (may_wait && !is_ready(to, POLLOUT))
		return file_wait(g, to, POLLOUT);
	if (!is_regular(from) && !is_regular(to) && size > PIPE_BUF)
		size = PIPE_BUF;
	n = host_result(splice(from, a[1] ? &from_offset : NULL, to, a[3] ? &to_offset : NULL, size,
		(unsigned)a[5] | SPLICE_F_NONBLOCK));
	if (n == -EPIPE)
		signal_raise(g, guest_thread(g), SIGPIPE, NULL);
	if (n == -EAGAIN && may_wait)
		return file_wait_a_little(g);
	if ((n > 0 && a[1] && mem_write(&g->mem, a[1], &from_offset, sizeof(from_offset))) ||
		(n > 0 && a[3] && mem_write(&g->mem, a[3], &to_offset, sizeof(to_offset))))
		return -EFAULT;
	return n;
}

/* ---- size and storage ---- */

int64_t call_ftruncate(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(ftruncate(fd, (off_t)a[1]));
}

int64_t call_fallocate(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(fallocate(fd, (int)a[1], (off_t)a[2], (off_t)a[3]));
}

int64_t call_fsync(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(fsync(fd));
}

int64_t call_fdatasync(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(fdatasync(fd));
}

/* The host's disks are no business of a guest, and a cell's files are in memory. */
int64_t call_sync(struct guest *g, const uint64_t a[6])
{
	(void)g;
	(void)a;
	return 0;
}

int64_t call_sync_file_range(struct guest *g, const uint64_t a[6])
{
	(void)g;
	return fds_get(a[0]) < 0 ? -EBADF : 0;
}

int64_t call_fadvise64(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : -posix_fadvise(fd, (off_t)a[1], (off_t)a[2], (int)a[3]);
}
