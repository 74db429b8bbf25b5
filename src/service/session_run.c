/* Where a session's runs happen, and what is done around them. */
#include "service/session_inner.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "base/path.h"
#include "service/job.h"
#include "service/mirror.h"
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

char *session_mirrors_dir(const struct service *s)
{
	return path_join(s->config->state_dir, "sessions");
}

/* ---- its cells ---- */

static void note_cell(struct session *session, const char *isolation)
{
	struct session_cell *c = &session->cells[session->cells_count++ % SESSION_CELLS_MAX];

	*c = (struct session_cell){ .isolation = isolation, .created_s = service_now_s() };
}

static struct session_cell *last_cell(struct session *session)
{
	return session->cells_count ? &session->cells[(session->cells_count - 1) % SESSION_CELLS_MAX] : NULL;
}

void session_note_cell_end(struct session *session, const char *why)
{
	struct session_cell *c = last_cell(session);

	if (!c || c->ended_s > 0)
		return;
	c->ended_s = service_now_s();
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static int make_cell(struct session *session, struct hotcell_cell **ret, struct hotcell_error *e)
{
	const struct session_config *c = &session->config;
	struct hotcell_request q = {
		.language = c->language,
		.code = "",
		.isolation = c->isolation,
		.network = c->network,
		.limits = c->limits,
		.profile = c->profile,
		.env = (const char *const *)c->env,
		.keep = session->keeps_state,
		.cold = c->strategy != SESSION_PER_SESSION,
	};

	if (hotcell_cell_make(session->engine->hotcell, &q, ret, e))
		return -1;
	note_cell(session, hotcell_cell_isolation(*ret));
	return 0;
}

static void fail(struct hotcell_error *ret, const struct err *e)
{
	ret->kind = (enum hotcell_error_kind)e->kind;
	snprintf(ret->text, sizeof(ret->text), "%s", e->text);
}

int session_make_place(struct session *session, struct hotcell_error *error)
{
	const struct session_config *c = &session->config;
	const struct hotcell_language *language = engine_language(session->engine, c->language);
	auto_free char *dir = session_mirrors_dir(session->service);
	struct err e = { 0 };

	if (c->strategy == SESSION_PER_SESSION) {
		session->keeps_state = language && language->keeps_state;
		return make_cell(session, &session->cell, error);
	}
	if (mirror_open(dir, session->id, c->limits.disk_bytes, &session->mirror, &e) == 0)
		return 0;
	fail(error, &e);
	return -1;
}

/* ---- the files that it begins with ---- */

static void on_put(struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure)
{
	struct session *session = container_of(op, struct session, op);

	hotcell_result_free(result);
	free(take_ptr(&session->inputs));
	session_files_are_put(session, failure);
}

static void fill_inputs(struct session *session)
{
	const struct session_config *c = &session->config;

	session->inputs = xalloc((c->files_count + 1) * sizeof(*session->inputs));
	for (size_t i = 0; i < c->files_count; i++)
		session->inputs[i] = (struct hotcell_input){
			.path = c->files[i].path,
			.host_path = c->files[i].host_path,
			.data = c->files[i].data,
			.data_len = c->files[i].data_len,
		};
}

static void put_in_cell(struct session *session)
{
	struct hotcell_files what = { .kind = HOTCELL_FILES_PUT, .inputs_count = session->config.files_count };
	struct hotcell_error e;

	fill_inputs(session);
	what.inputs = session->inputs;
	session->op.on_done = on_put;
	if (engine_files(session->engine, session->cell, &what, &session->op, &e))
		session_files_are_put(session, &e);
}

static int copy_to_mirror(struct mirror *m, const struct spec_file *file, struct err *e)
{
	auto_close int from = open(file->host_path, O_RDONLY | O_CLOEXEC);
	auto_close int to = from < 0 ? -1 : mirror_open_blob(m, e);
	ssize_t n;

	if (from < 0)
		return err_sys(e, "open '%s'", file->path);
	if (to < 0)
		return -1;
	do
		n = copy_file_range(from, NULL, to, NULL, 1 << 24, 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return err_sys(e, "copy '%s'", file->path);
	return mirror_put(m, file->path, take_fd(&to), false, e);
}

static void put_in_mirror(struct session *session)
{
	const struct session_config *c = &session->config;
	struct hotcell_error error;
	struct err e = { 0 };
	int failed = 0;

	for (size_t i = 0; !failed && i < c->files_count; i++)
		failed = c->files[i].host_path ?
				 copy_to_mirror(session->mirror, &c->files[i], &e) :
				 mirror_put_data(session->mirror, c->files[i].path, c->files[i].data,
					 c->files[i].data_len, &e);
	if (failed)
		fail(&error, &e);
	session_files_are_put(session, failed ? &error : NULL);
}

void session_put_files(struct session *session)
{
	if (session->mirror)
		put_in_mirror(session);
	else if (session->config.files_count)
		put_in_cell(session);
	else
		session_files_are_put(session, NULL);
}

/* ---- runs ---- */

static void on_job_turn(struct session_turn *turn, const char *gone)
{
	struct job *job = container_of(turn, struct job, turn);

	if (gone) {
		job_fail(job, 404, HOTCELL_ERROR_NOT_FOUND, "Session '%s' not found: %s", turn->session->id, gone);
		return;
	}
	turn->session->job = job;
	admission_enter(&job->service->admission, job);
}

void session_enter(struct session *session, struct job *job)
{
	job->turn.on_turn = on_job_turn;
	session_wait(session, &job->turn);
}

void session_forget(struct session *session, struct job *job)
{
	if (session->turn == &job->turn)
		admission_forget(&job->service->admission, job);
	else
		session_turn_forget(&job->turn);
}

struct engine *session_engine(struct session *session)
{
	return session->engine;
}

/* The session's settings, and behind them the run's, which win. */
static void join_env(const struct session *session, struct job *job, struct hotcell_request *q)
{
	char **of_session = session->config.env;
	char **of_run = job->spec.env;
	size_t count = 0;
	size_t first = 0;

	if (!of_session)
		return;
	while (of_session[first])
		first++;
	for (count = 0; of_run && of_run[count]; count++)
		;
	job->spec.env = xalloc((first + count + 1) * sizeof(char *));
	for (size_t i = 0; i < first; i++)
		job->spec.env[i] = xstrdup(of_session[i]);
	for (size_t i = 0; i < count; i++)
		job->spec.env[first + i] = of_run[i];
	free(of_run);
	q->env = (const char *const *)job->spec.env;
}

/* What the cell has; only time is the run's own. */
static void set_limits(const struct session *session, const struct job *job, struct hotcell_request *q)
{
	q->limits = session->config.limits;
	q->limits.wall_ms = job->spec.limits.wall_ms;
	q->limits.cpu_ms = job->spec.limits.cpu_ms;
	q->limits.output_bytes = job->spec.limits.output_bytes;
	q->network = session->config.network;
}

static bool replaces(const struct job *job, const char *path)
{
	for (size_t i = 0; i < job->spec.files_count; i++)
		if (strcmp(job->spec.files[i].path, path) == 0)
			return true;
	return job->spec.entry && strcmp(job->spec.entry, path) == 0;
}

/* The session's files beneath the run's own. */
static void stage_mirror(struct session *session, struct job *job, struct hotcell_request *q)
{
	struct mirror_file *files;
	size_t count;
	size_t used = job->spec.files_count;

	mirror_list(session->mirror, &files, &count);
	job->inputs = xgrow(job->inputs, (used + count + 1) * sizeof(*job->inputs));
	job->staged = xalloc((2 * count + 1) * sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		if (files[i].is_directory || replaces(job, files[i].path))
			continue;
		job->staged[2 * i] = take_ptr(&files[i].path);
		job->staged[2 * i + 1] = path_join(mirror_path(session->mirror), job->staged[2 * i]);
		job->inputs[used++] = (struct hotcell_input){
			.path = job->staged[2 * i],
			.host_path = job->staged[2 * i + 1],
		};
	}
	job->staged_count = 2 * count;
	mirror_files_free(files, count);
	q->inputs = job->inputs;
	q->inputs_count = used;
}

/* Its own cell, so that it can be looked into afterwards. */
static int use_new_cell(struct session *session, struct hotcell_request *q, struct hotcell_error *e)
{
	if (make_cell(session, &session->cell, e))
		return -1;
	q->cell = session->cell;
	return 0;
}

int session_fill_request(
	struct session *session, struct job *job, struct hotcell_request *q, struct hotcell_error *e)
{
	const struct session_config *c = &session->config;
	bool same_language = strcmp(q->language, c->language) == 0;

	join_env(session, job, q);
	set_limits(session, job, q);
	q->isolation = c->isolation;
	if (!q->profile)
		q->profile = same_language ? c->profile : NULL;
	if (c->strategy == SESSION_PER_SESSION) {
		q->isolation = HOTCELL_ISOLATION_AUTO; /* the cell's */
		q->cell = session->cell;
		q->keep = session->keeps_state && same_language;
		q->open_file = NULL;
		return 0;
	}
	stage_mirror(session, job, q);
	return c->strategy == SESSION_PER_EXECUTION && c->is_shared ? use_new_cell(session, q, e) : 0;
}

/* ---- after a run ---- */

/* Whether it was so after an earlier run already. */
static bool is_known(struct session *session, const struct hotcell_file *file)
{
	char *state = xasprintf("%llu %llu", (unsigned long long)file->size_bytes,
		(unsigned long long)file->changed_ns);
	char *before = map_put(&session->known_files, file->path, state);
	bool is_same = before && strcmp(before, state) == 0;

	free(before);
	return is_same;
}

/* A cell that is kept has its files; all that is told of them are the names of those that are new. */
static void list_files(struct session *session, struct job *job)
{
	const struct hotcell_result *r = job->result;

	if (!r || job->files_count)
		return;
	job->files = xalloc((r->files_count + 1) * sizeof(*job->files));
	for (size_t i = 0; i < r->files_count; i++) {
		if (is_known(session, &r->files[i]))
			continue;
		job->files[job->files_count++] = (struct job_file){
			.path = xstrdup(r->files[i].path),
			.kind = r->files[i].kind,
			.size_bytes = r->files[i].size_bytes,
			.blob_fd = -1,
		};
	}
}

/* What a run has made goes where the next one finds it. */
static void take_files(struct session *session, struct job *job)
{
	for (size_t i = 0; i < job->files_count; i++) {
		struct job_file *f = &job->files[i];
		struct err e = { 0 };

		if (f->blob_fd < 0 || f->error)
			continue;
		if (mirror_put(session->mirror, f->path, take_fd(&f->blob_fd), true, &e))
			f->error = e.sys_errno ? e.sys_errno : ENOSPC;
	}
}

bool session_takes_files(struct session *session, struct job *job)
{
	const struct session_config *c = &session->config;

	if (c->strategy == SESSION_PER_SESSION) {
		list_files(session, job);
		return true;
	}
	if (c->strategy != SESSION_PER_EXECUTION || !c->is_shared)
		return false;
	take_files(session, job);
	return true;
}

static bool is_among(const struct hotcell_result *r, const char *path)
{
	for (size_t i = 0; i < r->files_count; i++)
		if (strcmp(r->files[i].path, path) == 0)
			return true;
	return false;
}

static void drop_run_cell(struct session *session)
{
	session_note_cell_end(session, "its run is over");
	hotcell_cell_free(take_ptr(&session->cell));
}

/* What a run has removed is gone for the next one too. */
static void on_listed(struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure)
{
	struct session *session = container_of(op, struct session, op);
	struct mirror_file *files = NULL;
	size_t count = 0;
	struct err ignored;

	if (!failure && !result->files_incomplete)
		mirror_list(session->mirror, &files, &count);
	for (size_t i = 0; i < count; i++)
		if (!files[i].is_directory && !is_among(result, files[i].path))
			mirror_remove(session->mirror, files[i].path, &ignored);
	mirror_files_free(files, count);
	hotcell_result_free(result);
	drop_run_cell(session);
	session_turn_end(session->turn);
	session_release(session);
}

static void on_emptied(struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure)
{
	struct session *session = container_of(op, struct session, op);

	hotcell_result_free(result);
	free(take_ptr(&session->inputs));
	if (failure)
		session_end(session, failure->text);
	session_turn_end(session->turn);
	session_release(session);
}

static void on_cleared(struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure)
{
	struct session *session = container_of(op, struct session, op);
	struct hotcell_files what = { .kind = HOTCELL_FILES_PUT, .inputs_count = session->config.files_count };
	struct hotcell_error e;

	hotcell_result_free(result);
	fill_inputs(session);
	what.inputs = session->inputs;
	op->on_done = on_emptied;
	if (failure || engine_files(session->engine, session->cell, &what, op, &e))
		on_emptied(op, NULL, failure ? failure : &e);
}

/* Something is left to do before the next one's turn: true if it has begun. */
static bool tidy(struct session *session)
{
	const struct session_config *c = &session->config;
	bool clears = c->strategy == SESSION_PER_SESSION && !c->is_shared;
	struct hotcell_files what = { .kind = clears ? HOTCELL_FILES_CLEAR : HOTCELL_FILES_LIST };
	struct hotcell_error e;

	if (session->has_ended || !session->cell || (!clears && c->strategy != SESSION_PER_EXECUTION) ||
		hotcell_cell_state(session->cell) == HOTCELL_CELL_GONE)
		return false;
	session->op.on_done = clears ? on_cleared : on_listed;
	if (engine_files(session->engine, session->cell, &what, &session->op, &e))
		return false;
	session_hold(session);
	return true;
}

static void note_run(struct session *session, const struct job *job)
{
	struct session_cell *c = last_cell(session);

	session->runs++;
	session->last_used_s = service_now_s();
	if (c && session->cell)
		c->runs++;
	if (job->result)
		session->has_state = job->result->state == HOTCELL_STATE_KEPT;
}

void session_run_ended(struct session *session, struct job *job)
{
	bool had_turn = session->turn == &job->turn;

	session_hold(session);
	if (session->job == job)
		session->job = NULL;
	if (job->started_us)
		note_run(session, job);
	if (session->cell && hotcell_cell_state(session->cell) == HOTCELL_CELL_GONE) {
		if (session->config.strategy == SESSION_PER_SESSION)
			session_end(session, hotcell_cell_failure(session->cell));
		else
			drop_run_cell(session);
	}
	if (had_turn && job->started_us && tidy(session)) {
		/* The job may be gone before that is done: the turn is the session's own. */
		session->turn = &session->own_turn;
		session->own_turn.session = session;
	} else if (had_turn) {
		if (session->cell && session->config.strategy != SESSION_PER_SESSION)
			drop_run_cell(session);
		session_turn_end(&job->turn);
	} else {
		session_turn_forget(&job->turn);
	}
	session_release(session);
}
