/* call_futex: waiting for a word of memory to change. */
#ifndef HOTCELL_VMM_CALL_FUTEX_H
#define HOTCELL_VMM_CALL_FUTEX_H

#include "vmm/guest.h"

/* Wakes threads of this process that wait there; returns how many. */
unsigned futex_wake(struct guest *g, uint64_t address, unsigned count, uint32_t bits);

int64_t call_futex(struct guest *g, const uint64_t a[6]);

#endif
