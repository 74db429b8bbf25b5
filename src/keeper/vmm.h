/* vmm: a program as a guest of hotcell-vmm: the command that says so, in the words of
 * wire/vmm_start.h. */
#ifndef HOTCELL_KEEPER_VMM_H
#define HOTCELL_KEEPER_VMM_H

#include "keeper/keeper.h"
#include "wire/cell_wire.h"

/* The page in which machines count, at VMM_STATS_FD. Without one nothing is counted. */
void vmm_open_stats(void);
void vmm_clear_stats(void);
void vmm_read_stats(struct vm_counts *ret);

/* Memory at VMM_SPARE_FD for machines that serve one run each: whoever is started then has it. For cells that have one
 * after the other; without it they do, too. */
void vmm_open_spare(void);

/* NULL-terminated; points into `exec`, and is valid until the next one is written. */
const char *const *vmm_write_command(
	const struct msg_exec *exec, const struct keeper_options *options);
/* For one that starts from a snapshot, or makes those that do. */
const char *const *vmm_write_warm_command(const struct msg_exec *exec, bool is_mother);

/* Its VMM_WARM_FD and so on; -1 = it has none. */
struct vmm_fds {
	int warm;
	int line;
	int snapshot;
	int mother;
};

/* In a child: becomes the VMM with the command written last. Returns an errno if it cannot. */
int vmm_become(const struct msg_exec *exec, const struct vmm_fds *fds);

#endif
