/* spare: memory that machines of a cell have one after the other.
 *
 * Of some chunks of 2 MiB a run writes so many pages that a copy of the whole chunk in one large page is made sooner
 * than copies of those: KVM then meets it with one fault, instead of dozens. But large pages are dear to get and to give
 * back. So where a cell has one machine after the other, each for a single run, its keeper keeps them: a file in
 * memory, which a machine maps in place of such chunks and fills from its snapshot, all of it, before anything else
 * happens. Whoever had it before is dead by then, and nothing of him is left in it.
 *
 * It is the only memory of a guest that is not the VMM's own: so it is copied before the VMM forks. */
#ifndef HOTCELL_VMM_SPARE_H
#define HOTCELL_VMM_SPARE_H

#include "vmm/hot.h"

/* The image that chunks are filled from. */
struct spare_image {
	const uint8_t *bytes;
	const struct hot_range *hot;
	uint32_t hot_count;
};

/* Takes the file, if there is one, for up to `most` chunks. Returns 0, also if it does without; -1 with *e if memory is
 * not what it should be. */
int spare_take(const struct mem *m, const struct spare_image *image, uint32_t most, struct err *e);
/* Whether the chunk is one of those, and how they become again what the image has. */
bool spare_has(uint64_t chunk);
void spare_reset(const struct mem *m, const uint8_t *image);
/* From here on there are none: all memory is our own. Returns 0 or -1. */
int spare_leave(const struct mem *m);

#endif
