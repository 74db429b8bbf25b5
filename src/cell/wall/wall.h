/* wall: what a container cell and a vm cell share: namespaces, a root of their own, filters. The wall
 * itself is enter.c's table of steps.
 *
 * With `vmm` (the path of hotcell-vmm, else NULL) a cell's programs are run by it: it makes up /dev and
 * /proc for them, so none are shown, and its descriptors (wire/vmm_start.h) stay open in the keeper.
 * Who asks for that has opened VMM_KVM_FD before. */
#ifndef HOTCELL_CELL_WALL_WALL_H
#define HOTCELL_CELL_WALL_WALL_H

#include "cell/isolation.h"

/* What it holds without any cgroup. */
#define WALL_HOLDS                                                                                 \
	(LIMIT_BIT(LIMIT_WALL_MS) | LIMIT_BIT(LIMIT_PROCESSES) | LIMIT_BIT(LIMIT_DISK_BYTES) |     \
		LIMIT_BIT(LIMIT_FILE_BYTES) | LIMIT_BIT(LIMIT_OPEN_FILES) |                        \
		LIMIT_BIT(LIMIT_OUTPUT_BYTES))

/* For a struct isolation: all that a kind does the same way. */
int wall_prepare(
	const struct isolation_options *options, const char *vmm, void **ret_state, struct err *e);
int wall_allow(void *state, const char *path, struct err *e);
int wall_find_need(void *state, const char *path);
int wall_find_mount(void *state, const char *source, const char **ret_below, struct err *e);
int wall_seal(void *state, struct err *e);
int wall_make(void *state, const struct cell_spec *spec, struct isolation_made *ret, struct err *e);
void wall_get_ahead(void *state);
void wall_clear(void *state, pid_t pid);
void wall_close(void *state);

#endif
