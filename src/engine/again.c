/* What a vm has not, a container may have: a run that failed for it is made again there, if nobody has
 * seen anything of it yet. Else it is told what it might do. */
#include "engine/work.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>

static bool misses_call(const struct hotcell_work *work, const struct msg_exited *m)
{
	return work->wish.kind == ISOLATION_VM && m->ended_by == ENDED_BY_ITSELF &&
	       m->wait_status != 0 && m->vm.missing_call[0];
}

/* The VMM has ended before its guest began. */
static bool never_began(const struct hotcell_work *work, const struct msg_exited *m)
{
	return work->wish.kind == ISOLATION_VM && !m->failed_put && m->wait_status != 0 &&
	       m->vm.exits == 0 &&
	       (m->ended_by == ENDED_BY_ITSELF || m->ended_by == ENDED_BY_FAILURE);
}

/* Whether nobody can tell that it was begun before. */
static bool is_unseen(const struct hotcell_work *work)
{
	return !work->has_streamed && !work->request.have_stdin_fd && !work->cancelled;
}

bool again_wanted(struct hotcell_work *work, const struct msg_exited *m)
{
	const struct hotcell_request *q = &work->request;

	/* A cell that is to be used again has what others left in it. */
	if (q->isolation != HOTCELL_ISOLATION_AUTO || (q->cell && !work->clears && !q->cell_ends) ||
		work->raw_argv || q->trace || q->profile || !is_unseen(work))
		return false;
	if (misses_call(work, m))
		snprintf(work->why, sizeof(work->why),
			"run again, for a vm does not have the call %s", m->vm.missing_call);
	else if (never_began(work, m))
		snprintf(work->why, sizeof(work->why),
			"run again, for a vm could not be started here (hotcell doctor tells more)");
	else
		return false;
	return true;
}

void again_advise(struct hotcell_work *work, const struct msg_exited *m)
{
	char text[160];
	struct msg_output advice = { .stream = STREAM_STDERR, .data = (const uint8_t *)text };

	if (!misses_call(work, m))
		return;
	advice.data_len = (size_t)snprintf(text, sizeof(text),
		"hotcell: the program called %s, which a vm does not have; container isolation has "
		"it\n",
		m->vm.missing_call);
	collect_output(work, &advice);
}

void again_forget(struct hotcell_work *work)
{
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++) {
			buf_free(&work->out[i][k].bytes);
			work->out[i][k] = (struct collected){ 0 };
		}
	staging_free(&work->staging);
	work->staging = (struct staging){ 0 };
	free(take_ptr(&work->entry));
	buf_free(&work->warm_request);
	buf_free(&work->carried);
	hotcell_result_free(take_ptr(&work->result));
	own_close(&work->out_dir_fd);
	own_close(&work->stage_fd);
	work->warm_request = work->carried = (struct buf){ 0 };
	work->out_dir_fd = work->stage_fd = -1;
	work->by_driver = false;
	work->may_be_quiet = work->is_quiet = work->has_gone_out = false;
	work->quiet_us = 0;
	work->compiled = work->compiles_apart = false;
	work->stage_at = work->stage_offset = work->stdin_at = work->carry_at = 0;
	work->carried_bytes = 0;
	work->have_usage = work->have_list = false;
	work->exited = (struct msg_exited){ 0 };
	work->usage = (struct usage){ 0 };
}
