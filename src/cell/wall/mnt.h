/* mnt: mounting by descriptor, which races with nobody. */
#ifndef HOTCELL_CELL_WALL_MNT_H
#define HOTCELL_CELL_WALL_MNT_H

#include "base/err.h"

#include <stdbool.h>

enum mnt_flags {
	MNT_RDONLY_FLAG = 1 << 0,
	MNT_NODEV_FLAG = 1 << 1,
	MNT_NOEXEC_FLAG = 1 << 2,
	/* nosuid is always set */
};

/* Shows what `source_fd` refers to (with all that is mounted below it) at `target`, a path of the
 * calling process. */
int mnt_bind_fd(int source_fd, const char *target, unsigned flags, struct err *e);
/* The same for a directory alone: what is mounted below it, now or later, is not shown. Fails with EINVAL
 * where the kernel does not let us leave it out: it would uncover what that covers. */
int mnt_bind_fd_alone(int source_fd, const char *target, unsigned flags, struct err *e);
/* The same for a path of the calling process; not its submounts. */
int mnt_bind(const char *source, const char *target, unsigned flags, struct err *e);
/* Adds flags to the mount at `target`. */
int mnt_restrict(const char *target, unsigned flags, bool recursive, struct err *e);
/* A /proc of the calling process's pid namespace that is mounted nowhere: its processes, and nothing
 * of the machine. A descriptor, or -1. */
int mnt_proc(struct err *e);
int mnt_tmpfs(const char *target, const char *options, unsigned flags, struct err *e);
/* Makes `new_root` the root and lets go of the old one. With `keep_old_at` (a directory beneath
 * the new root) the old one stays there. */
int mnt_pivot(const char *new_root, const char *keep_old_at, struct err *e);

#endif
