#include "api/run_reply.h"

#include "base/own.h"
#include "base/utf8.h"
#include "wire/limits.h"

#include <string.h>

/* As existing clients know it. */
#define CUT_MARK "\n...[truncated]"
enum { CUT_ROOM = 32 };

/* At which a stream ends the run. */
static uint64_t output_limit(const struct job *job)
{
	uint64_t limit = job->spec.limits.output_bytes;

	return limit ? limit : limit_table[LIMIT_OUTPUT_BYTES].by_default;
}

/* The program was ended at what it may print, and a stream with so many bytes is where it did so. */
static bool was_stopped(const struct job *job, uint64_t bytes)
{
	return job->result->reason == HOTCELL_OUTPUT_LIMIT && bytes >= output_limit(job);
}

static bool is_cut(const struct job *job, const struct hotcell_bytes *bytes)
{
	return bytes->truncated || was_stopped(job, bytes->len);
}

static json_t *output(const struct job *job, const struct hotcell_bytes *bytes)
{
	uint64_t max = job->spec.max_output;
	struct buf b = { 0 };
	json_t *text;
	size_t len = bytes->len;

	if (!is_cut(job, bytes))
		return reply_text(bytes->data, len);
	if (was_stopped(job, len) && output_limit(job) < max)
		max = output_limit(job);
	if (len > max - CUT_ROOM && max > CUT_ROOM)
		len = max - CUT_ROOM;
	utf8_add_replaced(&b, bytes->data, len);
	buf_add_str(&b, CUT_MARK);
	text = json_stringn_nocheck(b.data, b.len);
	buf_free(&b);
	return text;
}

static json_t *files(const struct job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->files_count; i++) {
		const struct job_file *f = &job->files[i];
		json_t *o;

		/* Directories are made by their files. */
		if (strcmp(f->kind, "file") != 0)
			continue;
		o = json_pack("{s:o, s:s, s:I}", "path", reply_text(f->path, strlen(f->path)),
			"kind", "file", "size_bytes", (json_int_t)f->size_bytes);
		json_object_set_new(o, "file_id", *f->id ? json_string(f->id) : json_null());
		if (f->error)
			json_object_set_new(o, "error", json_string(strerror(f->error)));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *usage(const struct job *job)
{
	const struct hotcell_result *r = job->result;

	return json_pack("{s:I, s:I, s:I, s:I}", "cpu_ms", (json_int_t)(r->usage.cpu_us / 1000),
		"peak_memory_bytes", (json_int_t)r->usage.peak_memory_bytes, "wall_us",
		(json_int_t)r->duration_us, "queue_us",
		(json_int_t)(job->started_us - job->submitted_us));
}

/* Whoever has followed it has had more than the result holds. */
static bool is_missing(const struct job *job, int which, bool has_followed)
{
	const struct hotcell_bytes *bytes = which ? &job->result->err : &job->result->out;

	if (!has_followed)
		return is_cut(job, bytes);
	return job->log_is_cut || was_stopped(job, job->streamed_bytes[which]);
}

static json_t *truncated(const struct job *job, bool has_followed)
{
	return json_pack("{s:b, s:b, s:o}", "stdout", is_missing(job, 0, has_followed), "stderr",
		is_missing(job, 1, has_followed), "full_output_file_id",
		*job->full_id ? json_string(job->full_id) : json_null());
}

static json_t *not_enforced(const struct hotcell_result *r)
{
	json_t *list = json_array();

	for (char **at = r->limits_not_enforced; *at; at++)
		json_array_append_new(list, json_string(*at));
	return list;
}

static json_t *compile(const struct job *job)
{
	const struct hotcell_compile *c = &job->result->compile;

	if (!c->present)
		return json_null();
	return json_pack("{s:o, s:o, s:i, s:I}", "stdout", output(job, &c->out), "stderr",
		output(job, &c->err), "exit_code", c->exit_code, "duration_ms",
		(json_int_t)(c->duration_us / 1000));
}

static const char *state_name(const struct hotcell_result *r)
{
	static const char *const names[] = { NULL, "kept", "lost" };

	return names[r->state];
}

json_t *run_reply_end(const struct job *job, bool has_followed)
{
	const struct hotcell_result *r = job->result;
	bool timed_out = r->reason == HOTCELL_TIMEOUT;
	json_t *o = json_object();

	json_object_set_new(
		o, "exit_code", r->exit_code < 0 ? json_null() : json_integer(r->exit_code));
	json_object_set_new(o, "timed_out", json_boolean(timed_out));
	json_object_set_new(o, "duration_ms", json_integer((json_int_t)(r->duration_us / 1000)));
	json_object_set_new(o, "files", files(job));
	json_object_set_new(o, "id", json_string(job->id));
	json_object_set_new(o, "reason", json_string(hotcell_reason_name(r->reason)));
	if (*r->reason_text)
		json_object_set_new(o, "reason_text", json_string(r->reason_text));
	json_object_set_new(o, "language", json_string(r->language));
	json_object_set_new(o, "isolation", json_string(r->isolation));
	if (*r->isolation_why)
		json_object_set_new(o, "isolation_why", json_string(r->isolation_why));
	json_object_set_new(o, "warm", json_boolean(r->warm));
	json_object_set_new(o, "usage", usage(job));
	json_object_set_new(o, "truncated", truncated(job, has_followed));
	json_object_set_new(o, "limits_not_enforced", not_enforced(r));
	json_object_set_new(o, "compile", compile(job));
	if (r->files_incomplete)
		json_object_set_new(o, "files_incomplete", json_true());
	if (state_name(r))
		json_object_set_new(o, "state", json_string(state_name(r)));
	if (job->spec.session_id)
		json_object_set_new(o, "session_id", json_string(job->spec.session_id));
	return o;
}

json_t *run_reply_json(const struct job *job, bool cached)
{
	const struct hotcell_result *r = job->result;
	json_t *o = run_reply_end(job, false);

	json_object_set_new(o, "stdout", output(job, &r->out));
	json_object_set_new(o, "stderr", output(job, &r->err));
	json_object_set_new(o, "result", json_null());
	json_object_set_new(o, "outputs", json_array());
	json_object_set_new(o, "cached", json_boolean(cached));
	return o;
}

void run_reply_refusal(const struct job *job, struct refusal *ret)
{
	const char *code;
	unsigned status = reply_status(job->failure.kind, 0, &code);

	if (job->failure_status == 429)
		code = "busy";
	if (job->failure_status == 403)
		code = "refused";
	if (job->failure_status)
		status = (unsigned)job->failure_status;
	refuse(ret, status, code, "%.*s", reply_reason_len(job->failure.text), job->failure.text);
	if (status == 429 || status == 503)
		ret->retry_after_s = admission_retry_after_s(&job->service->admission);
}
