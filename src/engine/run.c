#include "engine/request.h"
#include "engine/snapshot.h"

#include "base/own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OUTPUT_DEFAULT = 1000000, BACKSTOP_MS = 5000, CANCEL_REPEAT_MS = 50, CANCEL_TRIES = 60 };

#define TO(step) (1U << WORK_##step)

static const unsigned may_go[] = {
	[WORK_MAKING] = TO(STAGING) | TO(DONE),
	[WORK_STAGING] = TO(COMPILING) | TO(RUNNING) | TO(DONE),
	[WORK_COMPILING] = TO(RUNNING) | TO(CARRYING) | TO(SETTLING) | TO(DONE),
	[WORK_CARRYING] = TO(MAKING) | TO(DONE),
	[WORK_RUNNING] = TO(MAKING) | TO(SETTLING) | TO(DONE),
	[WORK_SETTLING] = TO(GETTING) | TO(DONE),
	[WORK_GETTING] = TO(DONE),
	[WORK_DONE] = 0,
};

void work_goto(struct hotcell_work *work, enum work_step step)
{
	if (!(may_go[work->step] & (1U << step)))
		return; /* a frame that comes too late to matter */
	work->step = step;
}

static void set_timer(struct hotcell_work *work, uint64_t ms)
{
	timer_start(work->engine, &work->timer, ms);
}

static void let_go(struct hotcell_work *work)
{
	stage_stdin_end(work);
	timer_stop(work->engine, &work->timer);
	own_close(&work->stage_fd);
	own_close(&work->get_fd);
	own_close(&work->out_dir_fd);
	work->stage_fd = work->get_fd = work->out_dir_fd = -1;
}

/* The machine ended with its run: another one gets ready before anybody waits for it. */
static void warm_again(const struct hotcell_work *work)
{
	auto_buf struct buf rehearsal = { 0 };
	struct err ignored = { 0 };

	if (!work->profile || work->request.cell_ends || work->cell->warm)
		return;
	request_rehearsal(work->tool.language, &rehearsal);
	cell_warm(work->cell, work->profile, work->snapshot_fd, &rehearsal, &ignored);
}

static void leave_cell(struct hotcell_work *work)
{
	if (!work->cell)
		return;
	work->cell->work = NULL;
	if (work->owns_cell) {
		cell_drop(work->cell);
	} else if (work->clears && !work->cell->gone) {
		/* What one run left, another one's must not find. */
		put_bare(&work->engine->out, CELL_CLEAR);
		cell_send(work->cell);
		warm_again(work);
	} else {
		work->cell->has_leftovers = true;
	}
	work->cell = NULL;
}

static void finish(struct hotcell_work *work)
{
	if (work->step == WORK_DONE)
		return;
	work->step = WORK_DONE;
	let_go(work);
	if (work->failure.kind == ERR_NONE)
		result_complete(work);
	leave_cell(work);
}

void work_fail(struct hotcell_work *work, const struct err *e)
{
	if (work->failure.kind == ERR_NONE)
		work->failure = *e;
	finish(work);
}

void work_free(struct hotcell_work *work)
{
	if (!work)
		return;
	let_go(work);
	leave_cell(work);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			buf_free(&work->out[i][k].bytes);
	buf_free(&work->carried);
	buf_free(&work->warm_request);
	free(work->stdin_kept);
	free(work->entry);
	staging_free(&work->staging);
	tool_free(&work->tool);
	hotcell_result_free(work->result);
	free(work);
}

/* ---- steps ---- */

static int take_cell(struct hotcell_work *work, const struct cell_wish *wish, struct err *e)
{
	struct hotcell_cell *given = work->request.cell;
	struct hotcell_cell *cell = given;

	if (given && (given->work || given->gone)) {
		err_set(e, given->gone ? ERR_GONE : ERR_INPUT, "the cell is %s",
			given->gone ? given->failure.text : "busy");
		return -1;
	}
	if (given ? cell_suit(given, wish, e) : cell_make(work->engine, wish, &cell, e))
		return -1;
	work->cell = cell;
	work->owns_cell = !given;
	cell->work = work;
	return 0;
}

static void begin_exec(struct hotcell_work *work, bool compile)
{
	struct err e = { 0 };

	work->step_limits = work->limits;
	if (compile) {
		request_compile_limits(work, &work->step_limits);
		cell_limit(work->cell, &work->step_limits);
	} else if (work->step == WORK_COMPILING) {
		cell_limit(work->cell, &work->limits);
	}
	if (request_exec(work, compile, &e)) {
		work_fail(work, &e);
		return;
	}
	/* A full socket can only be full of what was staged: try again when there is room. */
	if (cell_send_with(work->cell, work->raw_argv ? work->snapshot_fd : -1) != 0)
		return;
	work_goto(work, compile ? WORK_COMPILING : WORK_RUNNING);
	set_timer(work, work->step_limits.at[LIMIT_WALL_MS] + BACKSTOP_MS);
	if (!compile && (work->request.have_stdin_fd || work->request.stdin_data))
		stage_stdin_begin(work);
}

static void continue_staging(struct hotcell_work *work)
{
	if (work->entry_goes_along || stage_continue(work) == 1)
		begin_exec(work, request_compiles(work));
}

static void begin_staging(struct hotcell_work *work)
{
	work_goto(work, WORK_STAGING);
	continue_staging(work);
}

void run_on_made(struct hotcell_work *work)
{
	if (work->step == WORK_MAKING)
		begin_staging(work);
}

void run_on_room(struct hotcell_work *work)
{
	if (work->step == WORK_STAGING)
		continue_staging(work);
	else if (work->step == WORK_COMPILING)
		begin_exec(work, false);
	else if (work->step == WORK_RUNNING)
		stage_stdin_continue(work);
}

static void settle(struct hotcell_work *work, bool compiled)
{
	stage_stdin_end(work);
	work_goto(work, WORK_SETTLING);
	set_timer(work, BACKSTOP_MS);
	/* After a compiler, and after a probe, there is nothing of interest to list. */
	work->have_list = compiled || work->raw_argv || work->exited.nothing_new;
	work->cell->cpu_used_us += work->exited.cpu_us;
	/* A warm machine counts for itself; the cell's own count is of all its runs. */
	if (work->exited.warm) {
		work->usage = (struct usage){
			.cpu_us = work->exited.cpu_us,
			.peak_memory_bytes = work->exited.max_rss_bytes,
			.peak_processes = 1,
		};
		work->have_usage = true;
		return;
	}
	work->cell->warm = NULL;
	if (cell_account(work->cell))
		work->have_usage = true;
}

static void step_if_settled(struct hotcell_work *work)
{
	if (work->step != WORK_SETTLING || !work->have_usage || !work->have_list)
		return;
	work_goto(work, WORK_GETTING);
	timer_stop(work->engine,
		&work->timer); /* from here on it is our own disk that takes the time */
	if (!collect_next(work))
		finish(work);
}

/* ---- from the compiler's cell to the program's ---- */

static void begin_carrying(struct hotcell_work *work)
{
	struct err e = { 0 };

	work_goto(work, WORK_CARRYING);
	set_timer(work, BACKSTOP_MS);
	if (carry_begin(work, &e))
		work_fail(work, &e);
}

static void enter_cell(struct hotcell_work *work);

static void change_cells(struct hotcell_work *work)
{
	struct err e = { 0 };

	timer_stop(work->engine, &work->timer);
	leave_cell(work);
	work->compiled = true;
	work->stage_at = 0;
	work_goto(work, WORK_MAKING);
	if (take_cell(work, &work->wish, &e))
		work_fail(work, &e);
	else
		enter_cell(work);
}

static void continue_carrying(struct hotcell_work *work)
{
	struct err e = { 0 };
	int asked = carry_next(work);

	if (asked < 0) {
		err_set(&e, ERR_GONE, "the compiler's cell is gone");
		work_fail(work, &e);
	} else if (asked == 0) {
		change_cells(work);
	} else {
		set_timer(work, BACKSTOP_MS);
	}
}

/* What a compiler left is more than may be carried, or cannot be read. */
static void give_up_carrying(struct hotcell_work *work)
{
	struct err e = { 0 };

	err_set(&e, ERR_LIMIT,
		"what the compiler made could not be taken from its cell to the program's");
	work_fail(work, &e);
}

/* What came with the news of its end. */
static void take_last_output(struct hotcell_work *work, const struct msg_exited *m)
{
	for (int i = 0; i < 2; i++) {
		struct msg_output last = {
			.stream = i ? STREAM_STDERR : STREAM_STDOUT,
			.data = m->out[i],
			.data_len = m->out_len[i],
		};

		if (last.data_len)
			collect_output(work, &last);
	}
}

static int set_out(struct hotcell_work *work, struct err *e);

/* From the beginning, in a container. */
static void begin_again(struct hotcell_work *work)
{
	struct err e = { 0 };

	timer_stop(work->engine, &work->timer);
	leave_cell(work);
	again_forget(work);
	work_goto(work, WORK_MAKING);
	work->wish.kind = ISOLATION_CONTAINER;
	if (set_out(work, &e))
		work_fail(work, &e);
}

static void on_exited(struct hotcell_work *work, const struct msg_exited *m)
{
	bool compiled = work->step == WORK_COMPILING;
	struct err e = { 0 };

	if (work->step != WORK_COMPILING && work->step != WORK_RUNNING)
		return;
	if (!compiled && again_wanted(work, m)) {
		begin_again(work);
		return;
	}
	if (m->ended_by == ENDED_BY_FAILURE && !work->raw_argv) {
		err_set(&e, ERR_SYSTEM, "%s", m->text);
		work_fail(work, &e);
		return;
	}
	take_last_output(work, m);
	work->exited = *m;
	work->exited.text = NULL;
	work->exited.out[0] = work->exited.out[1] = NULL;
	/* A probe of what cannot be started has its answer: as a shell would say it. */
	if (m->ended_by == ENDED_BY_FAILURE)
		work->exited.wait_status = 127 << 8;
	if (!compiled) {
		again_advise(work, m);
		settle(work, false);
		step_if_settled(work);
		return;
	}
	result_note_compile(work);
	if (m->ended_by != ENDED_BY_ITSELF || m->wait_status != 0) {
		settle(work, true);
	} else if (work->compiles_apart) {
		begin_carrying(work);
	} else {
		work->cpu_before_us = m->cpu_us;
		begin_exec(work, false);
	}
}

static void on_garbage(struct hotcell_work *work)
{
	/* Whoever holds that end is not our keeper any more. */
	err_set(&work->cell->failure, ERR_PROTOCOL, "the cell sent what it must not send");
	work->ended_without_exit = true;
	if (work->cell->gone)
		return; /* run_on_gone() is next */
	cell_kill(work->cell);
	finish(work);
}

static void on_listed(struct hotcell_work *work, const struct msg_listed *m)
{
	if (work->step == WORK_CARRYING) {
		if (m->incomplete)
			give_up_carrying(work);
		else
			continue_carrying(work);
		return;
	}
	work->result->files_incomplete = m->incomplete;
	work->have_list = true;
	step_if_settled(work);
}

static void on_file(struct hotcell_work *work, const struct msg_file *m, bool *ret_good)
{
	if (work->step == WORK_SETTLING)
		*ret_good = collect_file(work, m) == 0;
	else if (carry_file(work, m))
		give_up_carrying(work);
}

static void on_data(struct hotcell_work *work, const struct msg_data *m, bool *ret_good)
{
	if (work->step == WORK_GETTING)
		*ret_good = collect_data(work, m) == 0;
	else if (carry_data(work, m))
		give_up_carrying(work);
}

static void on_got(struct hotcell_work *work, const struct msg_got *m)
{
	if (work->step == WORK_CARRYING) {
		if (carry_got(work, m->error))
			give_up_carrying(work);
		else
			continue_carrying(work);
		return;
	}
	collect_got(work, m->error);
	if (!collect_next(work))
		finish(work);
}

void run_on_frame(struct hotcell_work *work, uint8_t type, struct frame_in *in)
{
	union {
		struct msg_output output;
		struct msg_exited exited;
		struct msg_file file;
		struct msg_listed listed;
		struct msg_data data;
		struct msg_got got;
	} m;
	bool running = work->step == WORK_COMPILING || work->step == WORK_RUNNING;
	bool carrying = work->step == WORK_CARRYING;
	bool settling = work->step == WORK_SETTLING || carrying;
	bool getting = work->step == WORK_GETTING || carrying;
	bool good = false;

	switch (type) {
	case CELL_OUTPUT:
		good = running && get_output(in, &m.output);
		if (good)
			collect_output(work, &m.output);
		break;
	case CELL_EXITED:
		good = get_exited(in, &m.exited);
		if (good)
			on_exited(work, &m.exited);
		break;
	case CELL_FILE:
		good = settling && get_file(in, &m.file);
		if (good)
			on_file(work, &m.file, &good);
		break;
	case CELL_LISTED:
		good = settling && get_listed(in, &m.listed);
		if (good)
			on_listed(work, &m.listed);
		break;
	case CELL_DATA:
		good = getting && get_data(in, &m.data);
		if (good)
			on_data(work, &m.data, &good);
		break;
	case CELL_GOT:
		good = getting && get_got(in, &m.got);
		if (good)
			on_got(work, &m.got);
		break;
	default:
		break;
	}
	if (!good)
		on_garbage(work);
}

void run_on_usage(struct hotcell_work *work, const struct usage *usage)
{
	work->usage = *usage;
	work->have_usage = true;
	step_if_settled(work);
}

void run_on_gone(struct hotcell_work *work)
{
	work->usage = work->cell->last_usage;
	work->have_usage = work->have_list = true;
	switch (work->step) {
	case WORK_MAKING:
	case WORK_STAGING:
	case WORK_CARRYING:
		/* Told to end before it began, or it could not begin. */
		work_fail(work, &work->cell->failure);
		break;
	case WORK_COMPILING:
	case WORK_RUNNING:
		/* It may never have come up at all. */
		if ((!work->cell->made || work->cell->never_up) && !work->cancelled) {
			work_fail(work, &work->cell->failure);
			break;
		}
		work->ended_without_exit = true;
		finish(work);
		break;
	case WORK_SETTLING:
	case WORK_GETTING:
		finish(work);
		break;
	case WORK_DONE:
		break;
	}
}

static void on_time(struct timer *timer)
{
	struct hotcell_work *work =
		(struct hotcell_work *)((char *)timer - offsetof(struct hotcell_work, timer));

	/* An order is lost on a keeper that has not begun yet: it is repeated until it is heard. */
	if (work->cancelled && work->cancel_tries++ < CANCEL_TRIES && work->step != WORK_DONE) {
		cell_order(work->cell, ORDER_CANCEL);
		set_timer(work, CANCEL_REPEAT_MS);
		return;
	}
	if (work->step == WORK_COMPILING || work->step == WORK_RUNNING) {
		work->backstop_hit = !work->cancelled;
		work->ended_without_exit = true;
	}
	if (work->step == WORK_CARRYING) {
		give_up_carrying(work);
	} else if (work->step != WORK_DONE && work->cell) {
		cell_kill(work->cell);
		finish(work);
	}
}

/* ---- from outside ---- */

static struct hotcell_work *work_new(struct hotcell *h, const struct hotcell_request *request)
{
	struct hotcell_work *work = xalloc(sizeof(*work));

	work->engine = h;
	work->request = *request;
	work->max_output = request->max_output ? request->max_output : MAX_OUTPUT_DEFAULT;
	work->stage_fd = work->get_fd = work->out_dir_fd = work->snapshot_fd = -1;
	work->timer.on_time = on_time;
	return work;
}

/* Only a process cell's workspace has a path that is not known before: elsewhere what is sent now
 * waits in the socket for the keeper. */
static void enter_cell(struct hotcell_work *work)
{
	if (work->cell && work->cell->workspace)
		begin_staging(work);
}

static int take_compilers_cell(struct hotcell_work *work, struct err *e)
{
	struct link *link = &work->engine->links[work->wish.kind];
	struct cell_wish wish = work->wish;

	if (work->request.cell)
		return err_set(e, ERR_UNAVAILABLE,
			"a language that compiles cannot run in a vm cell that was made before");
	if (staging_add_empty(&work->staging, STAGE_BUILD_DIR, FILE_DIRECTORY, 0755, e))
		return -1;
	wish.kind = ISOLATION_CONTAINER;
	if (take_cell(work, &wish, e))
		return -1;
	/* Prepared while the compiler works. */
	return link_start(work->engine, link, false, e) || link_seal(work->engine, link, e) ? -1 :
											      0;
}

static int begin(struct hotcell_work *work, const struct cell_wish *wish, struct err *e)
{
	work->limits = wish->limits;
	work->wish = *wish;
	work->compiles_apart = wish->kind == ISOLATION_VM && request_compiles(work);
	if (work->compiles_apart ? take_compilers_cell(work, e) : take_cell(work, wish, e))
		return -1;
	if (work->profile &&
		(cell_warm(work->cell, work->profile, work->snapshot_fd, &(struct buf){ 0 }, e) ||
			request_build_warm(work, e)))
		return -1;
	result_begin(work);
	enter_cell(work);
	return 0;
}

/* Whether runs like this one come out of a warm machine, and so find nothing of each other. */
static bool may_be_warm(const struct hotcell *h, const struct hotcell_request *q,
	const struct tool *tool, enum isolation_kind kind)
{
	return kind == ISOLATION_VM && !q->trace && !q->cold && snapshot_is_possible(h, tool);
}

/* Whether a warm machine is to serve it, and of which profile. One that cannot be made is no reason
 * to fail: the program starts cold then. */
static int choose_warmth(struct hotcell *h, const struct hotcell_request *q,
	const struct tool *tool, enum isolation_kind kind, const struct profile **ret, int *ret_fd,
	struct err *e)
{
	struct err ignored = { 0 };
	auto_buf struct buf text = { 0 };

	*ret = NULL;
	*ret_fd = -1;
	if (q->profile && kind != ISOLATION_VM)
		return err_set(e, ERR_INPUT,
			"profiles are for vm isolation, and this is %s isolation",
			isolation_name(kind));
	/* A name that is wrong is told, also where the program starts cold. */
	if (q->profile && !snapshot_profile(tool->language, q->profile, NULL, 0, e))
		return -1;
	if (!may_be_warm(h, q, tool, kind) || !snapshot_suits_env(q->env))
		return 0;
	if (!q->code && !q->profile)
		request_peek(q, &text);
	*ret = snapshot_profile(tool->language, q->profile, q->code ? q->code : text.data,
		q->code ? request_code_length(q) : text.len, e);
	if (!*ret)
		return -1;
	*ret_fd = snapshot_get(h, tool, *ret, &ignored);
	if (*ret_fd < 0)
		*ret = NULL;
	return 0;
}

/* From the request to a run in a cell of wish.kind. */
static int set_out(struct hotcell_work *work, struct err *e)
{
	const struct hotcell_request *q = &work->request;
	struct cell_wish wish = { .kind = work->wish.kind };

	if (request_wish(q, &work->tool, &wish, e) ||
		request_stage(q, &work->tool, &work->staging, &work->entry, e) ||
		choose_warmth(work->engine, q, &work->tool, wish.kind, &work->profile,
			&work->snapshot_fd, e))
		return -1;
	work->clears = may_be_warm(work->engine, q, &work->tool, wish.kind);
	return collect_prepare(work, e) || begin(work, &wish, e) ? -1 : 0;
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
	if (request->last_line &&
		!tool_command(&work->tool.candidate->last_line, &language->last_line)->count) {
		err_set(&e, ERR_UNAVAILABLE, "%s cannot echo the value of a last line",
			language->name);
		goto failed;
	}
	if (set_out(work, &e))
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

void hotcell_cancel(struct hotcell_work *work)
{
	if (work->step == WORK_DONE || !work->cell || work->cancelled)
		return;
	work->cancelled = true;
	if (work->step == WORK_MAKING || work->step == WORK_STAGING ||
		work->step == WORK_CARRYING) {
		work->ended_without_exit = true;
		finish(work);
		return;
	}
	cell_order(work->cell, ORDER_CANCEL);
	set_timer(work, CANCEL_REPEAT_MS);
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
	if (!failed && profile) {
		request_rehearsal(language, &rehearsal);
		failed = cell_warm(*ret, profile, fd, &rehearsal, &e);
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
		finish(cell->work);
	}
	cell_drop(cell);
}

int run_command(struct hotcell *h, const struct tool *tool, enum isolation_kind kind, char **argv,
	struct hotcell_result **ret, struct err *e)
{
	struct hotcell_request request = { .limits = { .wall_ms = 20000 } };
	struct hotcell_work *work = work_new(h, &request);
	struct hotcell_error error;
	/* What is there, a container shows as well as a vm. */
	struct cell_wish wish = { .kind = kind == ISOLATION_VM ? ISOLATION_CONTAINER : kind };

	work->tool.language = tool->language;
	work->tool.candidate = tool->candidate;
	work->raw_argv = argv;
	if (request_wish(&request, tool, &wish, e) || begin(work, &wish, e)) {
		work_free(work);
		return -1;
	}
	if (wait_for(work, ret, &error))
		return err_set(e, (enum err_kind)error.kind, "%s", error.text);
	return 0;
}

int run_for_snapshot(struct hotcell *h, const struct tool *tool, const struct profile *profile,
	int fd, struct hotcell_result **ret, struct err *e)
{
	struct hotcell_request request = { .limits = { .wall_ms = 120000, .cpu_ms = 120000 } };
	struct hotcell_work *work = work_new(h, &request);
	struct hotcell_error error;
	struct cell_wish wish = { .kind = ISOLATION_VM };
	auto_free const char **modules = xalloc((profile->modules.count + 1) * sizeof(*modules));
	struct expansion x = {
		.program = tool->program,
		.drivers = CELL_DRIVERS_DIR,
		.args = modules,
	};
	char **argv;
	int failed;

	for (unsigned i = 0; i < profile->modules.count; i++)
		modules[i] = profile->modules.at[i];
	argv = command_expand(snapshot_command(tool), &x);
	work->tool.language = tool->language;
	work->tool.candidate = tool->candidate;
	work->raw_argv = argv;
	work->snapshot_fd = fd;
	if (request_wish(&request, tool, &wish, e) || begin(work, &wish, e)) {
		work_free(work);
		strings_free(argv);
		return -1;
	}
	failed = wait_for(work, ret, &error);
	strings_free(argv);
	return failed ? err_set(e, (enum err_kind)error.kind, "%s", error.text) : 0;
}
