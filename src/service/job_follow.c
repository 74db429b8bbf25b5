/* What a run prints, for those who follow it. */
#include "service/job_inner.h"

#include "base/buf.h"
#include "service/service.h"

#include <stdlib.h>
#include <string.h>

struct event {
	struct list link;
	enum hotcell_stream stream;
	size_t len;
	char data[];
};

static void drop_event(struct job *job, struct event *event)
{
	list_remove(&event->link);
	job->log_bytes -= event->len;
	free(event);
}

void job_drop_log(struct job *job)
{
	list_each(at, next, &job->log) drop_event(job, container_of(at, struct event, link));
}

/* What everybody has had is not kept, unless somebody may still come for it. */
static void trim_log(struct job *job)
{
	if (job->spec.detach)
		return;
	list_each(at, next, &job->log)
	{
		struct list *mark = at;

		list_each(link, after, &job->watches)
		{
			const struct job_watch *watch = container_of(link, struct job_watch, link);

			if (watch->sent == mark || watch->sent == &job->log)
				return;
		}
		drop_event(job, container_of(at, struct event, link));
	}
}

void job_pump(struct job_watch *watch)
{
	struct job *job = watch->job;

	while (watch->on_output && watch->sent->next != &job->log) {
		struct event *event = container_of(watch->sent->next, struct event, link);

		if (!watch->on_output(watch, event->stream, event->data, event->len))
			return;
		watch->sent = &event->link;
	}
}

static void pause_or_go_on(struct job *job)
{
	enum { BACKLOG_MAX = 256 << 10 };
	bool wants_pause = !job->spec.detach && job->log_bytes > BACKLOG_MAX;

	if (wants_pause == job->is_paused || !job->op.work)
		return;
	job->is_paused = wants_pause;
	hotcell_pause(job->op.work, wants_pause);
}

void job_watch(struct job *job, struct job_watch *watch)
{
	watch->job = job;
	watch->sent = &job->log;
	list_add_last(&job->watches, &watch->link);
	job_pump(watch);
}

/* The others need not wait for it any more. */
void job_unwatch(struct job_watch *watch)
{
	list_remove(&watch->link);
	if (!watch->job || watch->job->state != JOB_RUNNING)
		return;
	trim_log(watch->job);
	pause_or_go_on(watch->job);
}

void job_continue(struct job_watch *watch)
{
	job_pump(watch);
	trim_log(watch->job);
	pause_or_go_on(watch->job);
}

/* A stream that nobody takes is held back at its source; only the log of one that goes on by itself has an end. */
void job_on_output(
	void *context, enum hotcell_stream stream, int compiling, const char *data, size_t len)
{
	struct job *job = context;
	struct event *event;

	if (!compiling)
		job->streamed_bytes[stream == HOTCELL_STDERR] += len;
	if (job->spec.detach && job->log_bytes + len > 2 * job->spec.max_output)
		job->log_is_cut = true;
	if (job->log_is_cut)
		return;
	event = xalloc(sizeof(*event) + len);
	event->stream = stream;
	event->len = len;
	memcpy(event->data, data, len);
	list_init(&event->link);
	list_add_last(&job->log, &event->link);
	job->log_bytes += len;
	list_each(at, next, &job->watches) job_pump(container_of(at, struct job_watch, link));
	trim_log(job);
	pause_or_go_on(job);
}
