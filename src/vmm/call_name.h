/* call_name: names that come and go, and what is written about a file: modes, owners, times. Passed on
 * to the host, which knows what a cell may change. */
#ifndef HOTCELL_VMM_CALL_NAME_H
#define HOTCELL_VMM_CALL_NAME_H

#include "vmm/guest.h"

int64_t call_mkdir(struct guest *g, const uint64_t a[6]);
int64_t call_mkdirat(struct guest *g, const uint64_t a[6]);
int64_t call_mknod(struct guest *g, const uint64_t a[6]);
int64_t call_mknodat(struct guest *g, const uint64_t a[6]);
int64_t call_rmdir(struct guest *g, const uint64_t a[6]);
int64_t call_unlink(struct guest *g, const uint64_t a[6]);
int64_t call_unlinkat(struct guest *g, const uint64_t a[6]);
int64_t call_rename(struct guest *g, const uint64_t a[6]);
int64_t call_renameat(struct guest *g, const uint64_t a[6]);
int64_t call_renameat2(struct guest *g, const uint64_t a[6]);
int64_t call_link(struct guest *g, const uint64_t a[6]);
int64_t call_linkat(struct guest *g, const uint64_t a[6]);
int64_t call_symlink(struct guest *g, const uint64_t a[6]);
int64_t call_symlinkat(struct guest *g, const uint64_t a[6]);
int64_t call_chmod(struct guest *g, const uint64_t a[6]);
int64_t call_fchmod(struct guest *g, const uint64_t a[6]);
int64_t call_fchmodat(struct guest *g, const uint64_t a[6]);
int64_t call_chown(struct guest *g, const uint64_t a[6]);
int64_t call_lchown(struct guest *g, const uint64_t a[6]);
int64_t call_fchown(struct guest *g, const uint64_t a[6]);
int64_t call_fchownat(struct guest *g, const uint64_t a[6]);
int64_t call_truncate(struct guest *g, const uint64_t a[6]);
int64_t call_utime(struct guest *g, const uint64_t a[6]);
int64_t call_utimes(struct guest *g, const uint64_t a[6]);
int64_t call_futimesat(struct guest *g, const uint64_t a[6]);
int64_t call_utimensat(struct guest *g, const uint64_t a[6]);
int64_t call_umask(struct guest *g, const uint64_t a[6]);

#endif
