/* What a run has used: its own share of what its cell has. */
#include "engine/work.h"

/* What the warden would tell of a run that was alone, but for its peak, is known. */
bool usage_is_known(struct hotcell_work *work)
{
	struct usage usage = { .cpu_us = work->exited.cpu_us, .peak_processes = 1 };

	if (work->exited.waited != WAITED_ALONE || work->exited.ended_by != ENDED_BY_ITSELF ||
		cell_read_peak(work->cell, &usage.peak_memory_bytes))
		return false;
	work->usage = usage;
	return true;
}

/* A machine's cell is told no limits from run to run: the warden has counted those before this one too, and what was done
 * between them. How a machine ended may tell of too much likewise: of all that its processes have ever used. */
void usage_note(struct hotcell_work *work, const struct usage *usage)
{
	bool is_told = work->step != WORK_RUNNING;
	uint64_t told_us = is_told ? work->exited.cpu_us : 0;
	uint64_t before_us = work->cell->cpu_used_us - told_us;

	work->usage = *usage;
	work->have_usage = true;
	if (work->owns_cell || work->wish.kind != ISOLATION_VM)
		return;
	work->usage.cpu_us -= before_us < usage->cpu_us ? before_us : usage->cpu_us;
	if (is_told && told_us < work->usage.cpu_us)
		work->usage.cpu_us = told_us;
}
