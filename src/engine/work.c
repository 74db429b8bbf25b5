/* The beginning and the end of a work: its cell, and what it holds. */
#include "engine/request.h"
#include "engine/warm_request.h"

#include "base/own.h"

enum { MAX_OUTPUT_DEFAULT = 1000000 };

struct hotcell_work *work_new(struct hotcell *h, const struct hotcell_request *request)
{
	struct hotcell_work *work = xalloc(sizeof(*work));

	work->engine = h;
	work->request = *request;
	work->max_output = request->max_output ? request->max_output : MAX_OUTPUT_DEFAULT;
	work->stage_fd = work->get_fd = work->out_dir_fd = work->snapshot_fd = work->overflow_fd =
		-1;
	work->timer.on_time = work_on_time;
	return work;
}

int work_take_cell(struct hotcell_work *work, const struct cell_wish *wish, struct err *e)
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
	if (!cell->keeps)
		cell->driver = NULL; /* it serves this run, or is ended */
	return 0;
}

static void let_go(struct hotcell_work *work)
{
	stage_stdin_end(work);
	timer_stop(work->engine, &work->timer);
	own_close(&work->stage_fd);
	collect_let_go(work);
	own_close(&work->out_dir_fd);
	work->stage_fd = work->out_dir_fd = -1;
}

/* The machine ended with its run: another one gets ready before anybody waits for it. */
static void warm_again(const struct hotcell_work *work)
{
	auto_buf struct buf rehearsal = { 0 };
	struct err ignored = { 0 };

	if (!work->profile || work->request.cell_ends || work->cell->warm)
		return;
	warm_request_rehearsal(work->tool.language, &rehearsal);
	line_open(work->cell, work->profile, work->snapshot_fd, work->request.machine_ends,
		&rehearsal, &ignored);
}

void work_leave_cell(struct hotcell_work *work)
{
	if (!work->cell)
		return;
	work->cell->work = NULL;
	cell_watch(work->cell);
	if (work->request.keep && !work->exited.kept)
		work->cell->session = NULL;
	/* A warden that was told to end something kills the cell, unless it hears that it goes on. */
	if (!work->owns_cell && !work->cell->gone &&
		(work->cancelled || work->exited.ended_by != ENDED_BY_ITSELF))
		cell_limit(work->cell, &work->cell->limits);
	if (work->owns_cell) {
		cell_drop(work->cell);
	} else if (work->clears && !work->cell->gone) {
		if (work->request.machine_ends)
			line_close(work->cell);
		/* What one run left, another one's must not find. */
		if (!work->is_quiet || work->request.machine_ends) {
			cell_clear(work->cell);
			work->cell->has_leftovers = false;
			warm_again(work);
		}
	} else if (!work->is_for_files) {
		work->cell->has_leftovers = true;
	}
	work->cell = NULL;
}

bool work_is_machines_last(const struct hotcell_work *work)
{
	return work->owns_cell || work->request.cell_ends || work->request.machine_ends;
}

void work_finish(struct hotcell_work *work)
{
	if (work->step == WORK_DONE)
		return;
	if (work->step == WORK_SETTLING || work->step == WORK_GETTING)
		collect_give_up(work);
	work->step = WORK_DONE;
	let_go(work);
	if (work->failure.kind == ERR_NONE && !work->is_for_files)
		result_complete(work);
	work_leave_cell(work);
}

void work_fail(struct hotcell_work *work, const struct err *e)
{
	/* Whatever it stumbled over then: who has cancelled it wants to hear that, and no riddle. */
	if (work->cancelled && work->cell && !work->is_for_files)
		work->ended_without_exit = true;
	else if (work->failure.kind == ERR_NONE)
		work->failure = *e;
	work_finish(work);
}

void work_free(struct hotcell_work *work)
{
	if (!work)
		return;
	let_go(work);
	work_leave_cell(work);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			buf_free(&work->out[i][k].bytes);
	buf_free(&work->carried);
	buf_free(&work->warm_request);
	free(work->stdin_kept);
	free(work->entry);
	if (work->raw_argv)
		strings_free(work->raw_argv);
	staging_free(&work->staging);
	tool_free(&work->tool);
	hotcell_result_free(work->result);
	free(work);
}
