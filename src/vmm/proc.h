/* proc: files that are made up: /proc, /dev, and a little of /sys. Our root has none of them; what a
 * program finds there is about itself and its machine, never about the host. */
#ifndef HOTCELL_VMM_PROC_H
#define HOTCELL_VMM_PROC_H

#include "vmm/guest.h"

#include <sys/stat.h>

/* One of them, found by proc_find(). */
struct made {
	int row;    /* in the table */
	int number; /* of a descriptor, where the name is one */
};

/* Whether an absolute, normalised path is one of them. */
bool proc_find(struct guest *g, const char *path, struct made *ret);
/* The path of a made-up directory, by fds_row(). */
const char *proc_row_path(int row);

/* A new descriptor, or a negative errno. */
int64_t proc_open(struct guest *g, const struct made *made, int flags, bool follows);
/* Each 0 or a negative errno. */
int proc_stat(struct guest *g, const struct made *made, bool follows, struct stat *ret);
void proc_stat_row(int row, struct stat *ret);
int proc_access(struct guest *g, const struct made *made, int mode);
/* The length, or -EINVAL if it is no link. The text ends with a NUL. */
int proc_readlink(struct guest *g, const struct made *made, char *ret, size_t size);

#endif
