/* isolation: the kinds of walls, behind one table.
 *
 * A warden serves one kind. `prepare` is called once, `make` for each cell: it returns twice, like
 * fork, but the child never comes back from it: it goes on into `inside` with the cell built
 * around it, and ends. */
#ifndef HOTCELL_CELL_ISOLATION_H
#define HOTCELL_CELL_ISOLATION_H

#include "cell/spec.h"

struct isolation_options {
	const char *drivers; /* directory of hotcell's drivers, or NULL */
	/* Directories below which cells may ask for mounts; NULL-terminated, or NULL. They stay. */
	const char *const *mount_dirs;
	bool host_network;   /* cells may be given the machine's network */
	bool memory_is_soft; /* no cgroup counts it: what a watch cannot see is not to be had */
	void (*inside)(const struct cell_inside *inside);
};

struct isolation_made {
	pid_t pid;
	int pid_fd;
	const char *workspace;
};

struct isolation {
	const char *name;
	enum isolation_kind kind;
	uint32_t holds;               /* LIMIT_BITs that it holds without any cgroup */
	bool holds_network;           /* `network: none` is kept */
	unsigned (*tasks_each)(void); /* what the kernel counts for a process; NULL: it alone */
	int (*prepare)(const struct isolation_options *options, void **ret_state, struct err *e);
	int (*allow)(void *state, const char *path, struct err *e);
	int (*find_need)(void *state, const char *path);
	/* The number of the directory that a mount's source lies below, and the path from there. NULL: it
	 * has no mounts. */
	int (*find_mount)(void *state, const char *source, const char **ret_below, struct err *e);
	int (*seal)(void *state, struct err *e);
	int (*make)(void *state, const struct cell_spec *spec, struct isolation_made *ret,
		struct err *e);
	/* Prepares what the next cell will need; called when there is nothing else to do. */
	void (*get_ahead)(void *state);
	/* Removes what the cell left on the host, once all its processes are gone. */
	void (*clear)(void *state, pid_t pid);
	void (*close)(void *state);
};

const struct isolation *isolation_by_name(const char *name); /* NULL if there is none */

/* For the parent side of every make: raw clone3 with a pidfd and no exit signal, so that no
 * SIGCHLD reaches a program that embeds us. */
pid_t isolation_clone(unsigned long long flags, int into_cgroup, int *ret_pid_fd);

/* In the child, when building failed: says why to the warden, and ends. */
_Noreturn void isolation_child_failed(int report_fd, const struct err *e);

#endif
