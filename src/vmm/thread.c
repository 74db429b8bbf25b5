#include "vmm/thread.h"

#include "vmm/call_futex.h"

#include "base/own.h"
#include "vmm/call_path.h"
#include "vmm/signal.h"
#include "vmm/warm.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

enum { NS_PER_S = 1000000000, POLLS_MAX = 2048 };

/* ---- waiting ---- */

static void wait_clear(struct thread *t)
{
	t->polls_count = 0;
	t->futex = 0;
	t->waits_for_child = false;
	t->waits_for_request = false;
	t->awaited = 0;
}

void thread_wait_fd(struct thread *t, int fd, short events)
{
	t->polls = mem_grow(t->polls, &t->polls_room, t->polls_count + 1, sizeof(*t->polls));
	t->polls[t->polls_count++] = (struct pollfd){ .fd = fd, .events = events };
}

void thread_wait_until(struct thread *t, int64_t deadline_ns)
{
	t->deadline_ns = deadline_ns > 0 ? deadline_ns : 1;
}

void thread_wait_child(struct thread *t)
{
	t->waits_for_child = true;
}

void thread_wait_signal(struct thread *t)
{
	(void)t; /* nothing else ends it */
}

bool thread_expired(const struct thread *t)
{
	return t->deadline_ns && guest_now_ns() >= t->deadline_ns;
}

int thread_deadline(struct guest *g, uint64_t timeout, bool is_absolute, int clock)
{
	struct thread *t = guest_thread(g);
	struct timespec given;
	struct timespec now;
	int64_t left;

	if (t->tries_again || !timeout)
		return 0;
	if (mem_read(&g->mem, &given, timeout, sizeof(given)))
		return -EFAULT;
	if (given.tv_sec < 0 || given.tv_nsec < 0 || given.tv_nsec >= NS_PER_S)
		return -EINVAL;
	if (given.tv_sec > INT64_MAX / NS_PER_S / 4)
		given.tv_sec = INT64_MAX / NS_PER_S / 4;
	left = given.tv_sec * (int64_t)NS_PER_S + given.tv_nsec;
	if (is_absolute) {
		if (clock_gettime(clock, &now))
			return -EINVAL;
		left -= now.tv_sec * (int64_t)NS_PER_S + now.tv_nsec;
	}
	thread_wait_until(t, guest_now_ns() + left);
	return 0;
}

/* ---- taking turns ---- */

void thread_wake(struct thread *t)
{
	t->waits = false;
	t->tries_again = true;
	wait_clear(t);
}

static bool may_run(const struct guest *g, int i)
{
	return g->threads[i].used && (!g->in_vfork || i == g->current);
}

bool thread_others_run(const struct guest *g)
{
	for (int i = 0; i < g->threads_top; i++)
		if (i != g->current && may_run(g, i) && !g->threads[i].waits)
			return true;
	return false;
}

void thread_publish(struct guest *g)
{
	volatile struct shared *s = guest_shared(g);
	unsigned long count = 0;

	s->pid = (unsigned long)g->pid;
	s->tid = (unsigned long)guest_thread(g)->tid;
	s->one_thread = g->threads_used == 1;
	for (int i = 0; i < g->threads_top && g->threads_used > 1; i++) {
		if (!g->threads[i].used || !g->threads[i].waits || !g->threads[i].futex)
			continue;
		if (count < SHARED_WAITERS_MAX)
			s->waiters[count] = g->threads[i].futex;
		count++;
	}
	s->waiters_count = count;
}

static void switch_to(struct guest *g, int next)
{
	struct thread *old = guest_thread(g);

	if (next != g->current) {
		if (old->used)
			vcpu_get_xsave(&g->cpu, &old->xsave);
		g->current = next;
		vcpu_set_xsave(&g->cpu, &guest_thread(g)->xsave);
	}
	thread_publish(g);
}

/* Wakes everybody whose time has come or whom a signal concerns. */
static void wake_by_time_and_signals(struct guest *g)
{
	int64_t now = guest_now_ns();

	for (int i = 0; i < g->threads_top; i++) {
		struct thread *t = &g->threads[i];

		if (may_run(g, i) && t->waits &&
			((t->deadline_ns && now >= t->deadline_ns) || signal_waits(g, t)))
			thread_wake(t);
	}
}

static void wake_by_children(struct guest *g)
{
	for (int i = 0; i < g->threads_top; i++)
		if (may_run(g, i) && g->threads[i].waits && g->threads[i].waits_for_child)
			thread_wake(&g->threads[i]);
}

static int64_t nearest_deadline(const struct guest *g)
{
	int64_t nearest = 0;

	for (int i = 0; i < g->threads_top; i++) {
		const struct thread *t = &g->threads[i];

		if (may_run(g, i) && t->waits && t->deadline_ns &&
			(!nearest || t->deadline_ns < nearest))
			nearest = t->deadline_ns;
	}
	return nearest;
}

/* Waits for descriptors, the nearest deadline and signals; with `at_once` only looks. Signals are
 * blocked here, so that none comes unnoticed between our last look and the wait. */
static void wait_for_anything(struct guest *g, bool at_once)
{
	static struct pollfd polls[POLLS_MAX];
	static int owner[POLLS_MAX];
	nfds_t count = 0;
	int64_t nearest = nearest_deadline(g);
	int64_t left = nearest ? nearest - guest_now_ns() : 0;
	struct timespec timeout = { 0 };
	int ready;

	for (int i = 0; i < g->threads_top; i++) {
		const struct thread *t = &g->threads[i];

		for (uint32_t k = 0; may_run(g, i) && t->waits && k < t->polls_count; k++) {
			if (count == POLLS_MAX)
				break;
			polls[count] = t->polls[k];
			owner[count++] = i;
		}
	}
	if (at_once && count == 0)
		return;
	if (!at_once)
		warm_go_out(g);
	if (!at_once && nearest && left > 0)
		timeout = (struct timespec){ left / NS_PER_S, left % NS_PER_S };
	ready = ppoll(polls, count, at_once || nearest ? &timeout : NULL, signal_waiting_mask());
	if (ready < 0 && errno == EINTR)
		wake_by_children(g);
	for (nfds_t i = 0; ready > 0 && i < count; i++)
		if (polls[i].revents && g->threads[owner[i]].waits)
			thread_wake(&g->threads[owner[i]]);
}

static int next_runnable(const struct guest *g)
{
	for (int k = 1; k <= g->threads_top; k++) {
		int i = (g->current + k) % g->threads_top;

		if (may_run(g, i) && !g->threads[i].waits)
			return i;
	}
	return -1;
}

static void warm_idle_if_waiting(struct guest *g)
{
	for (int i = 0; i < g->threads_top; i++)
		if (g->threads[i].used && g->threads[i].waits_for_request) {
			switch_to(g, i);
			warm_idle(g);
		}
}

void thread_go_on(struct guest *g)
{
	int64_t now = guest_now_ns();

	for (int i = 0; i < g->threads_top; i++)
		if (g->threads[i].used && g->threads[i].waits && g->threads[i].deadline_ns)
			g->threads[i].deadline_ns += now;
}

void thread_schedule(struct guest *g)
{
	sigset_t all;
	sigset_t old;
	int next;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	for (;;) {
		signal_distribute(g);
		wake_by_time_and_signals(g);
		/* Who waits for a descriptor gets a look at it even if somebody can run without. */
		if (next_runnable(g) >= 0)
			wait_for_anything(g, true);
		next = next_runnable(g);
		if (next >= 0)
			break;
		warm_idle_if_waiting(g);
		wait_for_anything(g, false);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	switch_to(g, next);
}

/* ---- beginning and ending ---- */

int thread_new(struct guest *g)
{
	for (int i = 0; i < THREADS_MAX; i++) {
		struct pollfd *polls = g->threads[i].polls;
		uint32_t room = g->threads[i].polls_room;

		if (g->threads[i].used)
			continue;
		g->threads[i] = (struct thread){ .used = true, .polls = polls, .polls_room = room };
		g->threads_used++;
		if (i >= g->threads_top)
			g->threads_top = i + 1;
		return i;
	}
	return -EAGAIN;
}

void thread_end(struct guest *g, int status)
{
	struct thread *t = guest_thread(g);
	uint32_t zero = 0;

	if (g->threads_used == 1 || g->in_vfork)
		guest_exit(g, status);
	if (t->clear_tid && mem_write(&g->mem, t->clear_tid, &zero, sizeof(zero)) == 0)
		futex_wake(g, t->clear_tid, 1, ~0U);
	t->used = false;
	g->threads_used--;
	thread_schedule(g);
}

void thread_forget_others(struct guest *g)
{
	for (int i = 0; i < g->threads_top; i++)
		if (i != g->current) {
			g->threads[i].used = false;
			path_forget_opening(i);
		}
	g->threads_used = 1;
	guest_thread(g)->tid = g->pid;
	thread_publish(g);
}

static bool is_tid(const struct guest *g, int tid)
{
	for (int i = 0; i < g->threads_top; i++)
		if (g->threads[i].used && g->threads[i].tid == tid)
			return true;
	return false;
}

/* Locks know their owners by these. Threads of a snapshot have theirs from another VMM. */
static int next_tid(const struct guest *g)
{
	static int counter;

	/* Apart from the numbers of processes: the host's are small, those of warm machines lie
	 * between one and two millions. */
	do
		counter = counter % 1000000 + 1;
	while (is_tid(g, 2000000 + counter));
	return 2000000 + counter;
}

static void forget(struct guest *g, int index)
{
	g->threads[index].used = false;
	g->threads_used--;
}

/* A thread in the sense of pthread_create(). Processes are process.c's. */
int64_t call_clone(struct guest *g, const uint64_t a[6])
{
	uint64_t flags = a[0];
	struct thread *parent = guest_thread(g);
	struct thread *child;
	uint32_t tid;
	int index = thread_new(g);

	/* What the cell may have of processes, a program may have of threads. */
	if (index < 0 || (g->processes && (uint64_t)g->threads_used > g->processes)) {
		if (index >= 0)
			forget(g, index);
		return -EAGAIN;
	}
	child = &g->threads[index];
	child->tid = next_tid(g);
	child->registers = parent->registers;
	child->registers.general.rax = 0;
	child->registers.general.rsp = a[1];
	child->blocked = parent->blocked;
	if (flags & CLONE_SETTLS)
		child->registers.fs_base = a[4];
	if (flags & CLONE_CHILD_CLEARTID)
		child->clear_tid = a[3];
	vcpu_get_xsave(&g->cpu, &child->xsave);
	tid = (uint32_t)child->tid;
	if ((flags & CLONE_PARENT_SETTID && mem_write(&g->mem, a[2], &tid, sizeof(tid))) ||
		(flags & CLONE_CHILD_SETTID && mem_write(&g->mem, a[3], &tid, sizeof(tid)))) {
		forget(g, index);
		return -EFAULT;
	}
	thread_publish(g);
	return child->tid;
}
