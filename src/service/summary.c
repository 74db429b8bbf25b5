#include "service/summary.h"

#include "service/job.h"

static double ms(int64_t us)
{
	return (double)us / 1000;
}

json_t *summary_json(const struct job *job)
{
	const struct hotcell_result *r = job->result;
	json_t *o = json_object();

	json_object_set_new(o, "id", json_string(job->id));
	json_object_set_new(o, "session_id",
		job->spec.session_id ? json_string(job->spec.session_id) : json_null());
	json_object_set_new(
		o, "user", job->spec.user ? json_string_nocheck(job->spec.user) : json_null());
	json_object_set_new(o, "language",
		r ? json_string(r->language) : json_string_nocheck(job->spec.language));
	json_object_set_new(o, "state", json_string(job_state_name(job)));
	json_object_set_new(o, "submitted", json_real(job->submitted_s));
	json_object_set_new(o, "detached", json_boolean(job->spec.detach));
	if (job->started_us)
		json_object_set_new(
			o, "queue_ms", json_real(ms(job->started_us - job->submitted_us)));
	if (job->state != JOB_DONE)
		return o;
	json_object_set_new(o, "total_ms", json_real(ms(job->ended_us - job->submitted_us)));
	if (!r) {
		json_object_set_new(o, "error", json_string_nocheck(job->failure.text));
		return o;
	}
	json_object_set_new(o, "reason", json_string(hotcell_reason_name(r->reason)));
	json_object_set_new(
		o, "exit_code", r->exit_code < 0 ? json_null() : json_integer(r->exit_code));
	json_object_set_new(o, "isolation", json_string(r->isolation));
	json_object_set_new(o, "warm", json_boolean(r->warm));
	json_object_set_new(o, "duration_ms", json_real(ms((int64_t)r->duration_us)));
	json_object_set_new(o, "cpu_ms", json_real(ms((int64_t)r->usage.cpu_us)));
	json_object_set_new(
		o, "peak_memory_bytes", json_integer((json_int_t)r->usage.peak_memory_bytes));
	json_object_set_new(o, "files_count", json_integer((json_int_t)job->files_count));
	return o;
}

char *summary_of(const struct job *job)
{
	json_t *o = summary_json(job);
	char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));

	json_decref(o);
	return text;
}
