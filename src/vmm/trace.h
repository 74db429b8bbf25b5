/* trace: a guest's system calls, one line each, as strace shows them. */
#ifndef HOTCELL_VMM_TRACE_H
#define HOTCELL_VMM_TRACE_H

#include "vmm/guest.h"

void trace_call(struct guest *g, const struct call *call, int64_t result);
/* The first program's own start, which it did not ask for. */
void trace_start(struct guest *g);
/* It does not come back, or as another thread: it must be told before. */
bool trace_ends(const struct call *call);

#endif
