/* processes: what /proc tells of them. */
#ifndef HOTCELL_BASE_PROCESSES_H
#define HOTCELL_BASE_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;
	pid_t parent;
	pid_t session;
	uint64_t cpu_ticks; /* with those of its children that it has waited for */
	bool chosen;        /* the caller's */
};

/* Of /proc/`name`. Not if it is gone. */
bool process_read(int proc_fd, const char *name, struct process *ret);
/* All of them, at most `max`: how many. */
size_t processes_list(int proc_fd, struct process *all, size_t max);
/* Whoever descends from a chosen one is chosen, too. */
void processes_choose_children(struct process *all, size_t count);

#endif
