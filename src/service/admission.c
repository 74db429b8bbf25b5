#include "service/service.h"

#include "base/buf.h"
#include "base/clock.h"
#include "service/job.h"

#include <math.h>
#include <string.h>

struct owner {
	struct list link; /* among those that wait, if it has a queue */
	char *name;
	struct list queue;
	unsigned queued;
	double tokens; /* runs that it may begin now */
	int64_t filled_us;
	unsigned per_minute;
};

static struct owner *find_owner(struct admission *a, const char *name)
{
	struct owner *o = map_get(&a->owners, name);

	if (o)
		return o;
	o = xalloc(sizeof(*o));
	o->name = xstrdup(name);
	list_init(&o->link);
	list_init(&o->queue);
	map_put(&a->owners, name, o);
	return o;
}

static void free_owner(struct owner *o)
{
	free(o->name);
	free(o);
}

void admission_set_limits(struct admission *a)
{
	const struct config *c = a->service->config;

	a->running_max = c->running_max ? (unsigned)c->running_max : uv_available_parallelism() * 2;
	a->queue_max = (unsigned)c->queue_max;
}

void admission_open(struct admission *a, struct service *s)
{
	a->service = s;
	admission_set_limits(a);
	list_init(&a->waiting);
}

void admission_close(struct admission *a)
{
	size_t at = 0;
	struct owner *o;

	while ((o = map_next(&a->owners, &at)))
		free_owner(o);
	map_free(&a->owners);
}

unsigned admission_retry_after_s(const struct admission *a)
{
	/* What is queued is gone after as many rounds; a round is well under a second, mostly. */
	return 1 + a->queued / (a->running_max * 10 + 1);
}

static void start(struct admission *a, struct job *job)
{
	a->running++;
	job_start(job);
}

static void take_out(struct admission *a, struct owner *o, struct job *job)
{
	list_remove(&job->link);
	o->queued--;
	a->queued--;
	if (list_is_empty(&o->queue))
		list_remove(&o->link);
}

static void send_away(struct admission *a, struct job *job)
{
	a->service->metrics.refused++;
	job_fail(job, 429, HOTCELL_ERROR_LIMIT, "%u runs are waiting already; try again later",
		a->queued);
}

/* The queue is full: whoever has most in it gives way to one who has less, with the last that came. */
static bool make_room(struct admission *a, const struct owner *o)
{
	struct owner *most = NULL;
	struct job *last;

	list_each(at, next, &a->waiting)
	{
		struct owner *other = container_of(at, struct owner, link);

		if (!most || other->queued > most->queued)
			most = other;
	}
	if (!most || most->queued <= o->queued + 1)
		return false;
	last = container_of(most->queue.prev, struct job, link);
	take_out(a, most, last);
	send_away(a, last);
	return true;
}

void admission_enter(struct admission *a, struct job *job)
{
	struct owner *o;

	if (a->running < a->running_max && a->queued == 0) {
		start(a, job);
		return;
	}
	o = find_owner(a, job->caller.owner);
	if (a->queued >= a->queue_max && !make_room(a, o)) {
		send_away(a, job);
		return;
	}
	if (list_is_empty(&o->queue))
		list_add_last(&a->waiting, &o->link);
	list_add_last(&o->queue, &job->link);
	o->queued++;
	a->queued++;
}

static void start_next(struct admission *a)
{
	while (a->running < a->running_max && !list_is_empty(&a->waiting)) {
		struct owner *o = container_of(a->waiting.next, struct owner, link);
		struct job *job = container_of(o->queue.next, struct job, link);

		take_out(a, o, job);
		/* The others first, before it is its turn again. */
		if (!list_is_empty(&o->queue)) {
			list_remove(&o->link);
			list_add_last(&a->waiting, &o->link);
		}
		start(a, job);
	}
}

void admission_leave(struct admission *a)
{
	a->running--;
	start_next(a);
}

void admission_forget(struct admission *a, struct job *job)
{
	struct owner *o = map_get(&a->owners, job->caller.owner);

	if (o && !list_is_empty(&job->link))
		take_out(a, o, job);
}

/* ---- so many a minute ---- */

static void fill(struct owner *o, unsigned per_minute, int64_t now_us)
{
	double more = (double)(now_us - o->filled_us) * per_minute / 60e6;

	if (o->per_minute != per_minute || !o->filled_us)
		o->tokens = per_minute;
	o->per_minute = per_minute;
	o->filled_us = now_us;
	o->tokens = fmin(o->tokens + more, per_minute);
}

bool admission_count_run(
	struct admission *a, const struct caller *caller, unsigned runs, unsigned *ret_wait_s)
{
	unsigned per_minute = (unsigned)caller->rights.runs_per_minute;
	struct owner *o;

	if (!per_minute)
		return true;
	o = find_owner(a, caller->owner);
	fill(o, per_minute, clock_now_us());
	if (o->tokens >= runs) {
		o->tokens -= runs;
		return true;
	}
	*ret_wait_s = 1 + (unsigned)((runs - o->tokens) * 60 / per_minute);
	return false;
}

/* ---- now and then ---- */

static void send_away_late(struct admission *a, struct owner *o, int64_t now_us)
{
	int64_t most_us = (int64_t)a->service->config->queue_wait_max_s * 1000000;

	while (!list_is_empty(&o->queue)) {
		struct job *job = container_of(o->queue.next, struct job, link);

		if (now_us - job->submitted_us < most_us)
			return;
		take_out(a, o, job);
		a->service->metrics.refused++;
		job_fail(job, 429, HOTCELL_ERROR_LIMIT,
			"it waited for %llu s, and no place became free",
			(unsigned long long)a->service->config->queue_wait_max_s);
	}
}

void admission_tick(struct admission *a)
{
	int64_t now_us = clock_now_us();
	struct owner *idle[64] = { NULL };
	size_t idle_count = 0;
	size_t at = 0;
	struct owner *o;

	list_each(link, next, &a->waiting)
		send_away_late(a, container_of(link, struct owner, link), now_us);
	while ((o = map_next(&a->owners, &at)) && idle_count < 64)
		if (list_is_empty(&o->queue) && now_us - o->filled_us > 60000000)
			idle[idle_count++] = o;
	while (idle_count) {
		o = idle[--idle_count];
		map_remove(&a->owners, o->name);
		free_owner(o);
	}
}
