/* Runs: those that go on, those that ended, and their history. */
#include "api/execute.h"
#include "api/handlers.h"
#include "api/run_reply.h"
#include "service/summary.h"

#include "base/buf.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 1000 };

/* A number of the query: false if it is none, and that is answered. */
static bool read_limit(struct call *call, unsigned *ret)
{
	const char *text = http_query(call->x, "limit");
	char *end;
	unsigned long number;

	*ret = LIST_DEFAULT;
	if (!text)
		return true;
	number = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && number >= 1 && number <= LIST_MAX) {
		*ret = (unsigned)number;
		return true;
	}
	reply_error(call, 422, "invalid", "limit must be a number from 1 to %d", LIST_MAX);
	return false;
}

static int newest_first(const void *a, const void *b)
{
	const struct job *left = *(const struct job *const *)a;
	const struct job *right = *(const struct job *const *)b;

	return left->submitted_us < right->submitted_us ? 1 :
	       left->submitted_us > right->submitted_us ? -1 :
							  0;
}

/* What goes on, and what ended of late: it may not have reached the history. */
static void add_remembered(struct call *call, json_t *list, unsigned limit)
{
	const struct map *all = &call->service->runs.by_id;
	auto_free struct job **jobs = xalloc((all->count + 1) * sizeof(struct job *));
	size_t count = 0;
	size_t at = 0;
	struct job *job;

	while ((job = map_next(all, &at)))
		if (strcmp(job->caller.owner, call->caller.owner) == 0)
			jobs[count++] = job;
	qsort(jobs, count, sizeof(struct job *), newest_first);
	for (size_t i = 0; i < count && i < limit; i++)
		json_array_append_new(list, summary_json(jobs[i]));
}

void runs_list(struct call *call)
{
	struct store_run *runs = NULL;
	size_t count = 0;
	struct err e = { 0 };
	unsigned limit;
	json_t *list;

	if (!read_limit(call, &limit))
		return;
	if (store_list_runs(call->service->store, call->caller.owner, limit, &runs, &count, &e)) {
		reply_err(call, &e);
		return;
	}
	list = json_array();
	add_remembered(call, list, limit);
	for (size_t i = 0; i < count && json_array_size(list) < limit; i++)
		if (!map_get(&call->service->runs.by_id, runs[i].id))
			json_array_append_new(list, json_loads(runs[i].summary_json, 0, NULL));
	store_runs_free(runs, count);
	reply_json(call, 200, json_pack("{s:o}", "runs", list));
}

static void not_found(struct call *call)
{
	reply_error(call, 404, "not_found", "Run '%s' not found", call->params[0]);
}

static void reply_from_history(struct call *call)
{
	struct store_run run = { 0 };
	struct err e = { 0 };

	if (!store_is_id(call->params[0]) || store_find_run(call->service->store, call->params[0],
						     call->caller.owner, &run, &e)) {
		not_found(call);
		return;
	}
	reply_json(call, 200, json_loads(run.summary_json, 0, NULL));
	store_run_free(&run);
}

void runs_get(struct call *call)
{
	struct job *job = runs_find(&call->service->runs, call->params[0], call->caller.owner);
	json_t *o;

	if (!job) {
		reply_from_history(call);
		return;
	}
	o = summary_json(job);
	if (job->state == JOB_DONE && job->result) {
		json_t *whole = run_reply_json(job, false);

		json_object_update_missing(o, whole);
		json_decref(whole);
	}
	reply_json(call, 200, o);
}

void runs_follow(struct call *call)
{
	struct job *job = runs_find(&call->service->runs, call->params[0], call->caller.owner);

	if (!job)
		not_found(call);
	else if (job->state != JOB_DONE && !job->spec.streams)
		reply_error(call, 409, "not_streamed",
			"This run is not streamed: start it with \"detach\": true, or by /v1/execute/stream.");
	else
		execute_follow(call, job);
}

void runs_cancel(struct call *call)
{
	struct job *job = runs_find(&call->service->runs, call->params[0], call->caller.owner);

	if (!job) {
		not_found(call);
		return;
	}
	if (job->state == JOB_DONE || job->state == JOB_STORING) {
		reply_error(call, 409, "ended", "Run '%s' has ended already.", job->id);
		return;
	}
	job->references++;
	job_cancel(job);
	reply_json(call, 202, json_pack("{s:s, s:s}", "id", job->id, "state", "cancelling"));
	job_release(job);
}
