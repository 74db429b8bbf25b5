/* call_misc: who a program is, and on what machine. */
#ifndef HOTCELL_VMM_CALL_MISC_H
#define HOTCELL_VMM_CALL_MISC_H

#include "vmm/guest.h"

int64_t call_zero(struct guest *g, const uint64_t a[6]); /* succeeds without doing anything */
int64_t call_enosys(struct guest *g, const uint64_t a[6]);
int64_t call_eperm(struct guest *g, const uint64_t a[6]);
int64_t call_getpid(struct guest *g, const uint64_t a[6]);
int64_t call_gettid(struct guest *g, const uint64_t a[6]);
int64_t call_getppid(struct guest *g, const uint64_t a[6]);
int64_t call_getpgrp(struct guest *g, const uint64_t a[6]);
int64_t call_getpgid(struct guest *g, const uint64_t a[6]);
int64_t call_setpgid(struct guest *g, const uint64_t a[6]);
int64_t call_getsid(struct guest *g, const uint64_t a[6]);
int64_t call_setsid(struct guest *g, const uint64_t a[6]);
int64_t call_get_id(struct guest *g, const uint64_t a[6]);
int64_t call_getresid(struct guest *g, const uint64_t a[6]);
int64_t call_set_id(struct guest *g, const uint64_t a[6]);
int64_t call_set_two_ids(struct guest *g, const uint64_t a[6]);
int64_t call_set_three_ids(struct guest *g, const uint64_t a[6]);
int64_t call_getgroups(struct guest *g, const uint64_t a[6]);
int64_t call_capget(struct guest *g, const uint64_t a[6]);
int64_t call_arch_prctl(struct guest *g, const uint64_t a[6]);
int64_t call_prctl(struct guest *g, const uint64_t a[6]);
int64_t call_set_tid_address(struct guest *g, const uint64_t a[6]);
int64_t call_uname(struct guest *g, const uint64_t a[6]);
int64_t call_sysinfo(struct guest *g, const uint64_t a[6]);
int64_t call_getrandom(struct guest *g, const uint64_t a[6]);

#endif
