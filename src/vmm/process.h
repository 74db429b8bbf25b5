/* process: processes of the guest, each with a VMM of its own. The host is the process table: a
 * child of the guest is a child of ours, with its number, its end and its descriptors. */
#ifndef HOTCELL_VMM_PROCESS_H
#define HOTCELL_VMM_PROCESS_H

#include "vmm/guest.h"

int64_t call_any_clone(struct guest *g, const uint64_t a[6]); /* threads too */
int64_t call_fork(struct guest *g, const uint64_t a[6]);
int64_t call_vfork(struct guest *g, const uint64_t a[6]);
int64_t call_execve(struct guest *g, const uint64_t a[6]);
int64_t call_execveat(struct guest *g, const uint64_t a[6]);
int64_t call_wait4(struct guest *g, const uint64_t a[6]);
int64_t call_waitid(struct guest *g, const uint64_t a[6]);
int64_t call_pidfd_open(struct guest *g, const uint64_t a[6]);
int64_t call_exit(struct guest *g, const uint64_t a[6]);
int64_t call_exit_group(struct guest *g, const uint64_t a[6]);

#endif
