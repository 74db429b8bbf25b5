/* check: what this machine gives, for `hotcell doctor`. */
#ifndef HOTCELL_WARDEN_CHECK_H
#define HOTCELL_WARDEN_CHECK_H

#include "cell/cgroup.h"
#include "cell/uids.h"
#include "wire/warden_wire.h"

enum { CHECKS_MAX = 24 };

struct checks {
	struct msg_checked rows[CHECKS_MAX]; /* strings are owned */
	size_t count;
};

void checks_gather(struct checks *c, const struct cgroup_tree *tree, const struct uids *uids);
void checks_free(struct checks *c);

#endif
