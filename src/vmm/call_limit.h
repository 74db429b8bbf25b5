/* call_limit: how much a program may use, and when it has its turn. */
#ifndef HOTCELL_VMM_CALL_LIMIT_H
#define HOTCELL_VMM_CALL_LIMIT_H

#include "vmm/guest.h"

int64_t call_getrlimit(struct guest *g, const uint64_t a[6]);
int64_t call_setrlimit(struct guest *g, const uint64_t a[6]);
int64_t call_prlimit64(struct guest *g, const uint64_t a[6]);
int64_t call_getrusage(struct guest *g, const uint64_t a[6]);
int64_t call_times(struct guest *g, const uint64_t a[6]);
int64_t call_sched_yield(struct guest *g, const uint64_t a[6]);
int64_t call_sched_getaffinity(struct guest *g, const uint64_t a[6]);
int64_t call_sched_setaffinity(struct guest *g, const uint64_t a[6]);
int64_t call_sched_getscheduler(struct guest *g, const uint64_t a[6]);
int64_t call_sched_setscheduler(struct guest *g, const uint64_t a[6]);
int64_t call_sched_setparam(struct guest *g, const uint64_t a[6]);
int64_t call_sched_get_priority_max(struct guest *g, const uint64_t a[6]);
int64_t call_sched_get_priority_min(struct guest *g, const uint64_t a[6]);
int64_t call_sched_rr_get_interval(struct guest *g, const uint64_t a[6]);
int64_t call_sched_getparam(struct guest *g, const uint64_t a[6]);
int64_t call_getpriority(struct guest *g, const uint64_t a[6]);
int64_t call_setpriority(struct guest *g, const uint64_t a[6]);
int64_t call_getcpu(struct guest *g, const uint64_t a[6]);
int64_t call_membarrier(struct guest *g, const uint64_t a[6]);

#endif
