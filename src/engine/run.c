#include "engine/exec.h"
#include "engine/request.h"
#include "engine/warm_request.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/vmm_warm.h"

#include <errno.h>

enum { BACKSTOP_MS = 5000, CANCEL_TRIES = 60 };

#define TO(step) (1U << WORK_##step)

static const unsigned may_go[] = {
	[WORK_MAKING] = TO(STAGING) | TO(DONE),
	[WORK_STAGING] = TO(COMPILING) | TO(RUNNING) | TO(SERVING) | TO(DONE),
	[WORK_COMPILING] = TO(RUNNING) | TO(CARRYING) | TO(SETTLING) | TO(DONE),
	[WORK_CARRYING] = TO(MAKING) | TO(DONE),
	[WORK_RUNNING] = TO(MAKING) | TO(STAGING) | TO(SETTLING) | TO(DONE),
	[WORK_SETTLING] = TO(GETTING) | TO(DONE),
	[WORK_GETTING] = TO(DONE),
	[WORK_SERVING] = TO(DONE),
	[WORK_DONE] = 0,
};

void work_goto(struct hotcell_work *work, enum work_step step)
{
	if (!(may_go[work->step] & (1U << step)))
		return; /* a frame that comes too late to matter */
	work->step = step;
	if (work->paused && work->cell)
		cell_watch(work->cell);
}

bool run_is_in(const struct hotcell_work *work, uint32_t cell)
{
	return work->cell && work->cell->id == cell;
}

/* Only a program's output can wait. What comes without one is asked for, and is soon over. */
bool run_is_paused(const struct hotcell_work *work)
{
	return work->paused && (work->step == WORK_COMPILING || work->step == WORK_RUNNING);
}

void hotcell_pause(struct hotcell_work *work, int on)
{
	work->paused = on && !work->cancelled && !work->is_late;
	if (work->cell)
		cell_watch(work->cell);
}

static void set_timer(struct hotcell_work *work, uint64_t ms)
{
	timer_start(work->engine, &work->timer, ms);
}

/* ---- steps ---- */

static void set_wall_timer(struct hotcell_work *work)
{
	set_timer(work, work->step_limits.at[LIMIT_WALL_MS] + BACKSTOP_MS);
}

static uint8_t warm_flags(const struct hotcell_work *work)
{
	if (work->request.keep)
		return WARM_KEEP;
	return work_is_machines_last(work) ? WARM_LAST : 0;
}

static void begin_quietly(struct hotcell_work *work)
{
	work->is_quiet = true;
	work->asked_us = clock_now_us();
	work->step_limits = work->limits;
	work_goto(work, WORK_RUNNING);
	set_wall_timer(work);
	line_ask(work->cell, warm_flags(work), &work->warm_request);
}

/* Whoever makes a snapshot, rehearses behind it. */
static int rehearse(const struct hotcell_work *work, struct err *e)
{
	auto_buf struct buf rehearsal = { 0 };

	if (!work->raw_argv || work->snapshot_fd < 0)
		return 0;
	warm_request_rehearsal(work->tool.language, &rehearsal);
	return line_rehearse(work->cell, &rehearsal, e);
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
	if (work->by_driver) {
		if (warm_request_put(work, &e)) {
			work_fail(work, &e);
			return;
		}
		if (cell_send(work->cell) != 0)
			return; /* as below */
	}
	if (rehearse(work, &e) || exec_step(work, compile, &e)) {
		work_fail(work, &e);
		return;
	}
	/* A full socket can only be full of what was staged: try again when there is room. */
	if (cell_send_with(work->cell, work->raw_argv ? work->snapshot_fd : -1) != 0)
		return;
	work_goto(work, compile ? WORK_COMPILING : WORK_RUNNING);
	set_wall_timer(work);
	if (work->cancelled)
		cancel_order(work); /* before it went out: the keeper did not know of it then */
	if (work->interrupts)
		cell_order(work->cell, ORDER_INTERRUPT);
	work->interrupts = false;
	if (work->profile && !work->raw_argv && !work->has_gone_out)
		line_ask(work->cell, warm_flags(work) | WARM_OUT, &work->warm_request);
	if (!compile && (work->request.have_stdin_fd || work->request.stdin_data))
		stage_stdin_begin(work);
}

static void continue_staging(struct hotcell_work *work)
{
	if (work->may_be_quiet && !work->has_gone_out)
		begin_quietly(work);
	else if (stage_continue(work) == 1)
		begin_exec(work, request_compiles(work));
}

static void begin_staging(struct hotcell_work *work)
{
	work_goto(work, WORK_STAGING);
	continue_staging(work);
}

/* Only a process cell's workspace has a path that is not known before: elsewhere what is sent now
 * waits in the socket for the keeper. */
void work_enter_cell(struct hotcell_work *work)
{
	if (work->cell && work->cell->workspace)
		begin_staging(work);
}

void run_on_made(struct hotcell_work *work)
{
	if (work->step == WORK_MAKING)
		begin_staging(work);
}

void run_on_room(struct hotcell_work *work)
{
	if (work->is_for_files)
		files_continue(work);
	else if (work->step == WORK_STAGING)
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
	/* Beside an interpreter that stays, it was another one's end. */
	if (!work->cell->keeps || work->request.keep)
		work->cell->warm = NULL;
	work->cell->is_counted = true;
	work->have_usage = usage_is_known(work) || cell_account(work->cell);
}

static void step_if_settled(struct hotcell_work *work)
{
	if (work->step != WORK_SETTLING || !work->have_usage || !work->have_list)
		return;
	work_goto(work, WORK_GETTING);
	timer_stop(work->engine,
		&work->timer); /* from here on it is our own disk that takes the time */
	if (!collect_next(work))
		work_finish(work);
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

static void change_cells(struct hotcell_work *work)
{
	struct err e = { 0 };

	timer_stop(work->engine, &work->timer);
	work_leave_cell(work);
	work->compiled = true;
	work->stage_at = 0;
	work_goto(work, WORK_MAKING);
	if (work_take_cell(work, &work->wish, &e))
		work_fail(work, &e);
	else
		work_enter_cell(work);
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

/* From the beginning, in a container. */
static void begin_again(struct hotcell_work *work)
{
	struct err e = { 0 };

	timer_stop(work->engine, &work->timer);
	work_leave_cell(work);
	again_forget(work);
	work_goto(work, WORK_MAKING);
	work->wish.kind = ISOLATION_CONTAINER;
	work->request.cell = NULL;
	work->request.cell_ends = work->request.machine_ends = 0;
	if (start_set_out(work, &e))
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
		files_why_not_begun(m, &e);
		work->exited.kept = m->kept;
		work_fail(work, &e);
		return;
	}
	take_last_output(work, m);
	work->exited = *m;
	work->exited.wall_us += work->quiet_us;
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
	if (m->ended_by != ENDED_BY_ITSELF || m->wait_status != 0 || work->cancelled) {
		settle(work, true);
	} else if (work->compiles_apart) {
		begin_carrying(work);
	} else {
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
	if (work->is_for_files)
		work_fail(work, &work->cell->failure);
	else
		work_finish(work);
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
	if (work->failure.kind != ERR_NONE || !collect_next(work))
		work_finish(work);
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

	if (work->is_for_files) {
		if (!files_on_frame(work, type, in))
			on_garbage(work);
		return;
	}
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

/* A machine that is gone is one for the keeper, too: it tells how that ended. */
static void go_out(struct hotcell_work *work)
{
	work->is_quiet = false;
	work->has_gone_out = true;
	work->quiet_us = (uint64_t)(clock_now_us() - work->asked_us);
	begin_staging(work);
}

/* What a quiet run can be told of: anything else takes a keeper. */
static bool ends_quietly(const struct msg_exited *m)
{
	return m->ended_by == ENDED_BY_ITSELF && m->warm && m->nothing_new && !m->disk_full;
}

static bool is_quiet_now(const struct hotcell_work *work)
{
	return work->is_quiet && work->step == WORK_RUNNING;
}

void run_on_line(struct hotcell_work *work, uint8_t type, struct frame_in *in)
{
	struct msg_exited exited;

	if (is_quiet_now(work) && type == CELL_GOES_OUT && get_bare(in))
		go_out(work);
	else if (is_quiet_now(work) && type == CELL_EXITED && get_exited(in, &exited) &&
		 ends_quietly(&exited))
		on_exited(work, &exited);
	else
		on_garbage(work);
}

void run_on_line_end(struct hotcell_work *work)
{
	if (is_quiet_now(work))
		go_out(work);
}

void run_on_usage(struct hotcell_work *work, const struct usage *usage)
{
	usage_note(work, usage);
	step_if_settled(work);
}

void run_on_gone(struct hotcell_work *work)
{
	usage_note(work, &work->cell->last_usage);
	switch (work->step) {
	case WORK_MAKING:
	case WORK_STAGING:
	case WORK_CARRYING:
	case WORK_SERVING:
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
		work_finish(work);
		break;
	case WORK_SETTLING:
	case WORK_GETTING:
		work_finish(work);
		break;
	case WORK_DONE:
		break;
	}
}

void work_on_time(struct timer *timer)
{
	struct hotcell_work *work =
		(struct hotcell_work *)((char *)timer - offsetof(struct hotcell_work, timer));

	if (work->is_for_files) {
		files_on_time(work);
		return;
	}
	/* An order is lost on a keeper that has not begun yet: it is repeated until it is heard. */
	if (work->cancelled && work->cancel_tries++ < CANCEL_TRIES && work->step != WORK_DONE) {
		cancel_order(work);
		return;
	}
	/* The keeper has ended it long ago, but could not tell. */
	if (run_is_paused(work)) {
		work->is_late = true;
		hotcell_pause(work, 0);
		set_timer(work, BACKSTOP_MS);
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
		work_finish(work);
	}
}
