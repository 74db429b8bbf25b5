/* put_back: pages that runs have written become the snapshot's again.
 *
 * A page that was written once stays the machine's own: the next run has it at once, and after every run it is copied. That
 * is right for what all runs write. But a run may write thousands that no other one does, and each of those behind it would
 * pay for them. So now and then it is looked which of them a run has left as they were, and those are given back to
 * the kernel: who writes them again has a fault for each. */
#ifndef HOTCELL_VMM_PUT_BACK_H
#define HOTCELL_VMM_PUT_BACK_H

#include "vmm/dirty.h"

#include <stdbool.h>

/* `memory` and `image` begin where the ranges count from. Pages for which `stays` is true are always copied. */
void put_back(uint8_t *memory, const uint8_t *image, const struct dirty_range *ranges, int count,
	bool (*stays)(const void *context, uint64_t at), const void *context);

#endif
