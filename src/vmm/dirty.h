/* dirty: which pages of a private mapping were written since it was made. */
#ifndef HOTCELL_VMM_DIRTY_H
#define HOTCELL_VMM_DIRTY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The request by which the kernel is asked (Linux 6.7): filter.c lets it through. */
#define DIRTY_PAGEMAP_SCAN 0xc0606610UL

struct dirty_range {
	uint64_t start; /* from the beginning of the mapping */
	uint64_t end;
};

/* From now on a fault maps the page that was touched and none of those around it, which dirty_find() would look at every
 * time. Before the filter. It is no harm if it cannot (before Linux 6.7). */
void dirty_map_no_more_than_touched(const uint8_t *start, uint64_t size);

/* Opens our own page map; before /proc is out of reach. */
int dirty_open(int proc_fd, struct err *e);
/* Returns how many ranges, or -1. They are valid until the next call. */
int dirty_find(const uint8_t *start, uint64_t size, const struct dirty_range **ret, struct err *e);

#endif
