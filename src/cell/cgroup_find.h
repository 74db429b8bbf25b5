/* cgroup_find: where in which hierarchy this process may make groups. */
#ifndef HOTCELL_CELL_CGROUP_FIND_H
#define HOTCELL_CELL_CGROUP_FIND_H

#include "base/buf.h"
#include "cell/cgroup.h"

#include <stdbool.h>

/* What /proc says of us, read once. */
struct cgroup_facts {
	struct buf groups; /* /proc/self/cgroup */
	struct buf mounts; /* /proc/self/mountinfo */
};

int cgroup_facts_read(struct cgroup_facts *f);
void cgroup_facts_free(struct cgroup_facts *f);

/* Directory of this process in the version 1 hierarchy of `controller`, or -1. */
int cgroup1_own_dir(const struct cgroup_facts *f, const char *controller);

/* The nearest directory at or above our own in the version 2 hierarchy in which groups with
 * memory and pids limits can be made; moves us (and the engine, if it is alone with us) into a
 * leaf of it where the kernel demands that. -1 with a reason. */
int cgroup2_usable_dir(const struct cgroup_facts *f, bool *ret_has_cpu, char *why_not, size_t size);

#endif
