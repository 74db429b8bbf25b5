/* How a run is told to end, or to stop what it does. */
#include "engine/work.h"

enum { REPEAT_MS = 50 };

void cancel_order(struct hotcell_work *work)
{
	cell_order(work->cell, ORDER_CANCEL);
	timer_start(work->engine, &work->timer, REPEAT_MS);
}

/* Nothing was asked of whoever is kept in the cell. */
static void cancel_before_it_runs(struct hotcell_work *work)
{
	work->ended_without_exit = true;
	work->exited.kept = work->cell->session != NULL;
	if (work->step == WORK_STAGING)
		cell_drop_half(work->cell);
	work_finish(work);
}

void hotcell_cancel(struct hotcell_work *work)
{
	if (work->step == WORK_DONE || !work->cell || work->cancelled)
		return;
	work->cancelled = true;
	hotcell_pause(work, 0);
	if (work->is_for_files) {
		files_cancel(work);
		return;
	}
	if ((work->step == WORK_MAKING || work->step == WORK_STAGING ||
		    work->step == WORK_CARRYING) &&
		!work->has_gone_out)
		cancel_before_it_runs(work);
	else
		cancel_order(work); /* of one that goes out the keeper hears soon */
}

/* What a machine has for itself alone (wire/vmm_warm.h), no keeper could pass on to it: once it goes out. It does
 * so soon. */
void hotcell_interrupt(struct hotcell_work *work)
{
	if (work->is_quiet && work->step == WORK_RUNNING)
		work->interrupts = true;
	else if (work->step == WORK_COMPILING || work->step == WORK_RUNNING)
		cell_order(work->cell, ORDER_INTERRUPT);
}
