/* POST /v1/batch: many runs, side by side. One that fails does not end the others. */
#include "api/handlers.h"

#include "api/run_reply.h"
#include "api/run_request.h"
#include "base/own.h"
#include "service/job.h"

#include <string.h>

/* What all results of a batch may print, together. */
enum { OUTPUT_MAX = 64 << 20 };

struct item {
	struct job_watch watch;
	struct batch *batch;
	struct job *job;  /* while it runs */
	struct spec spec; /* before */
	json_t *answer;   /* afterwards */
	bool is_refused;
};

struct batch {
	struct call *call;
	struct item *items;
	size_t count;
	size_t next; /* the first that has not been started */
	size_t running;
	size_t left; /* that have no answer yet */
	size_t parallel;
	bool streams; /* each as it ends, a line of JSON */
	bool is_starting;
	bool is_gone;
};

static void batch_free(struct batch *b)
{
	for (size_t i = 0; i < b->count; i++) {
		spec_free(&b->items[i].spec);
		json_decref(b->items[i].answer);
	}
	free(b->items);
	free(b);
}

/* ---- answers ---- */

static void send_line(struct batch *b, size_t index)
{
	struct item *item = &b->items[index];
	char *text;

	json_object_set_new(item->answer, "index", json_integer((json_int_t)index));
	text = json_dumps(item->answer, JSON_COMPACT | JSON_REAL_PRECISION(15));
	http_send(b->call->x, text, strlen(text));
	http_send(b->call->x, "\n", 1);
	free(text);
	json_decref(take_ptr(&item->answer));
}

static void finish(struct batch *b)
{
	struct call *call = b->call;
	json_t *results;

	call->on_end = NULL;
	call->on_room = NULL;
	if (b->streams) {
		http_end(call->x);
		batch_free(b);
		return;
	}
	results = json_array();
	for (size_t i = 0; i < b->count; i++)
		json_array_append_new(results, take_ptr(&b->items[i].answer));
	batch_free(b);
	reply_json(call, 200, json_pack("{s:o}", "results", results));
}

static json_t *error_of(struct refusal *refusal)
{
	unsigned status = refusal->status;
	json_t *error = refusal_json(refusal);

	json_object_set_new(error, "status", json_integer(status));
	return json_pack("{s:o}", "error", error);
}

static void answer(struct item *item, json_t *answer)
{
	struct batch *b = item->batch;

	item->answer = answer;
	b->left--;
	if (b->streams)
		send_line(b, (size_t)(item - b->items));
}

/* ---- running ---- */

static void start_more(struct batch *b);

static void on_done(struct job_watch *watch)
{
	struct item *item = container_of(watch, struct item, watch);
	struct batch *b = item->batch;
	struct job *job = take_ptr(&item->job);
	struct refusal refusal;

	b->running--;
	if (job->result) {
		answer(item, run_reply_json(job, false));
	} else {
		run_reply_refusal(job, &refusal);
		answer(item, error_of(&refusal));
	}
	job_release(job);
	start_more(b);
}

static bool is_cached(struct batch *b, struct item *item)
{
	struct service *s = b->call->service;
	const char *key = item->spec.cache_key;
	struct job *kept = key ? cache_find(&s->cache, key) : NULL;

	if (!kept)
		return false;
	s->metrics.cached++;
	answer(item, run_reply_json(kept, true));
	return true;
}

static void start(struct batch *b, struct item *item)
{
	struct job *job;

	if (is_cached(b, item))
		return;
	job = job_new(b->call->service, &b->call->caller, &item->spec);
	item->job = job;
	item->watch.on_done = on_done;
	list_init(&item->watch.link);
	b->running++;
	job_watch(job, &item->watch);
	job_submit(job);
}

static bool may_start(const struct batch *b)
{
	return b->next < b->count && b->running < b->parallel &&
	       (!b->streams || http_queued(b->call->x) <= HTTP_QUEUE_MAX);
}

/* A run may end while it is being started. */
static void start_more(struct batch *b)
{
	if (b->is_starting)
		return;
	b->is_starting = true;
	while (may_start(b)) {
		struct item *item = &b->items[b->next++];

		if (!item->is_refused)
			start(b, item);
	}
	b->is_starting = false;
	if (b->left == 0)
		finish(b);
}

static void on_room(struct call *call)
{
	start_more(call->state);
}

static void on_client_gone(struct call *call, bool complete)
{
	struct batch *b = call->state;

	(void)complete;
	/* First all of them: one that ends may let another begin. */
	for (size_t i = 0; i < b->count; i++) {
		if (b->items[i].job)
			job_unwatch(&b->items[i].watch);
	}
	for (size_t i = 0; i < b->count; i++) {
		struct item *item = &b->items[i];

		if (!item->job)
			continue;
		job_cancel(item->job);
		job_release(take_ptr(&item->job));
	}
	batch_free(b);
}

/* ---- reading ---- */

static bool wants_lines(struct call *call, struct body *body)
{
	const char *accept = http_header(call->x, "Accept");

	return body_bool(body, body->root, "stream", false) ||
	       (accept && strstr(accept, "application/x-ndjson"));
}

static void read_run(struct batch *b, size_t index, json_t *value)
{
	struct item *item = &b->items[index];
	struct body body = { .call = b->call, .root = json_incref(value) };
	struct refusal refusal = { 0 };

	item->batch = b;
	if (!json_is_object(value))
		refuse(&refusal, 422, "invalid", "Input should be a valid dictionary");
	else if (run_request_read(&body, value, &item->spec, &refusal) == 0 &&
		 item->spec.session_id)
		refuse(&refusal, 422, "invalid",
			"A batch cannot run in a session: its order is not certain.");
	body_free(&body);
	if (!refusal.status)
		return;
	item->is_refused = true;
	item->answer = error_of(&refusal);
}

static bool is_over_rate(struct call *call, size_t count)
{
	struct refusal refusal;
	unsigned wait_s = 0;

	if (admission_count_run(&call->service->admission, &call->caller, (unsigned)count, &wait_s))
		return false;
	refuse(&refusal, 429, "rate", "This key has had its runs for this minute.");
	refusal.retry_after_s = wait_s;
	reply_refusal(call, &refusal);
	return true;
}

/* Its result may hold less than another request's that is the same otherwise. */
static void hold_short(struct spec *spec, uint64_t output_max)
{
	auto_free char *key = take_ptr(&spec->cache_key);

	spec->max_output = output_max;
	if (key)
		spec->cache_key = xasprintf("%s %llu", key, (unsigned long long)output_max);
}

static struct batch *read_batch(struct call *call, json_t *runs, uint64_t parallel, bool streams)
{
	struct batch *b = xalloc(sizeof(*b));
	uint64_t output_max;

	b->call = call;
	b->count = b->left = json_array_size(runs);
	b->items = xalloc((b->count + 1) * sizeof(*b->items));
	b->parallel = parallel;
	b->streams = streams;
	output_max = OUTPUT_MAX / 2 / (b->count + 1);
	for (size_t i = 0; i < b->count; i++) {
		struct spec *spec = &b->items[i].spec;

		read_run(b, i, json_array_get(runs, i));
		if (!streams && spec->max_output > output_max)
			hold_short(spec, output_max);
	}
	return b;
}

static void begin(struct batch *b)
{
	struct call *call = b->call;

	call->state = b;
	call->on_end = on_client_gone;
	if (b->streams) {
		call->on_room = on_room;
		http_set_header(call->x, "Cache-Control", "no-cache");
		http_stream(call->x, 200, "application/x-ndjson");
	}
	for (size_t i = 0; i < b->count; i++)
		if (b->items[i].is_refused)
			answer(&b->items[i], b->items[i].answer);
	start_more(b);
}

void batch_run(struct call *call)
{
	struct body body;
	struct refusal refusal;
	json_t *runs;
	uint64_t parallel;
	bool streams;

	if (!body_open(call, &body))
		return;
	runs = body_list(&body, body.root, "runs", call->service->config->batch_max);
	parallel = body_integer(
		&body, body.root, "max_parallel", 1, 10000, call->service->admission.running_max);
	streams = wants_lines(call, &body);
	if (!runs && !body.errors)
		body_complain(&body, "runs", "missing", body.root, "Field required");
	if (!body_is_good(&body, &refusal))
		reply_refusal(call, &refusal);
	else if (!is_over_rate(call, json_array_size(runs)))
		begin(read_batch(call, runs, parallel, streams));
	body_free(&body);
}
