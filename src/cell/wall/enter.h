/* enter: a child's way into a cell behind a wall. */
#ifndef HOTCELL_CELL_WALL_ENTER_H
#define HOTCELL_CELL_WALL_ENTER_H

#include "cell/wall/template.h"
#include "cell/spec.h"

#include <linux/filter.h>

enum { CELL_UID = 1000 }; /* inside */

struct entry {
	const struct cell_spec *spec;
	const struct template *template;
	const struct sock_fprog *filter;
	int landlock_abi;
	bool holds_vmm;
	const bool *mask_exists; /* by the order of enter_masks() */
	int mapped_fd;           /* read end: a byte comes once the id map is written */
	int tasks[CONTROLLER_COUNT];
	int tasks_count;
};

/* Takes the steps in order; returns 0 in the finished cell, or -1 with the step's name in *e. */
int enter(struct entry *entry, struct err *e);

/* Files of /proc that are masked. */
enum { ENTER_MASKS_MAX = 32 };
unsigned enter_masks(const char *const **ret);

enum step_where { STEP_ANYWHERE, STEP_IN_CONTAINER, STEP_IN_VM };

/* One line per step: name, reason. For `hotcell doctor --explain`. */
struct step_text {
	const char *name;
	const char *why;
	enum step_where where;
};
unsigned enter_steps(const struct step_text **ret);

#endif
