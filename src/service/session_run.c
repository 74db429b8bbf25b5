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
#include <string.h>
#include <sys/stat.h>

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
	return session->cells_count ?
		       &session->cells[(session->cells_count - 1) % SESSION_CELLS_MAX] :
		       NULL;
}

void session_note_cell_end(struct session *session, const char *why)
{
	struct session_cell *c = last_cell(session);

	if (!c || c->ended_s > 0)
		return;
	c->ended_s = service_now_s();
	snprintf(c->why, sizeof(c->why), "%s", why);
}

/* Cold, unless the interpreter in it is to be kept: what comes out of a warm machine is cleared behind each run. */
static int make_cell(struct session *session, const char *language, struct err *e)
{
	const struct session_config *c = &session->config;
	struct hotcell_request q = {
		.language = language,
		.code = "",
		.isolation = c->isolation,
		.network = c->network,
		.limits = service_limits_beyond(session->service, &c->limits),
		.limits_default = &session->service->limits,
		.mounts = c->mounts,
		.mounts_count = c->mounts_count,
		.profile = session->keeps_state ? c->profile : NULL,
		.env = (const char *const *)c->env,
		.keep = session->keeps_state,
		.cold = !session->keeps_state,
	};
	struct hotcell_error error;

	if (hotcell_cell_make(session->engine->hotcell, &q, &session->cell, &error))
		return err_set(e, (enum err_kind)error.kind, "%s", error.text);
	note_cell(session, hotcell_cell_isolation(session->cell));
	return 0;
}

/* Whether there can be runs in it at all, before anybody relies on it. A compiler has no vm of its own: where it is
 * left to us, it and its programs have a container. */
static int check_plan(struct session *session, struct err *e)
{
	struct session_config *c = &session->config;
	struct hotcell_request q = {
		.language = c->language,
		.code = "",
		.isolation = c->isolation,
		.network = c->network,
		.profile = c->profile,
	};
	struct hotcell_plan plan;
	struct hotcell_error error;

	if (hotcell_plan(session->engine->hotcell, &q, &plan, &error))
		return err_set(e, (enum err_kind)error.kind, "%s", error.text);
	if (!plan.compiles || c->strategy != SESSION_PER_SESSION)
		return 0;
	if (c->isolation == HOTCELL_ISOLATION_VM)
		return err_set(e, ERR_INPUT,
			"%s is compiled, which no vm can do that is kept: want isolation container, or strategy per_execution",
			c->language);
	if (c->isolation == HOTCELL_ISOLATION_AUTO)
		c->isolation = HOTCELL_ISOLATION_CONTAINER;
	return 0;
}

/* The service has seen that there are no vms, but not why, which a warden tells. */
static bool lacks_vms(const struct session *session)
{
	return session->config.isolation == HOTCELL_ISOLATION_VM && !session->service->has_kvm;
}

bool session_depends_on_cell(const struct session *session)
{
	return session->cell && (session->config.mounts_count || lacks_vms(session));
}

int session_make_place(struct session *session, struct err *e)
{
	const struct session_config *c = &session->config;
	const struct hotcell_language *language = engine_language(session->engine, c->language);
	auto_free char *dir = session_mirrors_dir(session->service);
	bool keeps_cell = c->strategy == SESSION_PER_SESSION;

	if (check_plan(session, e))
		return -1;
	session->keeps_state = keeps_cell && language && language->keeps_state;
	if ((keeps_cell || lacks_vms(session)) && make_cell(session, c->language, e))
		return -1;
	if (keeps_cell && c->is_shared)
		return 0;
	return mirror_open(dir, session->id, c->limits.disk_bytes, &session->mirror, e);
}

void session_drop_place(struct session *session)
{
	list_remove(&session->link);
	if (session->cell)
		hotcell_cell_free(take_ptr(&session->cell));
	mirror_drop(take_ptr(&session->mirror), session->service->loop);
	if (session->engine)
		engine_release(take_ptr(&session->engine));
}

static void session_free(struct session *session)
{
	session_drop_place(session);
	free(session->inputs);
	session_config_free(&session->config);
	free(session);
}

void session_hold(struct session *session)
{
	session->references++;
}

void session_release(struct session *session)
{
	if (--session->references == 0)
		session_free(session);
}

/* ---- runs ---- */

static void on_job_turn(struct session_turn *turn, const char *gone)
{
	struct job *job = container_of(turn, struct job, turn);

	if (gone) {
		job_fail(job, 404, HOTCELL_ERROR_NOT_FOUND, "Session '%s' not found: %s",
			job->session->id, gone);
		return;
	}
	turn->session->job = job;
	admission_enter(&job->service->admission, job);
}

void session_enter(struct session *session, struct job *job)
{
	if (session_is_crowded(session)) {
		job_fail(job, 429, HOTCELL_ERROR_LIMIT,
			"%u wait for session '%s' already; try again later", session->turns_count,
			session->id);
		return;
	}
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

static bool replaces(const struct job *job, const char *path)
{
	for (size_t i = 0; i < job->spec.files_count; i++)
		if (strcmp(job->spec.files[i].path, path) == 0)
			return true;
	return job->spec.code && job->spec.entry && strcmp(job->spec.entry, path) == 0;
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
		char *path = files[i].path;

		/* One that has something in it is made with that. */
		if (files[i].is_directory ? !mirror_is_empty(session->mirror, path) :
					    replaces(job, path))
			continue;
		job->staged[2 * i] = take_ptr(&files[i].path);
		if (files[i].target) {
			job->staged[2 * i + 1] = take_ptr(&files[i].target);
			job->inputs[used++] = (struct hotcell_input){ .path = path,
				.target = job->staged[2 * i + 1] };
			continue;
		}
		job->staged[2 * i + 1] = path_join(mirror_path(session->mirror), path);
		job->inputs[used++] =
			(struct hotcell_input){ .path = path, .host_path = job->staged[2 * i + 1] };
	}
	job->staged_count = 2 * count;
	mirror_files_free(files, count);
	q->inputs = job->inputs;
	q->inputs_count = used;
}

/* A cell of the session's, so that it can be looked into afterwards. A compiler and its program may have two, one
 * after the other: those are the engine's, and what the program has removed is not seen then. */
static int use_new_cell(struct session *session, struct hotcell_request *q, struct err *e)
{
	struct hotcell_plan plan;
	struct hotcell_error error;

	if (hotcell_plan(session->engine->hotcell, q, &plan, &error))
		return err_set(e, (enum err_kind)error.kind, "%s", error.text);
	if (plan.compiles)
		return 0;
	if (make_cell(session, q->language, e))
		return -1;
	q->cell = session->cell;
	q->cold = true;
	return 0;
}

static void use_kept_cell(struct session *session, struct hotcell_request *q)
{
	bool same_language = strcmp(q->language, session->config.language) == 0;

	q->cell = session->cell;
	q->isolation = HOTCELL_ISOLATION_AUTO; /* the cell's */
	q->keep = session->keeps_state && same_language;
	q->cold = !q->keep;
	if (q->cold)
		q->profile = NULL;
}

int session_fill_request(struct session *session, struct job *job, struct hotcell_request *q,
	struct hotcell_error *error)
{
	const struct session_config *c = &session->config;
	struct err e = { 0 };

	join_env(session, job, q);
	q->mounts = c->mounts;
	q->mounts_count = c->mounts_count;
	if (!q->profile && strcmp(q->language, c->language) == 0)
		q->profile = c->profile;
	if (session->mirror)
		stage_mirror(session, job, q);
	else
		q->open_file = NULL; /* what it leaves, stays */
	q->entry_is_there = !session->mirror;
	if (c->strategy == SESSION_PER_SESSION)
		use_kept_cell(session, q);
	else if (c->strategy == SESSION_PER_EXECUTION && c->is_shared &&
		 use_new_cell(session, q, &e)) {
		error->kind = (enum hotcell_error_kind)e.kind;
		snprintf(error->text, sizeof(error->text), "%s", e.text);
		return -1;
	}
	return 0;
}

/* ---- after a run ---- */

/* A cell that is kept has its files; all that is told of them are the names of those that are new. */
static void list_files(struct job *job)
{
	const struct hotcell_result *r = job->result;

	if (!r || job->files_count)
		return;
	job->files = xalloc((r->files_count + 1) * sizeof(*job->files));
	for (size_t i = 0; i < r->files_count; i++)
		job->files[job->files_count++] = (struct job_file){
			.path = xstrdup(r->files[i].path),
			.kind = r->files[i].kind,
			.size_bytes = r->files[i].size_bytes,
			.blob_fd = -1,
		};
}

static int take_file(struct mirror *m, struct job_file *f, struct err *e)
{
	bool is_directory = strcmp(f->kind, "directory") == 0;

	mirror_make_way(m, f->path, is_directory);
	if (is_directory)
		return mirror_make_dir(m, f->path, true, e);
	if (f->target)
		return *f->target ? mirror_put_link(m, f->path, f->target, true, e) : 0;
	if (f->blob_fd < 0 || f->error)
		return 0;
	if (fchmod(f->blob_fd, f->mode | 0600))
		return err_sys(e, "set the mode of '%s'", f->path);
	return mirror_put(m, f->path, take_fd(&f->blob_fd), true, e);
}

/* What a run has made goes where the next one finds it. */
static void take_files(struct session *session, struct job *job)
{
	for (size_t i = 0; i < job->files_count; i++) {
		struct job_file *f = &job->files[i];
		struct err e = { 0 };

		if (take_file(session->mirror, f, &e))
			f->error = e.sys_errno ? e.sys_errno : ENOSPC;
	}
}

bool session_takes_files(struct session *session, struct job *job)
{
	if (!session->config.is_shared)
		return false;
	if (session->mirror)
		take_files(session, job);
	else
		list_files(job);
	return true;
}

/* Something that is done with a cell's files after a run. */
struct task {
	enum hotcell_files_kind kind;
	void (*on_files)(
		struct session_turn *turn, struct session_found *found, const struct err *failure);
};

void session_drop_brief_cell(struct session *session, const char *why)
{
	if (!session->cell || session->config.strategy == SESSION_PER_SESSION)
		return;
	session_note_cell_end(session, why);
	hotcell_cell_free(take_ptr(&session->cell));
}

static void remove_missing(struct mirror *m, const struct session_found *found)
{
	struct mirror_file *files;
	struct map there = { 0 };
	size_t count;
	struct err ignored;

	for (size_t i = 0; i < found->count; i++)
		map_put(&there, found->files[i].path, &found->files[i]);
	mirror_list(m, &files, &count);
	/* Beginning with the last one: directories are behind what is in them. */
	for (size_t i = count; i > 0; i--)
		if (!map_get(&there, files[i - 1].path))
			mirror_remove(m, files[i - 1].path, &ignored);
	mirror_files_free(files, count);
	map_free(&there);
}

/* What a run has removed is gone for the next one too. */
static void on_listed(
	struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	struct session *session = turn->session;

	if (!failure && !found->is_incomplete && session->mirror)
		remove_missing(session->mirror, found);
	session_found_free(found);
	session_drop_brief_cell(session, "its run is over");
	session_turn_end(turn);
}

/* A cell that cannot be cleared would show one run's files to the next. */
static void on_cleared(
	struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	session_found_free(found);
	if (failure)
		session_end(turn->session, failure->text);
	session_turn_end(turn);
}

static void on_removed(
	struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	(void)failure;
	session_found_free(found);
	session_turn_end(turn);
}

/* What is left to do before the next one's turn; NULL: nothing. */
static const struct task *find_task(const struct session *session, const struct job *job)
{
	static const struct task clear = { HOTCELL_FILES_CLEAR, on_cleared };
	static const struct task list = { HOTCELL_FILES_LIST, on_listed };
	static const struct task remove = { HOTCELL_FILES_REMOVE, on_removed };

	if (session->has_ended || !session->cell)
		return NULL;
	/* Where nothing ran there may be less than was to be there. */
	if (session->config.strategy == SESSION_PER_EXECUTION)
		return job->result && job->result->has_exited ? &list : NULL;
	if (session->mirror)
		return &clear;
	/* The code was a file only so that it could be run. */
	return job->result && job->result->code_file ? &remove : NULL;
}

/* False: there is nothing to do. */
static bool tidy(struct session *session, struct job *job)
{
	const struct task *task = job->started_us ? find_task(session, job) : NULL;

	if (!task)
		return false;
	/* The job may be gone before that is done: its turn is the session's own from now on. */
	session->turn = &session->own_turn;
	session->own_turn.session = session;
	job->turn.session = NULL;
	session->own_turn.on_files = task->on_files;
	session_files_in_cell(
		&session->own_turn, &(struct hotcell_files){
					    .kind = task->kind,
					    .path = job->result ? job->result->code_file : NULL,
					    /* Where nothing ran, it may never have come to be. */
					    .only_code = job->result && !job->result->has_exited,
				    });
	return true;
}

static void note_run(struct session *session, const struct job *job)
{
	session->runs++;
	session->last_used_s = service_now_s();
	/* One of a pool, or of the engine's. */
	if (!session->cell && job->result) {
		note_cell(session, job->result->isolation);
		last_cell(session)->created_s =
			session->last_used_s - (double)job->result->duration_us / 1e6;
		session_note_cell_end(session, "its run is over");
	}
	if (session->cells_count)
		last_cell(session)->runs++;
	/* A shell command beside the interpreter tells nothing of that one. */
	if (job->result && job->result->state != HOTCELL_STATE_NONE)
		session->has_state = job->result->state == HOTCELL_STATE_KEPT;
}

static void look_after_cell(struct session *session)
{
	if (!session->cell || hotcell_cell_state(session->cell) != HOTCELL_CELL_GONE)
		return;
	if (session->config.strategy == SESSION_PER_SESSION)
		session_end(session, hotcell_cell_failure(session->cell));
	else
		session_drop_brief_cell(session, "its run is over");
}

void session_run_ended(struct session *session, struct job *job)
{
	bool had_turn = session->turn == &job->turn;

	session_hold(session);
	if (session->job == job)
		session->job = NULL;
	if (had_turn && job->started_us)
		note_run(session, job);
	if (had_turn)
		look_after_cell(session);
	if (had_turn && !tidy(session, job))
		session_drop_brief_cell(session, "its run is over");
	session_turn_forget(&job->turn);
	session_release(session);
}
