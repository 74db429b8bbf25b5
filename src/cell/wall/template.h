/* template: the root that every cell of a warden starts from, built once.
 *
 * While it is built the warden's own root is a small tmpfs:
 *
 *	/host      the machine's root, gone once the template is sealed
 *	/proc      the machine's /proc: the kernel lets a cell mount its own only if one is in view
 *	/cell      the template: read-only, everything in it nosuid
 *	/needs/N   directories that languages need besides, shown to the cells that ask for them
 *	/mounts/N  directories below which cells may ask for mounts: host_dirs.h
 *	/null      the machine's /dev/null, where the template has none
 *	/vmm       hotcell-vmm, likewise: read-only, whoever owns it
 */
#ifndef HOTCELL_CELL_WALL_TEMPLATE_H
#define HOTCELL_CELL_WALL_TEMPLATE_H

#include "base/err.h"
#include "cell/wall/host_dirs.h"

#include <stdbool.h>

#define CELL_ROOT    "/cell"
#define CELL_DRIVERS "/opt/hotcell/drivers" /* as seen inside a cell */

enum { TEMPLATE_NEEDS_MAX = 64 };

struct template
{
	int host_fd;      /* the machine's root, -1 once sealed */
	const char *null; /* where /dev/null is, until the cell has its root */
	unsigned needs_count;
	char *needs[TEMPLATE_NEEDS_MAX]; /* absolute; /needs/<index> shows it */
	struct host_dirs host_dirs;
};

struct template_options {
	const char *drivers;           /* or NULL */
	const char *const *mount_dirs; /* NULL-terminated, or NULL; they stay */
	bool host_network;
	/* hotcell-vmm, or NULL. With it there are neither devices nor /proc, which it makes up; and it
	 * is opened as VMM_SELF_FD. */
	const char *vmm;
};

/* Expects a mount namespace of our own. */
int template_build(struct template *t, const struct template_options *options, struct err *e);
/* Lets cells ask for `path` (absolute, a directory or file). */
int template_allow(struct template *t, const char *path, struct err *e);
int template_seal(struct template *t, struct err *e);
/* Index of an allowed path, or -1. */
int template_find_need(const struct template *t, const char *path);

#endif
