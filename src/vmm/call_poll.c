/* call_poll: poll and select. Each try asks the host without waiting; if nothing is ready the thread
 * waits for the same descriptors, and the scheduler polls for all threads at once. */
#include "vmm/call_poll.h"

#include "base/own.h"
#include "vmm/fds.h"
#include "vmm/thread.h"

#include <sys/time.h>
#include <time.h>

/* ---- masks and deadlines ---- */

int poll_enter_mask(struct guest *g, uint64_t mask, uint64_t mask_size)
{
	struct thread *t = guest_thread(g);
	uint64_t wanted;

	if (!mask || t->tries_again)
		return 0;
	if (mask_size != sizeof(wanted))
		return -EINVAL;
	if (mem_read(&g->mem, &wanted, mask, sizeof(wanted)))
		return -EFAULT;
	t->blocked_before = t->blocked;
	t->restores_blocked = true;
	t->blocked = wanted & ~(1ULL << (SIGKILL - 1) | 1ULL << (SIGSTOP - 1));
	return 0;
}

int64_t poll_leave_mask(struct guest *g, int64_t result)
{
	struct thread *t = guest_thread(g);

	if (result != CALL_WAITS && t->restores_blocked) {
		t->blocked = t->blocked_before;
		t->restores_blocked = false;
	}
	return result;
}

void poll_deadline_ms(struct guest *g, int64_t timeout_ms)
{
	struct thread *t = guest_thread(g);

	if (timeout_ms >= 0 && !t->tries_again)
		thread_wait_until(t, guest_now_ns() + timeout_ms * 1000000);
}

/* ---- poll ---- */

/* The program's descriptors as the host may see them: what cannot be the program's is nothing. */
static void hide_ours(struct pollfd *theirs, struct pollfd *ours, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		ours[i] = theirs[i];
		ours[i].revents = 0;
		if (theirs[i].fd >= VMM_GUEST_FDS)
			ours[i].fd = -1;
	}
}

static int64_t take_results(struct pollfd *theirs, const struct pollfd *ours, uint64_t count)
{
	int64_t ready = 0;

	for (uint64_t i = 0; i < count; i++) {
		theirs[i].revents = theirs[i].fd >= VMM_GUEST_FDS ? POLLNVAL : ours[i].revents;
		ready += theirs[i].revents != 0;
	}
	return ready;
}

static int64_t wait_for(struct guest *g, const struct pollfd *fds, uint64_t count)
{
	struct thread *t = guest_thread(g);
	bool waits_for_any = t->deadline_ns != 0;

	for (uint64_t i = 0; i < count; i++) {
		if (fds[i].fd < 0)
			continue;
		thread_wait_fd(t, fds[i].fd, fds[i].events);
		waits_for_any = true;
	}
	if (!waits_for_any)
		thread_wait_signal(t);
	return CALL_WAITS;
}

/* The deadline stands already. */
static int64_t poll_once(struct guest *g, uint64_t address, uint64_t count)
{
	struct pollfd theirs[VMM_GUEST_FDS];
	struct pollfd ours[VMM_GUEST_FDS];
	int64_t ready;

	if (count > g->open_files || count > VMM_GUEST_FDS)
		return -EINVAL;
	if (mem_read(&g->mem, theirs, address, count * sizeof(*theirs)))
		return -EFAULT;
	hide_ours(theirs, ours, count);
	if (poll(ours, count, 0) < 0 && errno != EINTR)
		return -errno;
	ready = take_results(theirs, ours, count);
	if (ready == 0 && !thread_expired(guest_thread(g)))
		return wait_for(g, ours, count);
	return mem_write(&g->mem, address, theirs, count * sizeof(*theirs)) ? -EFAULT : ready;
}

int64_t call_poll(struct guest *g, const uint64_t a[6])
{
	poll_deadline_ms(g, (int)a[2]);
	return poll_once(g, a[0], (uint32_t)a[1]);
}

/* The time that is left is not written back: nobody relies on it, and glibc hides it. */
int64_t call_ppoll(struct guest *g, const uint64_t a[6])
{
	int64_t result = poll_enter_mask(g, a[3], a[4]);

	if (result == 0)
		result = thread_deadline(g, a[2], false, CLOCK_MONOTONIC);
	if (result == 0)
		result = poll_once(g, a[0], (uint32_t)a[1]);
	return poll_leave_mask(g, result);
}

/* ---- select ---- */

enum { SELECT_WORDS = 1024 / 64 };

static const struct {
	short asked;
	short answered;
} select_sets[3] = {
	{ POLLIN | POLLRDNORM | POLLRDBAND, POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR },
	{ POLLOUT | POLLWRNORM | POLLWRBAND, POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR },
	{ POLLPRI, POLLPRI },
};

struct selecting {
	uint64_t words; /* of each set */
	uint64_t sets[3][SELECT_WORDS];
	struct pollfd fds[VMM_GUEST_FDS];
	uint64_t count;
};

static int read_sets(struct guest *g, const uint64_t a[6], struct selecting *s)
{
	uint64_t count = a[0] < VMM_GUEST_FDS ? a[0] : VMM_GUEST_FDS;

	s->words = (count + 63) / 64;
	for (int set = 0; set < 3; set++)
		if (a[1 + set] && mem_read(&g->mem, s->sets[set], a[1 + set], s->words * 8))
			return -EFAULT;
	for (uint64_t fd = 0; fd < count; fd++) {
		short events = 0;

		for (int set = 0; set < 3; set++)
			if (s->sets[set][fd / 64] >> fd % 64 & 1)
				events |= select_sets[set].asked;
		if (events)
			s->fds[s->count++] = (struct pollfd){ .fd = (int)fd, .events = events };
	}
	return 0;
}

/* The sets become the answer. Returns the number of bits, or -EBADF. */
static int64_t answer_sets(struct selecting *s)
{
	uint64_t asked[3][SELECT_WORDS];
	int64_t ready = 0;

	memcpy(asked, s->sets, sizeof(asked));
	memset(s->sets, 0, sizeof(s->sets));
	for (uint64_t i = 0; i < s->count; i++) {
		uint64_t fd = (uint64_t)s->fds[i].fd;

		if (s->fds[i].revents & POLLNVAL)
			return -EBADF;
		for (int set = 0; set < 3; set++)
			if (asked[set][fd / 64] >> fd % 64 & 1 &&
				s->fds[i].revents & select_sets[set].answered) {
				s->sets[set][fd / 64] |= 1ULL << fd % 64;
				ready++;
			}
	}
	return ready;
}

static int64_t select_once(struct guest *g, const uint64_t a[6])
{
	struct selecting s = { 0 };
	int64_t ready;

	if ((int)a[0] < 0)
		return -EINVAL;
	if (read_sets(g, (uint64_t[6]){ (uint32_t)a[0], a[1], a[2], a[3] }, &s))
		return -EFAULT;
	if (poll(s.fds, s.count, 0) < 0 && errno != EINTR)
		return -errno;
	ready = answer_sets(&s);
	if (ready == 0 && !thread_expired(guest_thread(g)))
		return wait_for(g, s.fds, s.count);
	for (int set = 0; set < 3 && ready >= 0; set++)
		if (a[1 + set] && mem_write(&g->mem, a[1 + set], s.sets[set], s.words * 8))
			return -EFAULT;
	return ready;
}

/* Linux writes the time that is left, and some programs call again with it. */
static void write_time_left(struct guest *g, uint64_t address)
{
	int64_t left = guest_thread(g)->deadline_ns - guest_now_ns();
	struct timeval value;

	left = left < 0 ? 0 : left;
	value = (struct timeval){ left / 1000000000, left / 1000 % 1000000 };
	mem_write(&g->mem, address, &value, sizeof(value));
}

int64_t call_select(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	struct timeval timeout;
	int64_t result;

	if (a[4] && !t->tries_again) {
		if (mem_read(&g->mem, &timeout, a[4], sizeof(timeout)))
			return -EFAULT;
		if (timeout.tv_sec < 0 || timeout.tv_usec < 0)
			return -EINVAL;
		/* Longer than anything lives, and no overflow. */
		if (timeout.tv_sec > 1000000000)
			timeout.tv_sec = 1000000000;
		thread_wait_until(t, guest_now_ns() + timeout.tv_sec * 1000000000LL +
					     timeout.tv_usec % 1000000000 * 1000LL);
	}
	result = select_once(g, a);
	if (a[4] && result != CALL_WAITS)
		write_time_left(g, a[4]);
	return result;
}

int64_t call_pselect6(struct guest *g, const uint64_t a[6])
{
	uint64_t mask[2] = { 0, 0 }; /* address and size */
	int64_t result;

	if (a[5] && mem_read(&g->mem, mask, a[5], sizeof(mask)))
		return -EFAULT;
	result = poll_enter_mask(g, mask[0], mask[1]);
	if (result == 0)
		result = thread_deadline(g, a[4], false, CLOCK_MONOTONIC);
	if (result == 0)
		result = select_once(g, a);
	return poll_leave_mask(g, result);
}
