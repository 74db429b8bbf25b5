#include "vmm/recipe.h"

#include "base/own.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define KEPT_FLAGS (O_NONBLOCK | O_DIRECT)

enum { COUNT_MAX = 1 << 20 };

/* ---- writing them down ---- */

/* A semaphore gives one at a time. */
static int take_count(int fd, uint64_t *ret)
{
	uint64_t part;

	*ret = 0;
	for (int i = 0; i < COUNT_MAX; i++) {
		if (read(fd, &part, sizeof(part)) != sizeof(part))
			return errno == EAGAIN ? 0 : -1;
		*ret += part;
	}
	return -1;
}

/* A few bytes, by which programs tell their threads or handlers to go on. */
static int take_data(int fd, struct recipe *r)
{
	char more;
	ssize_t n = read(fd, r->data, sizeof(r->data));

	r->data_size = n > 0 ? (uint8_t)n : 0;
	return n == sizeof(r->data) && read(fd, &more, 1) > 0 ? -1 : 0;
}

static int take_state(int fd, struct recipe *r, struct err *e)
{
	/* Reads that find nothing must come back. */
	if (fcntl(fd, F_SETFL, r->flags | O_NONBLOCK))
		return err_sys(e, "descriptor %d", fd);
	if (r->origin == ORIGIN_EVENT && take_count(fd, &r->count))
		return err_set(e, ERR_SYSTEM, "descriptor %d counts too far for a snapshot", fd);
	if (r->origin == ORIGIN_PIPE_OUT && take_data(fd, r))
		return err_set(e, ERR_SYSTEM, "there is much in the pipe of descriptor %d", fd);
	return 0;
}

static bool can_be_made(const struct recipe *r)
{
	return r->kind == FD_PLAIN ? r->origin != ORIGIN_OTHER : r->kind != FD_DIRECTORY;
}

int recipe_take(struct buf *ret, uint32_t *ret_count, struct err *e)
{
	*ret_count = 0;
	for (int fd = RECIPES_FROM; fd < VMM_GUEST_FDS; fd++) {
		int flags = fcntl(fd, F_GETFD);
		struct recipe r;

		if (flags < 0)
			continue;
		/* All of it, gaps too: what it is written from is not the file's business. */
		memset(&r, 0, sizeof(r));
		r.fd = fd;
		r.closes_on_exec = (flags & FD_CLOEXEC) != 0;
		r.flags = fcntl(fd, F_GETFL) & KEPT_FLAGS;
		r.kind = (uint8_t)fds_kind(fd);
		r.access = (uint8_t)fds_access(fd);
		r.origin = (uint8_t)fds_origin(fd);
		r.object = fds_object(fd);
		r.is_semaphore = fds_is_semaphore(fd);
		if (!can_be_made(&r))
			return err_set(e, ERR_SYSTEM,
				"the program holds descriptor %d %s, which cannot be in a snapshot",
				fd, fds_name(fd));
		if (r.kind == FD_PLAIN && take_state(fd, &r, e))
			return -1;
		buf_add(ret, &r, sizeof(r));
		(*ret_count)++;
	}
	return 0;
}

/* ---- making them ---- */

/* The other end of a pipe, or another descriptor of the same description. */
static const struct recipe *find(const struct recipes *r, uint32_t object, uint8_t origin)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->at[i].object == object && r->at[i].origin == origin)
			return &r->at[i];
	return NULL;
}

/* Made in their order they usually come out where they belong. */
static int place(int fd, int wanted)
{
	if (fd < 0 || fd == wanted)
		return fd;
	if (dup2(fd, wanted) < 0)
		return -1;
	close(fd);
	return wanted;
}

static int make_event(const struct recipe *r)
{
	/* A device's placeholder is an event that is always there, see device.c. */
	uint64_t count = r->kind == FD_PLAIN ? r->count : 1;
	int fd = place(eventfd(0, EFD_NONBLOCK | (r->is_semaphore ? EFD_SEMAPHORE : 0)), r->fd);

	if (fd < 0 || (count && write(fd, &count, sizeof(count)) != sizeof(count)))
		return -1;
	return 0;
}

static int make_pipe(const struct recipes *all, const struct recipe *r)
{
	const struct recipe *out = find(all, r->object, ORIGIN_PIPE_OUT);
	const struct recipe *in = find(all, r->object, ORIGIN_PIPE_IN);
	int wanted[2] = { out ? out->fd : -1, in ? in->fd : -1 };
	int ends[2];

	if (pipe2(ends, r->flags & O_DIRECT) ||
		(out && write(ends[1], out->data, out->data_size) != out->data_size))
		return -1;
	if (ends[0] == wanted[0] && ends[1] == wanted[1])
		return 0;
	/* One may be where the other belongs: out of the way first. */
	for (int i = 0; i < 2; i++) {
		int up = fcntl(ends[i], F_DUPFD_CLOEXEC, VMM_OWN_FDS);

		close(ends[i]);
		ends[i] = up;
	}
	for (int i = 0; i < 2; i++) {
		if (ends[i] < 0 || (wanted[i] >= 0 && dup2(ends[i], wanted[i]) < 0))
			return -1;
		close(ends[i]);
	}
	return 0;
}

static int make_object(const struct recipes *all, const struct recipe *r)
{
	const struct recipe *first = find(all, r->object, r->origin);

	if (first != r)
		return dup2(first->fd, r->fd) < 0 ? -1 : 0;
	switch ((enum fd_origin)r->origin) {
	case ORIGIN_EPOLL:
		return place(epoll_create1(0), r->fd) < 0 ? -1 : 0;
	case ORIGIN_PIPE_OUT:
	case ORIGIN_PIPE_IN:
		first = find(all, r->object,
			r->origin == ORIGIN_PIPE_IN ? ORIGIN_PIPE_OUT : ORIGIN_PIPE_IN);
		/* Both ends are made when the lower one is. */
		return first && first < r ? 0 : make_pipe(all, r);
	default:
		return make_event(r);
	}
}

/* An end of a pipe is there before its own turn comes; so flags are set when all are there. */
static int set_flags(const struct recipe *r)
{
	if (fcntl(r->fd, F_SETFD, r->closes_on_exec ? FD_CLOEXEC : 0) ||
		fcntl(r->fd, F_SETFL, r->flags))
		return -1;
	fds_set_kind(r->fd, (enum fd_kind)r->kind, r->access, 0);
	fds_set_origin(r->fd, (enum fd_origin)r->origin, r->object, r->is_semaphore);
	return 0;
}

int recipe_make(const struct recipes *r, struct err *e)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (make_object(r, &r->at[i]))
			return err_sys(e, "make descriptor %d again", r->at[i].fd);
	for (uint32_t i = 0; i < r->count; i++)
		if (set_flags(&r->at[i]))
			return err_sys(e, "flags of descriptor %d", r->at[i].fd);
	if (epoll_watch_again(r->watches, r->watches_count))
		return err_sys(e, "fill the epoll sets again");
	return 0;
}
