/* call_fd: descriptors themselves: copies, flags, locks, and those that are no files. */
#ifndef HOTCELL_VMM_CALL_FD_H
#define HOTCELL_VMM_CALL_FD_H

#include "vmm/guest.h"

int64_t call_close(struct guest *g, const uint64_t a[6]);
int64_t call_close_range(struct guest *g, const uint64_t a[6]);
int64_t call_dup(struct guest *g, const uint64_t a[6]);
int64_t call_dup2(struct guest *g, const uint64_t a[6]);
int64_t call_dup3(struct guest *g, const uint64_t a[6]);
int64_t call_fcntl(struct guest *g, const uint64_t a[6]);
int64_t call_flock(struct guest *g, const uint64_t a[6]);
int64_t call_ioctl(struct guest *g, const uint64_t a[6]);
int64_t call_pipe(struct guest *g, const uint64_t a[6]);
int64_t call_pipe2(struct guest *g, const uint64_t a[6]);
int64_t call_memfd_create(struct guest *g, const uint64_t a[6]);
int64_t call_eventfd(struct guest *g, const uint64_t a[6]);
int64_t call_eventfd2(struct guest *g, const uint64_t a[6]);
int64_t call_timerfd_create(struct guest *g, const uint64_t a[6]);
int64_t call_timerfd_settime(struct guest *g, const uint64_t a[6]);
int64_t call_timerfd_gettime(struct guest *g, const uint64_t a[6]);
int64_t call_inotify_init(struct guest *g, const uint64_t a[6]);
int64_t call_inotify_init1(struct guest *g, const uint64_t a[6]);
int64_t call_inotify_add_watch(struct guest *g, const uint64_t a[6]);
int64_t call_inotify_rm_watch(struct guest *g, const uint64_t a[6]);

#endif
