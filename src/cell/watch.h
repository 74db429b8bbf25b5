/* watch: memory and processor time of a cell where no cgroup counts them. Sums over /proc, so it is
 * late and approximate: a soft limit, and called so in results. */
#ifndef HOTCELL_CELL_WATCH_H
#define HOTCELL_CELL_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watch_sum {
	uint64_t memory_bytes; /* proportional share of all processes, and files in memory */
	uint64_t cpu_us;       /* of those alive, with their reaped children */
	uint64_t processes;    /* the keeper not counted */
};

/* `keeper` and its descendants, in our own /proc; if they have namespaces of their own, also the
 * files of their tmpfs and their shared memory. */
void watch_descendants(pid_t keeper, bool has_namespaces, struct watch_sum *ret);

#endif
