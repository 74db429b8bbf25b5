/* POST /v1/execute and /v1/execute/stream. */
#include "api/execute.h"

#include "api/run_reply.h"
#include "api/run_request.h"
#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"

#include <string.h>

/* A call that waits for a run. */
struct waiting {
	struct job_watch watch;
	struct call *call;
	struct job *job;
	bool has_begun;       /* a stream: its headers are out */
	bool is_at_end;       /* no more output comes: no need to wait for room */
	bool has_result_only; /* it came too late for the log */
	bool follows;         /* somebody else's, so to speak: it goes on without */
	struct utf8_tail tails[2];
};

static struct waiting *waiting_of(struct job_watch *watch)
{
	return container_of(watch, struct waiting, watch);
}

static void let_go(struct waiting *w)
{
	w->call->on_end = NULL;
	w->call->on_room = NULL;
	job_unwatch(&w->watch);
	job_release(w->job);
	free(w);
}

/* The client is gone: so is its run, unless it said otherwise. */
static void on_client_gone(struct call *call, bool complete)
{
	struct waiting *w = call->state;

	(void)complete;
	job_unwatch(&w->watch);
	if (!w->job->spec.detach && !w->follows)
		job_cancel(w->job);
	job_release(w->job);
	free(w);
}

/* ---- the whole answer at once ---- */

static void answer(struct call *call, const struct job *job, bool cached)
{
	struct refusal refusal;

	if (job->result) {
		reply_json(call, 200, run_reply_json(job, cached));
		return;
	}
	run_reply_refusal(job, &refusal);
	reply_refusal(call, &refusal);
}

static void on_done(struct job_watch *watch)
{
	struct waiting *w = waiting_of(watch);
	struct call *call = w->call;
	struct job *job = w->job;

	job->references++;
	let_go(w);
	answer(call, job, false);
	job_release(job);
}

/* ---- as it comes ---- */

static void send_event(struct call *call, const char *event, json_t *data)
{
	char *text = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(15));
	auto_buf struct buf frame = { 0 };

	json_decref(data);
	buf_addf(&frame, "event: %s\ndata: ", event);
	buf_add_str(&frame, text);
	buf_add_str(&frame, "\n\n");
	free(text);
	http_send(call->x, frame.data, frame.len);
}

static void begin_stream(struct waiting *w)
{
	struct http_exchange *x = w->call->x;

	w->has_begun = true;
	http_set_header(x, "Cache-Control", "no-cache");
	http_set_header(x, "X-Accel-Buffering", "no");
	http_set_header(x, "X-Run-Id", w->job->id);
	http_stream(x, 200, "text/event-stream");
}

static void send_output(struct waiting *w, int stream, const char *data, size_t len)
{
	if (len)
		send_event(w->call, "output",
			json_pack("{s:s, s:o}", "stream", stream ? "stderr" : "stdout", "data",
				reply_text(data, len)));
}

/* A letter may come in two pieces: the first waits for the second. */
static bool on_stream_output(
	struct job_watch *watch, enum hotcell_stream stream, const char *data, size_t len)
{
	struct waiting *w = waiting_of(watch);
	int which = stream == HOTCELL_STDERR;
	auto_buf struct buf whole = { 0 };

	if (w->has_begun && !w->is_at_end && http_queued(w->call->x) > HTTP_QUEUE_MAX)
		return false;
	if (!w->has_begun)
		begin_stream(w);
	utf8_join(&w->tails[which], data, len, &whole);
	send_output(w, which, whole.data, whole.len);
	return true;
}

static void on_stream_room(struct call *call)
{
	struct waiting *w = call->state;

	job_continue(&w->watch);
}

static void send_end(struct waiting *w)
{
	const struct job *job = w->job;

	for (int i = 0; i < 2; i++)
		send_output(w, i, w->tails[i].bytes, w->tails[i].len);
	if (job->result)
		send_event(w->call, "result", run_reply_end(job, !w->has_result_only));
	else
		send_event(w->call, "error",
			json_pack("{s:s%}", "message", job->failure.text,
				(size_t)reply_reason_len(job->failure.text)));
	http_end(w->call->x);
}

/* Not before: what a check refuses is refused as any other request is. */
static void on_stream_entered(struct job_watch *watch)
{
	struct waiting *w = waiting_of(watch);

	if (!w->has_begun)
		begin_stream(w);
}

/* What there was no room for goes after all: there will be no more. One that never began is refused as any other
 * request is. */
static void on_stream_done(struct job_watch *watch)
{
	struct waiting *w = waiting_of(watch);
	struct call *call = w->call;
	struct job *job = w->job;

	job->references++;
	w->is_at_end = true;
	job_pump(watch);
	if (job->result && !w->has_begun)
		begin_stream(w);
	if (w->has_begun)
		send_end(w);
	else
		answer(call, job, false);
	let_go(w);
	job_release(job);
}

/* ---- setting it going ---- */

static struct waiting *wait_for(struct call *call, struct job *job, bool streams)
{
	struct waiting *w = xalloc(sizeof(*w));

	w->call = call;
	w->job = job;
	list_init(&w->watch.link);
	w->watch.on_done = streams ? on_stream_done : on_done;
	w->watch.on_output = streams ? on_stream_output : NULL;
	w->watch.on_entered = streams ? on_stream_entered : NULL;
	call->state = w;
	call->on_end = on_client_gone;
	call->on_room = streams ? on_stream_room : NULL;
	return w;
}

static bool is_over_rate(struct call *call, struct refusal *refusal)
{
	unsigned wait_s = 0;

	if (admission_count_run(&call->service->admission, &call->caller, 1, &wait_s))
		return false;
	refuse(refusal, 429, "rate", "This key has had its runs for this minute.");
	refusal->retry_after_s = wait_s;
	return true;
}

void execute_submit(struct call *call, struct spec *spec, struct session *session, bool streams)
{
	struct refusal refusal = { 0 };
	struct job *kept =
		spec->cache_key ? cache_find(&call->service->cache, spec->cache_key) : NULL;
	struct waiting *w;
	struct job *job;

	if (kept && !streams) {
		call->service->metrics.cached++;
		spec_free(spec);
		answer(call, kept, true);
		return;
	}
	if (is_over_rate(call, &refusal)) {
		spec_free(spec);
		reply_refusal(call, &refusal);
		return;
	}
	spec->streams = streams || spec->detach;
	job = job_new(call->service, &call->caller, spec);
	if (session)
		job_set_session(job, session);
	w = wait_for(call, job, streams);
	job->references++;
	job_watch(job, &w->watch);
	job_submit(job);
	/* It may be over, and the answer be gone, by now. */
	if (streams && job->state != JOB_DONE && job->state != JOB_CHECKING && !w->has_begun)
		begin_stream(w);
	job_release(job);
}

void execute_body(struct call *call, struct body *b, struct session *session, bool streams)
{
	struct spec spec;
	struct refusal refusal;

	if (run_request_read_in(b, b->root, session, &spec, &refusal))
		reply_refusal(call, &refusal);
	else
		execute_submit(call, &spec, session, streams);
}

/* A session may be named in the body, too. */
static void execute(struct call *call, bool streams)
{
	struct session *session = NULL;
	struct hotcell_error e;
	struct body b;
	const char *id;

	if (!body_open(call, &b))
		return;
	id = json_string_value(json_object_get(b.root, "session_id"));
	if (id)
		session = session_find(call->service, id, call->caller.owner, &e);
	if (id && !session)
		reply_failure(call, &e);
	else
		execute_body(call, &b, session, streams);
	body_free(&b);
}

void execute_run(struct call *call)
{
	execute(call, false);
}

void execute_stream(struct call *call)
{
	execute(call, true);
}

/* ---- following one that goes on, or did ---- */

static void replay_result(struct waiting *w)
{
	const struct hotcell_result *r = w->job->result;

	if (!r)
		return;
	send_output(w, 0, r->out.data, r->out.len);
	send_output(w, 1, r->err.data, r->err.len);
}

void execute_follow(struct call *call, struct job *job)
{
	struct waiting *w = wait_for(call, job, true);

	job->references++;
	w->follows = true;
	begin_stream(w);
	if (job->state != JOB_DONE) {
		job_watch(job, &w->watch);
		return;
	}
	/* Its log, if it was detached; else what its result has of it. */
	w->is_at_end = true;
	if (list_is_empty(&job->log)) {
		w->has_result_only = true;
		replay_result(w);
	} else {
		w->watch.job = job;
		w->watch.sent = &job->log;
		job_pump(&w->watch);
	}
	send_end(w);
	let_go(w);
}
