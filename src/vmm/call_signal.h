/* call_signal: calls that have to do with signals. */
#ifndef HOTCELL_VMM_CALL_SIGNAL_H
#define HOTCELL_VMM_CALL_SIGNAL_H

#include "vmm/guest.h"

int64_t call_rt_sigaction(struct guest *g, const uint64_t a[6]);
int64_t call_rt_sigprocmask(struct guest *g, const uint64_t a[6]);
int64_t call_rt_sigsuspend(struct guest *g, const uint64_t a[6]);
int64_t call_rt_sigpending(struct guest *g, const uint64_t a[6]);
int64_t call_rt_sigtimedwait(struct guest *g, const uint64_t a[6]);
int64_t call_sigaltstack(struct guest *g, const uint64_t a[6]);
int64_t call_kill(struct guest *g, const uint64_t a[6]);
int64_t call_tkill(struct guest *g, const uint64_t a[6]);
int64_t call_tgkill(struct guest *g, const uint64_t a[6]);
int64_t call_rt_sigqueueinfo(struct guest *g, const uint64_t a[6]);
int64_t call_pidfd_send_signal(struct guest *g, const uint64_t a[6]);
int64_t call_pause(struct guest *g, const uint64_t a[6]);

#endif
