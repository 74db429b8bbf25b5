/* mounts: directories of the machine that a cell shows as /mnt/NAME, read-only.
 *
 * Which ones may be asked for is decided by whoever starts a warden: directories, and all below them. What
 * is here says whether a wish can be one at all; engine, decoder and warden each ask. */
#ifndef HOTCELL_WIRE_MOUNTS_H
#define HOTCELL_WIRE_MOUNTS_H

#include "base/err.h"

#include <stddef.h>

#define MOUNTS_PLACE "/mnt" /* in a cell */

enum { MOUNTS_MAX = 8 /* of a cell */, MOUNT_DIRS_MAX = 256 /* of a warden */ };

struct mount_wish {
	const char *source; /* absolute, without '..', '.' and empty names */
	const char *name;   /* one name of [A-Za-z0-9._-] */
};

/* The sentence in *e is one that a user can act on. */
int mounts_check(const struct mount_wish *wishes, size_t count, struct err *e);

/* What is left of `source` below `dir` (which may end with slashes): "" if it is that very directory,
 * NULL if it lies elsewhere. */
const char *mount_below(const char *dir, const char *source);

/* The one of `dirs` (NULL-terminated) that `source` is or lies below, by its number: of several the
 * deepest, which may be another file system. -1: none. */
int mount_find_dir(const char *const *dirs, const char *source);

#endif
