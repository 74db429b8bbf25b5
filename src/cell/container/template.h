/* template: the root that every container cell of a warden starts from, built once.
 *
 * While it is built the warden's own root is a small tmpfs:
 *
 *	/host      the machine's root, gone once the template is sealed
 *	/proc      the machine's /proc: the kernel lets a cell mount its own only if one is in view
 *	/cell      the template: read-only, everything in it nosuid
 *	/needs/N   directories that languages need besides, shown to the cells that ask for them
 */
#ifndef HOTCELL_CELL_CONTAINER_TEMPLATE_H
#define HOTCELL_CELL_CONTAINER_TEMPLATE_H

#include "base/err.h"

#include <stdbool.h>

#define CELL_ROOT    "/cell"
#define CELL_DRIVERS "/opt/hotcell/drivers" /* as seen inside a cell */

enum { TEMPLATE_NEEDS_MAX = 64 };

struct template
{
	int host_fd; /* the machine's root, -1 once sealed */
	unsigned needs_count;
	char *needs[TEMPLATE_NEEDS_MAX]; /* absolute; /needs/<index> shows it */
};

/* Expects a mount namespace of our own. `drivers` may be NULL. */
int template_build(struct template *t, const char *drivers, bool host_network, struct err *e);
/* Lets cells ask for `path` (absolute, a directory or file). */
int template_allow(struct template *t, const char *path, struct err *e);
int template_seal(struct template *t, struct err *e);
/* Index of an allowed path, or -1. */
int template_find_need(const struct template *t, const char *path);

#endif
