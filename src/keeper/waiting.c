/* What waits in a cell for its run, and how that run ends: a driver (driver.h) or a warm machine (warm.h) says so
 * itself, before its process has ended, if it does so at all. */
#include "keeper/inner.h"

#include "base/clock.h"
#include "base/own.h"
#include "keeper/vmm.h"

/* Spare memory goes from hand to hand: whoever had it is dead. */
static void kill_all_before(struct keeper *k, bool is_once)
{
	if (!is_once || !mother_sweep(&k->warm.mother, &k->program)) {
		program_end_all(&k->program);
		mother_forget(&k->warm.mother);
	}
	program_close(&k->program);
}

void waiting_start_machine(struct keeper *k, const struct msg_exec *m, int snapshot_fd)
{
	auto_close int snapshot = snapshot_fd;
	bool is_once = m->warm == EXEC_WARM_START_ONCE;
	bool is_next = k->program.pid > 0;

	k->in_warm = false;
	if (is_next || is_once)
		kill_all_before(k, is_once);
	if (is_next) {
		k->files.touched = true;
		/* Unless nothing ran in it since files were put there for the next run. */
		if (!k->files.kept && files_clear(&k->files, k->options->tmp, &k->warm_error))
			return;
	}
	/* The second machine of a cell will not be the last. */
	if (is_next && is_once) {
		vmm_open_spare();
		if (mother_start(&k->warm.mother, m, k->options, snapshot, &k->warm_error))
			return;
	}
	warm_start(&k->warm, &k->program, m, k->options, take_fd(&snapshot), &k->warm_error);
}

void waiting_start_driver(struct keeper *k, struct msg_exec *m)
{
	struct err ignored = { 0 };

	k->files.touched = true;
	driver_start(&k->driver, m, k->options, &ignored);
}

static void tell_waits(struct keeper *k)
{
	static struct frame_out frame;

	put_bare(&frame, CELL_WAITS);
	keeper_send(k, &frame);
}

/* One that waited, or was about to. */
void waiting_on_driver_end(struct keeper *k)
{
	bool was_ready = k->driver.waits;

	driver_end(&k->driver);
	if (k->state == RUNNING && k->keeps) {
		err_set(&k->warm_error, ERR_SYSTEM, "the interpreter could not be started");
		keeper_end_program(k, ENDED_BY_FAILURE);
	} else if (!was_ready && !k->options->runs_vmm) {
		tell_waits(k);
	}
}

/* Every frame wakes the engine; a run that prints little and makes no file is told by one. */
bool waiting_tell_end(struct keeper *k, uint32_t status)
{
	bool nothing_new;

	k->program.wait_status = (int)((status & 0xff) << 8);
	output_keep(k);
	if (k->state != RUNNING)
		return false;
	nothing_new = k->list_when_done && !files_anything_new(&k->files);
	k->nothing_new = nothing_new;
	output_send_exited(k, "");
	k->last[0].len = k->last[1].len = 0;
	k->nothing_new = false;
	keeper_become_idle(k);
	if (k->list_when_done && !nothing_new)
		files_list_run(&k->files, keeper_send, k);
	return true;
}

static void finish_warm(struct keeper *k, const struct warm_answer *answer)
{
	k->program.cpu_us = answer->cpu_us;
	k->program.max_rss_bytes = answer->max_rss_bytes;
	k->exited_warm = true;
	if (answer->kind == WARM_KEPT)
		session_finish(k, answer->status);
	else if (waiting_tell_end(k, answer->status))
		program_close_pipes(&k->program);
}

static void finish_driver(struct keeper *k, uint8_t status)
{
	if (!driver_was_alone(&k->driver)) {
		driver_let_go(&k->driver); /* its end and that of all others is waited for */
		return;
	}
	k->waited = WAITED_ALONE;
	k->program.cpu_us = driver_cpu_us(&k->program);
	k->program.processes = 1;
	if (!waiting_tell_end(k, status))
		return;
	program_close_pipes(&k->program);
	k->state = LEAVING;
	k->leave_us = clock_now_us() + LEAVE_US;
}

/* A process takes longer to end than most runs do, and whoever waits for the answer would share a processor with that. */
void waiting_kill_who_leaves(struct keeper *k, bool now)
{
	if (k->state != LEAVING || !k->leave_us || (!now && clock_now_us() < k->leave_us))
		return;
	k->leave_us = 0;
	program_kill_all(k->options->kill_all_is_safe);
}

void waiting_leave_if_over(struct keeper *k)
{
	if (k->state != LEAVING)
		return;
	keeper_reap(k);
	if (!k->program.all_reaped)
		return;
	driver_end(&k->driver);
	program_close(&k->program);
	k->state = IDLE;
}

static void on_answer(struct keeper *k)
{
	bool is_over;
	uint8_t status;

	is_over = driver_hear_end(&k->driver, &status);
	if (k->state != RUNNING || !k->waited)
		return;
	/* Whatever it says, it has begun. */
	if (k->stdin_waits)
		session_on_stdin(k);
	if (is_over && k->keeps)
		session_finish(k, status);
	else if (is_over)
		finish_driver(k, status);
}

static void rehearse(struct keeper *k)
{
	files_rehearse(&k->files);
	driver_rehearse(&k->driver);
	output_rehearse();
	k->stdin_at = k->stdin_len = 0;
}

void waiting_on_driver(struct keeper *k)
{
	if (k->driver.program.pid <= 0) {
		on_answer(k);
	} else if (driver_listen(&k->driver) && !session_on_ready(k)) {
		if (k->state == IDLE)
			rehearse(k);
		tell_waits(k);
	}
}

/* Its next run fails and says why, whether that has been asked for already or not. */
static void on_broken(struct keeper *k, const char *text)
{
	err_set(&k->warm_error, ERR_SYSTEM, "%s", text);
	if (k->in_warm)
		keeper_end_program(k, ENDED_BY_FAILURE);
}

void waiting_on_warm(struct keeper *k)
{
	struct warm_answer answer;
	char text[WARM_TEXT_MAX];
	int got = warm_receive(&k->warm, &answer, text);

	if (got < 0) {
		/* Its end is told by its wait status. */
		own_close(&k->warm.socket_fd);
		k->warm.socket_fd = -1;
		return;
	}
	if (got > 0 && answer.kind == WARM_BROKEN) {
		on_broken(k, text);
		return;
	}
	if (got == 0 || k->state != RUNNING || !k->in_warm)
		return;
	if (answer.kind == WARM_DONE || (answer.kind == WARM_KEPT && k->keeps)) {
		finish_warm(k, &answer);
		return;
	}
	/* Whatever the run has started goes with its machine. */
	k->told_status = (int)((answer.status & 0xff) << 8);
	k->is_told = true;
	keeper_end_program(k, ENDED_BY_ITSELF);
}
