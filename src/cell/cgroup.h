/* cgroup: the kernel's limits and counters for a whole cell, over version 1 or version 2.
 *
 * A warden makes its groups in the directory, of each hierarchy, in which it is itself (or, on
 * version 2, may make some), one per cell, called hotcell-<who>-<number>. Everything is reached through directory descriptors that were opened before the
 * warden gave up its view of the host's files. */
#ifndef HOTCELL_CELL_CGROUP_H
#define HOTCELL_CELL_CGROUP_H

#include "base/err.h"
#include "wire/limits.h"
#include "wire/warden_wire.h"

#include <stdbool.h>
#include <stdint.h>

enum controller {
	CONTROLLER_MEMORY,
	CONTROLLER_PIDS,
	CONTROLLER_CPUACCT,
	CONTROLLER_CPU,
	CONTROLLER_COUNT,
};

struct cgroup_tree {
	int version;                  /* 0 = none is writable */
	int dir_fd[CONTROLLER_COUNT]; /* where groups are made; -1 = not to be had */
	bool has_cpus;
	unsigned tasks_each;                 /* a process counts as so many */
	char prefix[128];                    /* of our groups' names */
	char why_not[CONTROLLER_COUNT][256]; /* for whoever asks what is missing */
};

enum cgroup_figure { FIGURE_CPU, FIGURE_MEMORY, FIGURE_OOM, FIGURE_PIDS, FIGURE_COUNT };

struct cgroup {
	const struct cgroup_tree *tree;
	int fd[CONTROLLER_COUNT];
	int figure_fd[FIGURE_COUNT]; /* files of usage, kept open */
	struct limits limits;        /* as written; 0 = none yet */
	char name[160];
};

/* Never fails: what cannot be had is -1 in dir_fd, and why_not says why. */
void cgroup_tree_open(struct cgroup_tree *t);
void cgroup_tree_close(struct cgroup_tree *t);
/* Removes what dead wardens left. */
void cgroup_tree_sweep(const struct cgroup_tree *t);

/* The LIMIT_BITs that groups of this tree hold. */
uint32_t cgroup_tree_holds(const struct cgroup_tree *t);
/* Why it does not hold this one, "" if that is not known or no group ever would. */
const char *cgroup_tree_why_not(const struct cgroup_tree *t, enum limit limit);

/* A group without limits. The cpu controller is slow to make on version 1 and rarely needed there:
 * only `with_cpus` asks for it. */
int cgroup_make(const struct cgroup_tree *t, uint32_t number, bool with_cpus, struct cgroup *ret,
	struct err *e);
/* Writes what differs from what was set before. */
int cgroup_set_limits(struct cgroup *g, const struct limits *limits, struct err *e);

/* How a child gets in. Version 2: ret_into is for clone3(CLONE_INTO_CGROUP). Version 1: the child
 * writes "0" to each of ret_tasks, opened here. (Writing a pid from outside would cost
 * milliseconds: the kernel waits for a grace period.) Returns how many there are. */
int cgroup_entrances(const struct cgroup *g, int *ret_into, int ret_tasks[CONTROLLER_COUNT]);

void cgroup_read_usage(const struct cgroup *g, struct usage *ret);
/* The file that tells the peak of its memory; -1 if there is none. */
int cgroup_peak_fd(const struct cgroup *g);
/* Peaks count from here, if this kernel can do that: another run begins. */
void cgroup_forget_peak(const struct cgroup *g);
/* SIGKILL to all that is in it. */
void cgroup_kill(const struct cgroup *g);
/* False if it is still busy: try again. Closes the descriptors once it is gone. */
bool cgroup_remove(struct cgroup *g);
void cgroup_forget(struct cgroup *g); /* no group: all -1 */

#endif
