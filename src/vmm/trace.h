/* trace: a guest's system calls, one line each, as strace shows them. */
#ifndef HOTCELL_VMM_TRACE_H
#define HOTCELL_VMM_TRACE_H

#include "vmm/guest.h"

void trace_call(struct guest *g, const struct call *call, int64_t result);

#endif
