/* spec: what the warden wants of a cell, and what a cell is while it is being made. */
#ifndef HOTCELL_CELL_SPEC_H
#define HOTCELL_CELL_SPEC_H

#include "base/err.h"
#include "cell/cgroup.h"
#include "wire/limits.h"
#include "wire/warden_wire.h"

#include <stdbool.h>
#include <sys/types.h>

/* A directory of the machine, shown as /mnt/name. */
struct cell_mount {
	unsigned dir;      /* which of the directories that the warden was given */
	const char *below; /* the path from there; "" = that very directory */
	const char *name;
};

struct cell_spec {
	struct limits limits;
	enum network_kind network;
	uid_t uid; /* host id of its own, or ours where there is no other */
	gid_t gid;
	const struct cgroup *cgroup;
	unsigned needs[MAKE_BINDS_MAX]; /* indices into the template's needs */
	unsigned needs_count;
	struct cell_mount mounts[MOUNTS_MAX];
	unsigned mounts_count;
	int control_fd;  /* all three are the child's from here on */
	int lifeline_fd; /* read end */
	int report_fd;   /* write end: the child says here why it failed */
};

/* What stands in a cell's process before the keeper takes over. */
struct cell_inside {
	const char *workspace;
	const char *tmp;
	bool kill_all_is_safe;
	bool owns_disk;
	bool runs_vmm; /* programs are started by way of hotcell-vmm */
};

/* The descriptors of a keeper, at fixed numbers. */
enum { KEEPER_CONTROL_FD = 3, KEEPER_LIFELINE_FD, KEEPER_REPORT_FD, KEEPER_FDS };

#endif
