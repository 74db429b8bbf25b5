#include "engine/timer.h"

#include "base/clock.h"
#include "engine/engine.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MS_MAX (100ULL * 365 * 86400 * 1000)

static void arm(struct hotcell *h, int64_t due_us)
{
	struct itimerspec when = { .it_value = { .tv_sec = (time_t)(due_us / 1000000),
					   .tv_nsec = (long)(due_us % 1000000) * 1000 } };

	h->timers.armed_us = due_us;
	timerfd_settime(h->timers.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static struct timer *earliest(const struct hotcell *h)
{
	struct timer *first = h->timers.list;

	for (struct timer *t = first; t; t = t->next)
		if (t->due_us < first->due_us)
			first = t;
	return first;
}

static void on_event(struct hotcell *h, struct source *source, uint32_t events)
{
	uint64_t ignored;
	struct timer *t;

	(void)source;
	(void)events;
	(void)!read(h->timers.fd, &ignored, sizeof(ignored));
	h->timers.armed_us = 0;
	/* Whom it is told may end any other: looked for anew each time. */
	while ((t = earliest(h)) && t->due_us <= clock_now_us()) {
		timer_stop(h, t);
		t->on_time(t);
	}
	if (t && h->timers.armed_us == 0)
		arm(h, t->due_us);
}

int timers_open(struct hotcell *h)
{
	h->timers.source.on_event = on_event;
	h->timers.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (h->timers.fd < 0)
		return -1;
	return source_add(h, &h->timers.source, h->timers.fd, EPOLLIN);
}

void timer_start(struct hotcell *h, struct timer *t, uint64_t ms)
{
	timer_stop(h, t);
	t->due_us = clock_now_us() + (int64_t)(ms < MS_MAX ? ms : MS_MAX) * 1000;
	t->next = h->timers.list;
	if (t->next)
		t->next->link = &t->next;
	t->link = &h->timers.list;
	h->timers.list = t;
	if (h->timers.armed_us == 0 || t->due_us < h->timers.armed_us)
		arm(h, t->due_us);
}

void timer_stop(struct hotcell *h, struct timer *t)
{
	(void)h;
	if (!t->link)
		return;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	t->next = NULL;
	t->link = NULL;
}
