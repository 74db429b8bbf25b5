/* areas: the list of what is mapped, in order. Used by mem.c alone; what others may ask is in mem.h. */
#ifndef HOTCELL_VMM_AREAS_H
#define HOTCELL_VMM_AREAS_H

#include "vmm/mem.h"

/* In place of whatever is there; joined with its neighbours if it can be. */
int areas_set(struct mem *m, const struct area *area);
/* So that no area is on both sides of the address. */
int areas_split(struct mem *m, uint64_t at);
/* By their numbers; `to` is the first that stays. */
void areas_delete(struct mem *m, uint32_t from, uint32_t to);

#endif
