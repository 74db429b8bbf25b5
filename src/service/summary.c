#include "service/summary.h"

#include "base/json_text.h"
#include "base/own.h"
#include "service/job.h"

static void add_text(struct buf *b, const char *name, const char *text)
{
	buf_addf(b, ",\"%s\":", name);
	json_text_add(b, text);
}

static void add_number(struct buf *b, const char *name, uint64_t number)
{
	buf_addf(b, ",\"%s\":%llu", name, (unsigned long long)number);
}

static void add_bool(struct buf *b, const char *name, bool value)
{
	buf_addf(b, ",\"%s\":%s", name, value ? "true" : "false");
}

static void add_ms(struct buf *b, const char *name, int64_t us)
{
	long long all = us > 0 ? us : 0;

	buf_addf(b, ",\"%s\":%lld.%03lld", name, all / 1000, all % 1000);
}

static void add_result(struct buf *b, const struct job *job, const struct hotcell_result *r)
{
	add_text(b, "reason", hotcell_reason_name(r->reason));
	if (r->exit_code < 0)
		add_text(b, "exit_code", NULL);
	else
		add_number(b, "exit_code", (uint64_t)r->exit_code);
	add_text(b, "isolation", r->isolation);
	add_bool(b, "warm", r->warm);
	add_ms(b, "duration_ms", (int64_t)r->duration_us);
	add_ms(b, "cpu_ms", (int64_t)r->usage.cpu_us);
	add_number(b, "peak_memory_bytes", r->usage.peak_memory_bytes);
	add_number(b, "files_count", job->files_count);
}

/* Written out by hand: each run has one, and a tree would take longer than all else that history costs it. */
char *summary_of(const struct job *job)
{
	const struct hotcell_result *r = job->result;
	struct buf b = { 0 };

	buf_addf(&b, "{\"id\":\"%s\"", job->id);
	add_text(&b, "session_id", job->spec.session_id);
	add_text(&b, "user", job->spec.user);
	add_text(&b, "language", r ? r->language : job->spec.language);
	add_text(&b, "state", job_state_name(job));
	buf_addf(&b, ",\"submitted\":%.6f", job->submitted_s);
	add_bool(&b, "detached", job->spec.detach);
	if (job->started_us)
		add_ms(&b, "queue_ms", job->started_us - job->submitted_us);
	if (job->state == JOB_DONE) {
		add_ms(&b, "total_ms", job->ended_us - job->submitted_us);
		if (r)
			add_result(&b, job, r);
		else
			add_text(&b, "error", job->failure.text);
	}
	buf_add_str(&b, "}");
	return buf_take(&b);
}

json_t *summary_json(const struct job *job)
{
	auto_free char *text = summary_of(job);

	return json_loads(text, 0, NULL);
}
