/* call_util: what the files of calls share that have little in each. */
#ifndef HOTCELL_VMM_CALL_UTIL_H
#define HOTCELL_VMM_CALL_UTIL_H

#include "vmm/guest.h"

#include <errno.h>

#define CALL(name) int64_t call_##name(struct guest *g, const uint64_t a[6])
#define UNUSED                                                                                     \
	(void)g;                                                                                   \
	(void)a
#define HOST(value) ((value) < 0 ? -errno : 0)

/* Where the program wants to have it, if it does. */
static inline int64_t call_put(struct guest *g, uint64_t address, const void *from, size_t size)
{
	return address ? mem_write(&g->mem, address, from, size) : 0;
}

#endif
