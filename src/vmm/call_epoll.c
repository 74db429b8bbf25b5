/* call_epoll: the sets are the host's. What is in them is noted besides, see call_poll.h. */
#include "vmm/call_poll.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/fds.h"
#include "vmm/thread.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <time.h>

enum { WATCHES_MAX = 16384, EVENTS_MAX = 1024 };

static struct epoll_watch *watches;
static uint32_t watches_count, watches_room;

/* ---- what is in the sets ---- */

const struct epoll_watch *epoll_watches(uint32_t *ret_count)
{
	*ret_count = watches_count;
	return watches;
}

static void forget_watch(uint32_t i)
{
	watches[i] = watches[--watches_count];
}

void epoll_forget(int fd)
{
	for (uint32_t i = watches_count; i-- > 0;)
		if (watches[i].fd == fd || watches[i].epoll_fd == fd)
			forget_watch(i);
}

static struct epoll_watch *find_watch(int epoll_fd, int fd)
{
	for (uint32_t i = 0; i < watches_count; i++)
		if (watches[i].epoll_fd == epoll_fd && watches[i].fd == fd)
			return &watches[i];
	return NULL;
}

static void note_watch(int epoll_fd, int fd, int operation, const struct epoll_event *event)
{
	struct epoll_watch *w = find_watch(epoll_fd, fd);

	if (operation == EPOLL_CTL_DEL) {
		if (w)
			forget_watch((uint32_t)(w - watches));
		return;
	}
	if (!w) {
		watches = mem_grow(watches, &watches_room, watches_count + 1, sizeof(*watches));
		w = &watches[watches_count++];
	}
	*w = (struct epoll_watch){ epoll_fd, fd, event->events, event->data.u64 };
}

int epoll_watch_again(const struct epoll_watch *from, uint32_t count)
{
	watches_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct epoll_event event = { .events = from[i].events, .data.u64 = from[i].data };

		if (epoll_ctl(from[i].epoll_fd, EPOLL_CTL_ADD, from[i].fd, &event))
			return -1;
		note_watch(from[i].epoll_fd, from[i].fd, EPOLL_CTL_ADD, &event);
	}
	return 0;
}

struct epoll_kept {
	uint32_t count;
	struct epoll_watch watches[];
};

struct epoll_kept *epoll_keep(void)
{
	struct epoll_kept *kept = xalloc(sizeof(*kept) + watches_count * sizeof(*watches));

	kept->count = watches_count;
	if (watches_count)
		memcpy(kept->watches, watches, watches_count * sizeof(*watches));
	return kept;
}

void epoll_restore(struct epoll_kept *kept)
{
	watches = mem_grow(watches, &watches_room, kept->count, sizeof(*watches));
	if (kept->count)
		memcpy(watches, kept->watches, kept->count * sizeof(*watches));
	watches_count = kept->count;
	free(kept);
}

/* ---- the calls ---- */

int64_t call_epoll_create1(struct guest *g, const uint64_t a[6])
{
	int fd = fds_new(g, epoll_create1((int)a[0]));

	if (fd >= 0)
		fds_set_origin(fd, ORIGIN_EPOLL, fds_new_object(), false);
	return fd;
}

int64_t call_epoll_create(struct guest *g, const uint64_t a[6])
{
	return (int)a[0] <= 0 ? -EINVAL : call_epoll_create1(g, (uint64_t[6]){ 0 });
}

int64_t call_epoll_ctl(struct guest *g, const uint64_t a[6])
{
	int epoll_fd = fds_get(a[0]);
	int operation = (int)a[1];
	int fd = fds_get(a[2]);
	struct epoll_event event = { 0 };

	if (epoll_fd < 0 || fd < 0)
		return -EBADF;
	if (operation != EPOLL_CTL_DEL && mem_read(&g->mem, &event, a[3], sizeof(event)))
		return -EFAULT;
	/* As Linux has it: devices that are always ready cannot be waited for. */
	if (fds_kind(fd) != FD_PLAIN)
		return -EPERM;
	if (operation == EPOLL_CTL_ADD && watches_count >= WATCHES_MAX)
		return -ENOSPC;
	if (epoll_ctl(epoll_fd, operation, fd, &event))
		return -errno;
	note_watch(epoll_fd, fd, operation, &event);
	return 0;
}

/* The deadline stands already. */
static int64_t wait_once(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	struct epoll_event events[EVENTS_MAX];
	int epoll_fd = fds_get(a[0]);
	int max = (int)a[2] < EVENTS_MAX ? (int)a[2] : EVENTS_MAX;
	int64_t ready;

	if (epoll_fd < 0)
		return epoll_fd;
	if (max <= 0)
		return -EINVAL;
	ready = host_result(epoll_wait(epoll_fd, events, max, 0));
	if (ready == -EINTR || (ready == 0 && !thread_expired(t))) {
		thread_wait_fd(t, epoll_fd, POLLIN);
		return CALL_WAITS;
	}
	if (ready > 0 && mem_write(&g->mem, a[1], events, (size_t)ready * sizeof(*events)))
		return -EFAULT;
	return ready;
}

int64_t call_epoll_wait(struct guest *g, const uint64_t a[6])
{
	poll_deadline_ms(g, (int)a[3]);
	return wait_once(g, a);
}

int64_t call_epoll_pwait(struct guest *g, const uint64_t a[6])
{
	int64_t result = poll_enter_mask(g, a[4], a[5]);

	poll_deadline_ms(g, (int)a[3]);
	if (result == 0)
		result = wait_once(g, a);
	return poll_leave_mask(g, result);
}

int64_t call_epoll_pwait2(struct guest *g, const uint64_t a[6])
{
	int64_t result = poll_enter_mask(g, a[4], a[5]);

	if (result == 0)
		result = thread_deadline(g, a[3], false, CLOCK_MONOTONIC);
	if (result == 0)
		result = wait_once(g, a);
	return poll_leave_mask(g, result);
}
