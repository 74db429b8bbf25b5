/* The beginning of a run, from a request to a cell; and what callers see of runs and cells. */
#include "engine/request.h"
#include "engine/snapshot.h"
#include "engine/warm_request.h"

#include "base/own.h"

static int take_compilers_cell(struct hotcell_work *work, struct err *e)
{
	struct link *link = &work->engine->links[work->wish.kind];
	struct cell_wish wish = work->wish;

	if (work->request.cell)
		return err_set(e, ERR_UNAVAILABLE,
			"a language that compiles cannot run in a vm cell that was made before; a container can do it");
	if (staging_add_empty(&work->staging, STAGE_BUILD_DIR, FILE_DIRECTORY, 0755, e))
		return -1;
	wish.kind = ISOLATION_CONTAINER;
	if (work_take_cell(work, &wish, e))
		return -1;
	/* Prepared while the compiler works. */
	return link_start(work->engine, link, false, e) || link_seal(work->engine, link, e) ? -1 :
											      0;
}

/* From here on the cell is somebody's place. */
static void note_session(struct hotcell_work *work)
{
	struct hotcell_cell *cell = work->cell;

	work->continues = cell->session != NULL;
	if (!cell->session) {
		cell->session = work->tool.candidate;
		cell->session_by_driver = work->by_driver;
		cell->driver_limits = cell->limits;
	}
	cell->keeps = true;
}

/* One that could not be made may be gone by now: that is no failure of ours, and the warden tells why. */
static int open_line(struct hotcell_work *work, struct err *e)
{
	if (line_open(work->cell, work->profile, work->snapshot_fd, work_is_machines_last(work),
		    &(struct buf){ 0 }, e) == 0)
		return 0;
	return e->kind == ERR_GONE && !work->cell->made ? 0 : -1;
}

static int begin(struct hotcell_work *work, const struct cell_wish *wish, struct err *e)
{
	work->limits = wish->limits;
	work->wish = *wish;
	work->compiles_apart = wish->kind == ISOLATION_VM && request_compiles(work);
	if (work->compiles_apart ? take_compilers_cell(work, e) : work_take_cell(work, wish, e))
		return -1;
	if (work->profile && open_line(work, e))
		return -1;
	/* Only now: a machine of another profile that waits in the cell may go. */
	if (work->request.keep)
		note_session(work);
	/* Its program begins now, and so does its time. */
	if (work->by_driver && !work->continues && !work->cell->counts_from_ready)
		cell_limit(work->cell, &work->cell->limits);
	work->cell->counts_from_ready = false;
	if ((work->profile || work->by_driver) && warm_request_build(work, e))
		return -1;
	result_begin(work);
	work_enter_cell(work);
	return 0;
}

static bool is_for_machines(const struct hotcell_request *q, enum isolation_kind kind)
{
	return kind == ISOLATION_VM && !q->trace && !q->cold;
}

/* Whether runs like this one come out of a warm machine, and so find nothing of each other. */
static bool may_be_warm(const struct hotcell *h, const struct hotcell_request *q,
	const struct tool *tool, enum isolation_kind kind)
{
	return is_for_machines(q, kind) && snapshot_is_possible(h, tool);
}

/* Which one suits the request, if any can: that of a machine, or of a driver in a container. */
int start_choose_profile(const struct hotcell_request *q, const struct language *language,
	enum isolation_kind kind, const struct profile **ret, struct err *e)
{
	auto_buf struct buf text = { 0 };

	*ret = NULL;
	if (q->profile && kind == ISOLATION_PROCESS)
		return err_set(e, ERR_INPUT,
			"profiles are for vm and container isolation, and this is process isolation");
	/* A name that is wrong is told, also where the program starts cold. */
	if (q->profile && !snapshot_profile(language, q->profile, NULL, 0, e))
		return -1;
	if (kind == ISOLATION_PROCESS || q->trace || q->cold || !snapshot_suits_env(q->env) ||
		!language->profiles_count)
		return 0;
	if (!q->code && !q->profile)
		request_peek(q, &text);
	*ret = snapshot_profile(language, q->profile, q->code ? q->code : text.data,
		q->code ? request_code_length(q) : text.len, e);
	return *ret ? 0 : -1;
}

/* Whether a warm machine is to serve it, and of which profile. One that cannot be made is no reason
 * to fail: the program starts cold then. */
static int choose_warmth(struct hotcell *h, const struct hotcell_request *q,
	const struct tool *tool, enum isolation_kind kind, const struct profile **ret, int *ret_fd,
	struct err *e)
{
	struct err ignored = { 0 };

	*ret_fd = -1;
	if (start_choose_profile(q, tool->language, kind, ret, e))
		return -1;
	if (*ret && kind == ISOLATION_VM && snapshot_is_possible(h, tool))
		*ret_fd = snapshot_get(h, tool, *ret, &ignored);
	if (kind == ISOLATION_VM ? *ret_fd < 0 : !snapshot_is_possible(h, tool))
		*ret = NULL;
	return 0;
}

/* Whether a driver is to serve it. Which modules it has loaded is of no importance: what it has not, the
 * program loads. */
static bool has_driver(const struct hotcell_work *work, const struct cell_wish *wish)
{
	const struct hotcell_request *q = &work->request;

	return q->cell && wish->kind == ISOLATION_CONTAINER && !q->cold &&
	       snapshot_suits_env(q->env) && !tool_compiles(&work->tool) &&
	       driver_is_ready(q->cell, &work->tool) && driver_suits(q->cell, &wish->limits);
}

/* Who is to serve a run of which nothing stays. */
static int choose_server(struct hotcell_work *work, const struct cell_wish *wish)
{
	const struct hotcell_request *q = &work->request;
	bool is_beside = q->cell && q->cell->keeps;

	/* A container's profile is that of the driver which was started when it was made. */
	if (wish->kind != ISOLATION_VM || is_beside)
		work->profile = NULL;
	work->by_driver = !is_beside && has_driver(work, wish);
	work->clears = !is_beside && may_be_warm(work->engine, q, &work->tool, wish->kind);
	return 0;
}

/* And of one whose interpreter stays: the same as the last time; else a machine, if it can be. */
static int choose_keeper(struct hotcell_work *work, const struct cell_wish *wish, struct err *e)
{
	const struct hotcell_request *q = &work->request;
	struct hotcell_cell *cell = q->cell;

	if (!cell)
		return err_set(e, ERR_INPUT, "state is kept only in a cell that was made before");
	line_notice(cell);
	if (driver_check_keep(q, &work->tool, wish, e))
		return -1;
	work->by_driver = cell->session ? cell->session_by_driver :
					  wish->kind != ISOLATION_VM || work->snapshot_fd < 0;
	if (work->by_driver && !cell->session && cell->driver != work->tool.candidate)
		cell->driver_profile = work->profile;
	if (work->by_driver)
		work->profile = NULL;
	else if (cell->session)
		work->profile = cell->warm;
	return 0;
}

/* From the request to a run in a cell of wish.kind. */
int start_set_out(struct hotcell_work *work, struct err *e)
{
	const struct hotcell_request *q = &work->request;
	struct cell_wish wish = { .kind = work->wish.kind };

	if (request_wish(q, &work->tool, &wish, e) ||
		request_stage(q, &work->tool, &work->staging, &work->entry, e) ||
		choose_warmth(work->engine, q, &work->tool, wish.kind, &work->profile,
			&work->snapshot_fd, e))
		return -1;
	if (q->keep ? choose_keeper(work, &wish, e) : choose_server(work, &wish))
		return -1;
	return collect_prepare(work, e) || begin(work, &wish, e) ? -1 : 0;
}

static bool has_last_line(const struct language *l, const struct candidate *c)
{
	return tool_command(&c->last_line, &l->last_line)->count > 0;
}

/* Where another program of the language could do it, it is told which one was found instead. */
static int check_last_line(const struct tool *tool, struct err *e)
{
	const struct language *l = tool->language;
	bool another_can = false;

	if (has_last_line(l, tool->candidate))
		return 0;
	for (unsigned i = 0; i < l->find_count; i++)
		another_can |= has_last_line(l, &l->find[i]);
	return err_set(e, ERR_UNAVAILABLE, "%s cannot echo the value of a last line%s%s", l->name,
		another_can ? " with " : "", another_can ? tool->program : "");
}

int hotcell_start(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_work **ret, struct hotcell_error *error)
{
	struct hotcell_work *work = work_new(h, request);
	struct err e = { 0 };
	const struct language *language = request_language(h, request, &e);

	if (!language ||
		request_isolation(
			h, request, language, &work->wish.kind, work->why, sizeof(work->why), &e) ||
		tool_find(h, language, false, work->wish.kind, &work->tool, &e))
		goto failed;
	if ((request->last_line && check_last_line(&work->tool, &e)) || start_set_out(work, &e))
		goto failed;
	*ret = work;
	return 0;
failed:
	work_free(work);
	error_out(error, &e);
	return -1;
}

int hotcell_done(const struct hotcell_work *work)
{
	return work->step == WORK_DONE;
}

int hotcell_finish(
	struct hotcell_work *work, struct hotcell_result **ret, struct hotcell_error *error)
{
	struct err e = work->failure;

	if (e.kind == ERR_NONE)
		*ret = take_ptr(&work->result);
	else
		error_out(error, &e);
	work_free(work);
	return e.kind == ERR_NONE ? 0 : -1;
}

static int wait_for(
	struct hotcell_work *work, struct hotcell_result **ret, struct hotcell_error *error)
{
	while (!hotcell_done(work))
		if (hotcell_dispatch(work->engine, -1, error)) {
			work_free(work);
			return -1;
		}
	return hotcell_finish(work, ret, error);
}

int hotcell_run(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_result **ret, struct hotcell_error *error)
{
	struct hotcell_work *work;

	if (hotcell_start(h, request, &work, error))
		return -1;
	return wait_for(work, ret, error);
}

/* Whether runs of this kind will have use for a driver that waits. */
static bool wants_driver(const struct hotcell *h, const struct hotcell_request *q,
	const struct tool *tool, const struct profile *profile)
{
	if (tool->language->keeps_state == LANGUAGE_KEEPS_ONLY)
		return q->keep && driver_is_possible(h, tool);
	return profile != NULL;
}

int hotcell_cell_make(struct hotcell *h, const struct hotcell_request *request,
	struct hotcell_cell **ret, struct hotcell_error *error)
{
	struct err e = { 0 };
	const struct language *language = request_language(h, request, &e);
	struct cell_wish wish;
	struct tool tool = { 0 };
	const struct profile *profile = NULL;
	auto_buf struct buf rehearsal = { 0 };
	char why[160];
	int fd;
	int failed = !language ||
		     request_isolation(h, request, language, &wish.kind, why, sizeof(why), &e) ||
		     tool_find(h, language, false, wish.kind, &tool, &e);

	/* A compiler and its program would need two cells. */
	if (!failed && request->isolation == HOTCELL_ISOLATION_AUTO && tool_compiles(&tool))
		wish.kind = ISOLATION_CONTAINER;
	failed = failed || request_wish(request, &tool, &wish, &e) ||
		 choose_warmth(h, request, &tool, wish.kind, &profile, &fd, &e) ||
		 cell_make(h, &wish, ret, &e);
	if (!failed && wish.kind == ISOLATION_CONTAINER &&
		wants_driver(h, request, &tool, profile)) {
		failed = driver_open(*ret, &tool, profile, &e);
	} else if (!failed && profile) {
		snapshot_serve_many(h, fd);
		warm_request_rehearsal(language, &rehearsal);
		failed = line_open(*ret, profile, fd, request->cell_ends || request->machine_ends,
			&rehearsal, &e);
		/* It could not be made, and was quick: the warden tells why. */
		if (failed && e.kind == ERR_GONE)
			failed = 0;
	}

	tool_free(&tool);
	if (failed)
		error_out(error, &e);
	return failed ? -1 : 0;
}

void hotcell_cell_free(struct hotcell_cell *cell)
{
	if (!cell)
		return;
	if (cell->work) {
		err_set(&cell->work->failure, ERR_GONE, "its cell was taken away");
		work_finish(cell->work);
	}
	cell_drop(cell);
}

int start_raw(struct hotcell *h, const struct tool *tool, const struct raw *raw,
	struct hotcell_work **ret, struct err *e)
{
	bool warms = raw->snapshot_fd >= 0;
	struct hotcell_request request = { .limits = { .wall_ms = warms ? 120000 : 20000,
						   .cpu_ms = warms ? 120000 : 0 } };
	struct hotcell_work *work = work_new(h, &request);
	struct cell_wish wish = { .kind = raw->kind };

	work->tool.language = tool->language;
	work->tool.candidate = tool->candidate;
	work->raw_argv = raw->argv;
	work->snapshot_fd = raw->snapshot_fd;
	if (request_wish(&request, tool, &wish, e) || begin(work, &wish, e)) {
		work_free(work);
		return -1;
	}
	*ret = work;
	return 0;
}
