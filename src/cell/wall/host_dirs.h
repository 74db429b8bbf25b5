/* host_dirs: directories of the machine below which cells may ask for mounts.
 *
 * They are named when the warden is started, and opened while it sees the machine's files: /mounts/N of its
 * own root shows each, read-only. What a cell asks for is looked up by the cell's own process, as the cell's
 * user, beneath that mount and through no symlink: whoever may write there cannot lead it elsewhere. */
#ifndef HOTCELL_CELL_WALL_HOST_DIRS_H
#define HOTCELL_CELL_WALL_HOST_DIRS_H

#include "cell/spec.h"

struct host_dirs {
	const char *const *paths; /* NULL-terminated, or NULL; the caller's */
	char **refused;           /* by the same number: why it cannot be shown; NULL: it can */
};

/* Shows what can be shown of `paths`, as seen from the machine's root. What cannot be is told to who asks
 * for it. */
int host_dirs_open(
	struct host_dirs *h, const char *const *paths, int machine_root_fd, struct err *e);
void host_dirs_close(struct host_dirs *h);
/* The number of the directory that `source` lies below, and what is left of its path. -1: *e says why it
 * cannot be shown. */
int host_dirs_find(
	const struct host_dirs *h, const char *source, const char **ret_below, struct err *e);
/* In a cell's process that may still mount: `mounts` in the root that is being built at `root`. */
int host_dirs_show(
	const char *root, const struct cell_mount *mounts, unsigned count, struct err *e);

#endif
