/* stats: what is counted for the result of a run (wire/vmm_stats.h). */
#ifndef HOTCELL_VMM_STATS_H
#define HOTCELL_VMM_STATS_H

#include "wire/cell_wire.h"

#include <stdint.h>

/* Takes the page that VMM_STATS_FD is; without one, counts for itself. */
void stats_open(void);
/* A run begins. */
void stats_clear(void);
/* It is over. */
void stats_read(struct vm_counts *ret);

void stats_count_exit(void);
/* A system call was answered with ENOSYS. */
void stats_count_unknown(uint64_t number);

#endif
