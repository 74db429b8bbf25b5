/* call_xattr: extended attributes. */
#ifndef HOTCELL_VMM_CALL_XATTR_H
#define HOTCELL_VMM_CALL_XATTR_H

#include "vmm/guest.h"

int64_t call_getxattr(struct guest *g, const uint64_t a[6]);
int64_t call_lgetxattr(struct guest *g, const uint64_t a[6]);
int64_t call_fgetxattr(struct guest *g, const uint64_t a[6]);
int64_t call_setxattr(struct guest *g, const uint64_t a[6]);
int64_t call_lsetxattr(struct guest *g, const uint64_t a[6]);
int64_t call_fsetxattr(struct guest *g, const uint64_t a[6]);
int64_t call_listxattr(struct guest *g, const uint64_t a[6]);
int64_t call_llistxattr(struct guest *g, const uint64_t a[6]);
int64_t call_flistxattr(struct guest *g, const uint64_t a[6]);
int64_t call_removexattr(struct guest *g, const uint64_t a[6]);
int64_t call_lremovexattr(struct guest *g, const uint64_t a[6]);
int64_t call_fremovexattr(struct guest *g, const uint64_t a[6]);

#endif
