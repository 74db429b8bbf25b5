/* call_misc: who, when, how much. */
#ifndef HOTCELL_VMM_CALL_MISC_H
#define HOTCELL_VMM_CALL_MISC_H

#include "vmm/guest.h"

#define CALL(name) int64_t call_##name(struct guest *g, const uint64_t a[6])
CALL(zero); /* succeeds without doing anything */
CALL(enosys);
CALL(eperm);
CALL(getpid);
CALL(gettid);
CALL(getppid);
CALL(getpgrp);
CALL(getpgid);
CALL(setpgid);
CALL(getsid);
CALL(setsid);
CALL(get_id);
CALL(getresid);
CALL(set_id);
CALL(set_two_ids);
CALL(set_three_ids);
CALL(getgroups);
CALL(capget);
CALL(arch_prctl);
CALL(prctl);
CALL(set_tid_address);
CALL(uname);
CALL(sysinfo);
CALL(getrandom);
CALL(getrlimit);
CALL(setrlimit);
CALL(prlimit64);
CALL(getrusage);
CALL(times);
CALL(sched_yield);
CALL(sched_getaffinity);
CALL(sched_setaffinity);
CALL(sched_getscheduler);
CALL(sched_setscheduler);
CALL(sched_setparam);
CALL(sched_get_priority_max);
CALL(sched_get_priority_min);
CALL(sched_rr_get_interval);
CALL(sched_getparam);
CALL(getpriority);
CALL(setpriority);
CALL(getcpu);
CALL(membarrier);
CALL(clock_gettime);
CALL(clock_getres);
CALL(gettimeofday);
CALL(time);
CALL(nanosleep);
CALL(clock_nanosleep);
CALL(alarm);
CALL(getitimer);
CALL(setitimer);
CALL(timer_create);
CALL(timer_settime);
CALL(timer_gettime);
CALL(timer_getoverrun);
CALL(timer_delete);
#undef CALL

/* A child by fork has none of its parent's timers. */
void misc_forget_timers(void);

#endif
