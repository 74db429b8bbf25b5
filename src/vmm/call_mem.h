/* call_mem: mmap and its like. */
#ifndef HOTCELL_VMM_CALL_MEM_H
#define HOTCELL_VMM_CALL_MEM_H

#include "vmm/guest.h"

int64_t call_mmap(struct guest *g, const uint64_t a[6]);
int64_t call_munmap(struct guest *g, const uint64_t a[6]);
int64_t call_mprotect(struct guest *g, const uint64_t a[6]);
int64_t call_mremap(struct guest *g, const uint64_t a[6]);
int64_t call_madvise(struct guest *g, const uint64_t a[6]);
int64_t call_brk(struct guest *g, const uint64_t a[6]);
int64_t call_msync(struct guest *g, const uint64_t a[6]);
int64_t call_mincore(struct guest *g, const uint64_t a[6]);

#endif
