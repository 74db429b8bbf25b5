/* call_time: clocks, sleep and timers. */
#ifndef HOTCELL_VMM_CALL_TIME_H
#define HOTCELL_VMM_CALL_TIME_H

#include "vmm/guest.h"

int64_t call_clock_gettime(struct guest *g, const uint64_t a[6]);
int64_t call_clock_getres(struct guest *g, const uint64_t a[6]);
int64_t call_gettimeofday(struct guest *g, const uint64_t a[6]);
int64_t call_time(struct guest *g, const uint64_t a[6]);
int64_t call_nanosleep(struct guest *g, const uint64_t a[6]);
int64_t call_clock_nanosleep(struct guest *g, const uint64_t a[6]);
int64_t call_alarm(struct guest *g, const uint64_t a[6]);
int64_t call_getitimer(struct guest *g, const uint64_t a[6]);
int64_t call_setitimer(struct guest *g, const uint64_t a[6]);
int64_t call_timer_create(struct guest *g, const uint64_t a[6]);
int64_t call_timer_settime(struct guest *g, const uint64_t a[6]);
int64_t call_timer_gettime(struct guest *g, const uint64_t a[6]);
int64_t call_timer_getoverrun(struct guest *g, const uint64_t a[6]);
int64_t call_timer_delete(struct guest *g, const uint64_t a[6]);

/* A child by fork has none of its parent's timers. */
void time_forget_timers(void);

#endif
