/* keeper: the one process of ours inside a cell.
 *
 * It holds the control socket, stages and reads files, starts the program, passes on what that
 * prints, and knows when everything of it has ended. It is pid 1 of a container cell and a
 * subreaper in a process cell, and it has no rights that the program lacks. */
#ifndef HOTCELL_KEEPER_KEEPER_H
#define HOTCELL_KEEPER_KEEPER_H

#include "base/tsc.h"

#include <stdbool.h>

struct keeper_options {
	int control_fd;  /* frames of wire/cell_wire.h */
	int lifeline_fd; /* bytes are orders of the warden; its end means: die */
	const char *workspace;
	const char *tmp;
	/* kill(-1) reaches the cell's processes and nobody else's: it has a pid namespace or a
	 * user id of its own. */
	bool kill_all_is_safe;
	/* The disk limit is that of the file system (a tmpfs of the cell's own). */
	bool owns_disk;
	/* Programs are guests of hotcell-vmm, whose descriptors (wire/vmm_start.h) are open; there
	 * is neither /dev nor /proc. */
	bool runs_vmm;
	const struct tsc_mark *started; /* some time ago; for guests' clocks. May be NULL */
	unsigned tasks_each; /* what the kernel counts for one of its processes; 0 is 1 */
};

/* Serves until the engine hangs up or the lifeline ends; returns when nothing but the keeper is
 * left in the cell. */
void keeper_main(const struct keeper_options *options);

#endif
