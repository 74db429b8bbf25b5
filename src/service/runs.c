#include "service/service.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "service/job.h"
#include "service/summary.h"

#include <stdlib.h>
#include <string.h>

/* What ended is remembered for so long, unless there is more of it. */
enum { ENDED_S = 600, ENDED_MAX = 2000, ENDED_BYTES_MAX = 64 << 20 };

static size_t size_of(const struct job *job)
{
	return sizeof(*job) + job->log_bytes + job->spec.code_len +
	       (job->result ? job->result->out.len + job->result->err.len : 0);
}

void runs_open(struct runs *r, struct service *s)
{
	r->service = s;
	list_init(&r->ended);
}

static void forget(struct runs *r, struct job *job)
{
	list_remove(&job->recent);
	r->ended_count--;
	r->ended_bytes -= size_of(job);
	map_remove(&r->by_id, job->id);
	job_release(job);
}

void runs_close(struct runs *r)
{
	while (!list_is_empty(&r->ended))
		forget(r, container_of(r->ended.next, struct job, recent));
	map_free(&r->by_id);
}

void runs_add(struct runs *r, struct job *job)
{
	map_put(&r->by_id, job->id, job);
}

static void add_to_history(struct runs *r, const struct job *job)
{
	auto_free char *summary = summary_of(job);
	struct store_run run = {
		.owner = (char *)(uintptr_t)job->caller.owner,
		.session = job->spec.session_id,
		.summary_json = summary,
		.started_s = job->submitted_s,
	};

	memcpy(run.id, job->id, sizeof(run.id));
	store_add_run(r->service->store, &run);
}

static void note(struct runs *r, const struct job *job)
{
	log_info("run.ended", { "id", .text = job->id }, { "owner", .text = job->caller.owner },
		{ "language", .text = job->result ? job->result->language : "-" },
		{ "isolation", .text = job->result ? job->result->isolation : "-" },
		{ "reason",
			.text = job->result ? hotcell_reason_name(job->result->reason) : "failed" },
		{ "queue_us", .number = job->started_us ? job->started_us - job->submitted_us : 0 },
		{ "wall_us", .number = job->result ? (int64_t)job->result->duration_us : 0 });
	add_to_history(r, job);
}

void runs_end(struct runs *r, struct job *job)
{
	note(r, job);
	job->references++;
	list_add_last(&r->ended, &job->recent);
	r->ended_count++;
	r->ended_bytes += size_of(job);
	while (r->ended_count > ENDED_MAX ||
		(r->ended_bytes > ENDED_BYTES_MAX && r->ended_count > 1))
		forget(r, container_of(r->ended.next, struct job, recent));
}

struct job *runs_find(const struct runs *r, const char *id, const char *owner)
{
	struct job *job = map_get(&r->by_id, id);

	return job && strcmp(job->caller.owner, owner) == 0 ? job : NULL;
}

void runs_tick(struct runs *r)
{
	int64_t now_us = clock_now_us();

	while (!list_is_empty(&r->ended)) {
		struct job *job = container_of(r->ended.next, struct job, recent);

		if (now_us - job->ended_us < (int64_t)ENDED_S * 1000000)
			return;
		forget(r, job);
	}
}

/* Those that end are forgotten, some of them at once; and one that ends may let another begin. */
static struct job **hold_all(struct runs *r, size_t *ret_count)
{
	struct job **all = xalloc((r->by_id.count + 1) * sizeof(struct job *));
	struct job *job;
	size_t at = 0;

	*ret_count = 0;
	while ((job = map_next(&r->by_id, &at))) {
		if (job->state == JOB_DONE)
			continue;
		job->references++;
		all[(*ret_count)++] = job;
	}
	return all;
}

void runs_cancel_all(struct runs *r)
{
	size_t count;
	auto_free struct job **all = hold_all(r, &count);

	/* Who waits first: none of them is to begin. */
	for (size_t i = 0; i < count; i++)
		if (all[i]->state < JOB_RUNNING)
			job_cancel(all[i]);
	for (size_t i = 0; i < count; i++) {
		job_cancel(all[i]);
		job_release(all[i]);
	}
}

void runs_abandon_all(struct runs *r)
{
	size_t count;
	auto_free struct job **all = hold_all(r, &count);

	for (size_t i = 0; i < count; i++) {
		struct job *job = all[i];

		job_abandon(job);
		snprintf(job->failure.text, sizeof(job->failure.text), "the service has ended");
		job->ended_us = clock_now_us();
		note(r, job);
		job_release(job);
	}
}
