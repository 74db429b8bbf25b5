#include "service/job.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "service/check.h"
#include "service/job_inner.h"
#include "service/service.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define TO(state) (1U << JOB_##state)

static const unsigned may_go[] = {
	[JOB_NEW] = TO(CHECKING) | TO(QUEUED) | TO(DONE),
	[JOB_CHECKING] = TO(QUEUED) | TO(DONE),
	[JOB_QUEUED] = TO(RUNNING) | TO(DONE),
	[JOB_RUNNING] = TO(STORING) | TO(DONE),
	[JOB_STORING] = TO(DONE),
	[JOB_DONE] = 0,
};

static bool job_goto(struct job *job, enum job_state state)
{
	if (!(may_go[job->state] & (1U << state)))
		return false;
	job->state = state;
	return true;
}

const char *job_state_name(const struct job *job)
{
	static const char *const names[] = { "new", "checking", "queued", "running", "storing",
		"done" };

	return names[job->state];
}

/* ---- beginning and end ---- */

static void on_done(
	struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure);

struct job *job_new(struct service *s, const struct caller *caller, struct spec *spec)
{
	struct job *job = xalloc(sizeof(*job));

	job->service = s;
	store_make_run_id(job->id);
	job->caller = *caller;
	job->spec = *spec;
	*spec = (struct spec){ 0 };
	job->op.on_done = on_done;
	job->full_fd = -1;
	job->references = 1;
	list_init(&job->link);
	list_init(&job->recent);
	list_init(&job->watches);
	list_init(&job->log);
	list_init(&job->op.link);
	return job;
}

void job_release(struct job *job)
{
	if (!job || --job->references)
		return;
	job_drop_log(job);
	for (size_t i = 0; i < job->files_count; i++) {
		own_close(&job->files[i].blob_fd);
		free(job->files[i].path);
		free(job->files[i].target);
	}
	free(job->files);
	free(job->inputs);
	for (size_t i = 0; i < job->staged_count; i++)
		free(job->staged[i]);
	free(job->staged);
	own_close(&job->full_fd);
	if (job->session)
		session_release(job->session);
	hotcell_result_free(job->result);
	spec_free(&job->spec);
	free(job);
}

/* The last step: whoever follows is told. */
void job_finish(struct job *job)
{
	if (!job_goto(job, JOB_DONE))
		return;
	job->ended_us = clock_now_us();
	runs_end(&job->service->runs, job);
	metrics_count_run(&job->service->metrics, job);
	if (job->spec.cache_key && job->result && job->result->reason == HOTCELL_EXITED &&
		job->result->exit_code == 0)
		cache_add(&job->service->cache, job);
	while (!list_is_empty(&job->watches)) {
		struct job_watch *watch = container_of(job->watches.next, struct job_watch, link);

		list_remove(&watch->link);
		watch->on_done(watch);
	}
	if (job->session)
		session_run_ended(job->session, job);
	job_release(job); /* what job_submit() took */
}

void job_fail(struct job *job, int status, enum hotcell_error_kind kind, const char *format, ...)
{
	va_list args;

	job->failure.kind = kind;
	job->failure_status = status;
	va_start(args, format);
	vsnprintf(job->failure.text, sizeof(job->failure.text), format, args);
	va_end(args);
	job_finish(job);
}

/* ---- running ---- */

/* Machines are reused for the same end user of the same key. */
static void name_owner(const struct job *job, char *ret, size_t size)
{
	bool anyone = job->spec.reuse == CONFIG_REUSE_ALWAYS;

	snprintf(ret, size, "%s/%s", anyone ? "" : job->caller.owner,
		anyone || !job->spec.user ? "" : job->spec.user);
}

static void fill_request(struct job *job, struct hotcell_request *q)
{
	const struct spec *spec = &job->spec;

	free(job->inputs);
	job->inputs = xalloc((spec->files_count + 1) * sizeof(*job->inputs));
	for (size_t i = 0; i < spec->files_count; i++)
		job->inputs[i] = (struct hotcell_input){
			.path = spec->files[i].path,
			.host_path = spec->files[i].host_path,
			.data = spec->files[i].data,
			.data_len = spec->files[i].data_len,
		};
	*q = (struct hotcell_request){
		.language = spec->language,
		.code = spec->code,
		.code_len = spec->code_len,
		.entry = spec->entry,
		.inputs = job->inputs,
		.inputs_count = spec->files_count,
		.args = (const char *const *)spec->args,
		.env = (const char *const *)spec->env,
		.stdin_data = spec->stdin_data,
		.stdin_len = spec->stdin_len,
		.isolation = spec->isolation,
		.network = spec->network,
		.limits = job->session ? service_limits_beyond(job->service, &spec->limits) :
					 spec->limits,
		.limits_default = &job->service->limits,
		.max_output = spec->max_output,
		.last_line = spec->last_line,
		.profile = spec->profile,
		.open_file = job_open_file,
		.open_overflow = job_open_overflow,
		.on_output = spec->streams ? job_on_output : NULL,
		.context = job,
	};
}

/* A cell that waits, where there is one for such runs. */
static int take_cell(struct job *job, struct hotcell_request *q, struct hotcell_error *e)
{
	bool once = job->spec.reuse == CONFIG_REUSE_NEVER;
	struct hotcell_plan plan;
	char owner[512];

	if (hotcell_plan(job->engine->hotcell, q, &plan, e))
		return -1;
	/* A compiler and its program have two cells, one after the other. */
	if (plan.compiles)
		return 0;
	if (plan.profile && !plan.is_ready) {
		engine_want(job->engine, plan.language, plan.profile);
		plan.profile = NULL;
		q->cold = 1;
	}
	name_owner(job, owner, sizeof(owner));
	job->cell = pool_take(&job->service->pools, job->engine,
		&(struct pool_wish){
			.language = plan.language,
			.isolation = plan.isolation,
			.profile = plan.profile,
			.network = q->network,
			.limits = q->limits,
			.once = once,
		},
		owner, e);
	if (!job->cell)
		return -1;
	q->cell = job->cell->cell;
	q->cold |= job->cell->is_cold;
	q->cell_ends = !plan.profile || plan.isolation != HOTCELL_ISOLATION_VM;
	q->machine_ends = !q->cell_ends && once;
	return 0;
}

static void give_cell(struct job *job, bool again)
{
	if (job->cell)
		pool_give(take_ptr(&job->cell), again);
}

static void let_go(struct job *job, bool again)
{
	give_cell(job, again);
	if (job->engine)
		engine_release(take_ptr(&job->engine));
	admission_leave(&job->service->admission);
}

static void fail(struct job *job, const struct hotcell_error *e)
{
	job->failure = *e;
	job_finish(job);
	let_go(job, false);
}

static bool uses_pool(const struct job *job)
{
	return !job->session || job->session->config.strategy == SESSION_POOL;
}

static bool try_again(struct job *job, const struct hotcell_error *failure);

void job_start(struct job *job)
{
	struct hotcell_request q;
	struct hotcell_error e = { 0 };

	job_goto(job, JOB_RUNNING);
	if (!job->started_us)
		job->started_us = clock_now_us();
	job->engine = job->session ? session_engine(job->session) : job->service->engines.current;
	engine_hold(job->engine);
	fill_request(job, &q);
	job->references++;
	if (((job->session && session_fill_request(job->session, job, &q, &e)) ||
		    (uses_pool(job) && take_cell(job, &q, &e)) ||
		    engine_run(job->engine, &q, &job->op, &e)) &&
		!try_again(job, &e))
		fail(job, &e);
	job_release(job);
}

/* A cell that was gone before anything began, through no fault of the run's: once more, in another one. */
static bool try_again(struct job *job, const struct hotcell_error *failure)
{
	if (failure->kind != HOTCELL_ERROR_GONE || job->is_again || job->session ||
		job->is_cancelled || !list_is_empty(&job->log))
		return false;
	job->is_again = true;
	give_cell(job, false);
	engine_release(take_ptr(&job->engine));
	job_start(job);
	return true;
}

static void on_done(
	struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure)
{
	struct job *job = container_of(op, struct job, op);

	job->references++;
	job->result = result;
	if (failure && try_again(job, failure)) {
		job_release(job);
		return;
	}
	if (failure) {
		fail(job, failure);
	} else {
		job_goto(job, JOB_STORING);
		job->storing = 1;
		job_store_files(job);
		job_end_storing(job);
		let_go(job, result->reason == HOTCELL_EXITED);
	}
	job_release(job);
}

/* ---- setting it going ---- */

void job_enter(struct job *job)
{
	if (!job_goto(job, JOB_QUEUED))
		return;
	if (job->session)
		session_enter(job->session, job);
	else
		admission_enter(&job->service->admission, job);
}

void job_let_through(struct job *job)
{
	job->references++;
	job_enter(job);
	if (job->state != JOB_DONE)
		list_each(at, next, &job->watches)
		{
			struct job_watch *watch = container_of(at, struct job_watch, link);

			if (watch->on_entered)
				watch->on_entered(watch);
		}
	job_release(job);
}

void job_submit(struct job *job)
{
	job->references++;
	job->submitted_us = clock_now_us();
	job->submitted_s = service_now_s();
	runs_add(&job->service->runs, job);
	if (job->service->is_draining) {
		job_fail(job, 503, HOTCELL_ERROR_UNAVAILABLE, "the service is about to end");
		return;
	}
	if (job->service->config->check[0]) {
		job_goto(job, JOB_CHECKING);
		check_begin(job);
		return;
	}
	job_enter(job);
}

void job_cancel(struct job *job)
{
	job->is_cancelled = true;
	switch (job->state) {
	case JOB_NEW:
	case JOB_CHECKING:
		check_forget(job);
		job_fail(job, 0, HOTCELL_ERROR_GONE, "cancelled");
		break;
	case JOB_QUEUED:
		if (job->session)
			session_forget(job->session, job);
		else
			admission_forget(&job->service->admission, job);
		job_fail(job, 0, HOTCELL_ERROR_GONE, "cancelled before it began");
		break;
	case JOB_RUNNING:
		if (job->is_paused && job->op.work)
			hotcell_pause(job->op.work, 0);
		engine_cancel(&job->op);
		break;
	case JOB_STORING:
	case JOB_DONE:
		break;
	}
}

void job_abandon(struct job *job)
{
	job->references++;
	engine_abandon(&job->op);
	give_cell(job, false);
	if (job->engine)
		engine_release(take_ptr(&job->engine));
	list_each(at, next, &job->watches) list_remove(at);
	session_turn_forget(&job->turn);
	if (job_goto(job, JOB_DONE))
		job_release(job);
	job_release(job); /* NOLINT(clang-analyzer-unix.Malloc): there were two references */
}

void job_interrupt(struct job *job)
{
	if (job->state == JOB_RUNNING && job->op.work)
		hotcell_interrupt(job->op.work);
}

void job_set_session(struct job *job, struct session *session)
{
	session_hold(session);
	job->session = session;
}
