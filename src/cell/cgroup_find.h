/* cgroup_find: where in which hierarchy this process may make groups. */
#ifndef HOTCELL_CELL_CGROUP_FIND_H
#define HOTCELL_CELL_CGROUP_FIND_H

#include "cell/cgroup.h"

/* Directory of this process in the version 1 hierarchy of `controller`, or -1. */
int cgroup1_own_dir(const char *controller);

/* The nearest directory at or above our own in the version 2 hierarchy in which groups with
 * memory, pids and cpu limits can be made; moves us (and the engine, if it is alone with us) into
 * a leaf of it where the kernel demands that. -1 with a reason. */
int cgroup2_usable_dir(char *why_not, size_t size);

#endif
