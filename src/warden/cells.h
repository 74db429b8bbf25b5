/* cells: those that this warden has, each with all that must be undone when it ends. */
#ifndef HOTCELL_WARDEN_CELLS_H
#define HOTCELL_WARDEN_CELLS_H

#include "cell/cgroup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cell {
	struct cell *next;
	uint32_t id;
	pid_t pid;
	int pid_fd;
	int lifeline_fd; /* write end: orders; closing it ends the cell */
	int report_fd;   /* read end: why building failed */
	struct cgroup cgroup;
	uid_t uid;
	struct limits limits;
	bool has_namespaces;
	uint32_t soft;        /* LIMIT_BITs that we must watch ourselves */
	int64_t look_at_us;   /* when to look at its usage next; 0 = never */
	int64_t kill_at_us;   /* it was told to end: when patience is over; 0 = it was not */
	uint64_t cpu_base_us; /* used before the present limits were set */
	uint64_t oom_base;    /* likewise, of processes that were killed for memory */
	struct usage watched; /* what a soft watch saw */
};

struct cell *cells_find(struct cell *list, uint32_t id);
void cells_add(struct cell **list, struct cell *cell);
void cells_take_out(struct cell **list, struct cell *cell);

/* Usage from the cgroup where there is one, else from the watch. */
void cell_read_usage(struct cell *cell, struct usage *ret);
/* The share of what has been used since the present limits were set. */
void cell_tell_usage(struct cell *cell, struct usage *ret);
/* Looks at limits that the kernel does not hold by itself. Returns the order that is due, if any,
 * and sets look_at_us. */
enum order cell_look(struct cell *cell, int64_t now_us);
/* When to look first. */
void cell_plan_look(struct cell *cell, int64_t now_us);
void cell_give_order(struct cell *cell, enum order order, int64_t now_us);
/* Ends the lifeline: the keeper clears up and goes. If it does not, it is killed later. */
void cell_dismiss(struct cell *cell, int64_t now_us);
void cell_kill(struct cell *cell);

#endif
