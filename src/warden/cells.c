#include "warden/cells.h"

#include "base/clock.h"
#include "base/own.h"
#include "cell/watch.h"

#include <signal.h>
#include <sys/syscall.h>

enum {
	SOFT_INTERVAL_US = 20000,
	CPU_INTERVAL_MIN_US = 5000,
	PATIENCE_US = 2000000, /* for a keeper to end its program when told to */
};

struct cell *cells_find(struct cell *list, uint32_t id)
{
	while (list && list->id != id)
		list = list->next;
	return list;
}

void cells_add(struct cell **list, struct cell *cell)
{
	cell->next = *list;
	*list = cell;
}

void cells_take_out(struct cell **list, struct cell *cell)
{
	while (*list && *list != cell)
		list = &(*list)->next;
	if (*list)
		*list = cell->next;
}

void cell_read_usage(struct cell *cell, struct usage *ret)
{
	*ret = cell->watched;
	if (!cell->cgroup.tree)
		return;
	cgroup_read_usage(&cell->cgroup, ret);
	if (ret->cpu_us == 0)
		ret->cpu_us = cell->watched.cpu_us;
}

void cell_tell_usage(struct cell *cell, struct usage *ret)
{
	cell_read_usage(cell, ret);
	ret->cpu_us -= ret->cpu_us < cell->cpu_base_us ? ret->cpu_us : cell->cpu_base_us;
	ret->oom_kills -= cell->oom_base;
}

static void watch(struct cell *cell, struct watch_sum *sum)
{
	watch_descendants(cell->pid, cell->has_namespaces, sum);
	if (sum->memory_bytes > cell->watched.peak_memory_bytes)
		cell->watched.peak_memory_bytes = sum->memory_bytes;
	if (sum->processes > cell->watched.peak_processes)
		cell->watched.peak_processes = sum->processes;
	if (sum->cpu_us > cell->watched.cpu_us)
		cell->watched.cpu_us = sum->cpu_us;
}

/* Asked once: the C library opens files to find out. */
static uint64_t processors(void)
{
	static long n;

	if (n == 0)
		n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (uint64_t)n : 1;
}

/* A cell cannot use its time up faster than with all processors: no need to look before. */
static int64_t cpu_look_us(uint64_t left_us, int64_t now_us)
{
	int64_t wait = (int64_t)(left_us / processors());

	return now_us + (wait < CPU_INTERVAL_MIN_US ? CPU_INTERVAL_MIN_US : wait);
}

void cell_plan_look(struct cell *cell, int64_t now_us)
{
	cell->look_at_us = 0;
	if (cell->limits.at[LIMIT_CPU_MS])
		cell->look_at_us = cpu_look_us(cell->limits.at[LIMIT_CPU_MS] * 1000, now_us);
	if (cell->soft && (cell->look_at_us == 0 || now_us + SOFT_INTERVAL_US < cell->look_at_us))
		cell->look_at_us = now_us + SOFT_INTERVAL_US;
}

enum order cell_look(struct cell *cell, int64_t now_us)
{
	uint64_t cpu_limit_us = cell->limits.at[LIMIT_CPU_MS] * 1000;
	uint64_t memory_limit = cell->limits.at[LIMIT_MEMORY_BYTES];
	struct watch_sum sum = { 0 };
	struct usage usage;
	uint64_t used_us;

	if (cell->soft)
		watch(cell, &sum);
	cell_read_usage(cell, &usage);
	used_us = usage.cpu_us > cell->cpu_base_us ? usage.cpu_us - cell->cpu_base_us : 0;
	if ((cell->soft & LIMIT_BIT(LIMIT_MEMORY_BYTES)) && memory_limit &&
		sum.memory_bytes > memory_limit)
		return ORDER_MEMORY;
	if (cpu_limit_us && used_us >= cpu_limit_us)
		return ORDER_CPU;
	cell->look_at_us = cpu_limit_us ? cpu_look_us(cpu_limit_us - used_us, now_us) : 0;
	if (cell->soft && (cell->look_at_us == 0 || now_us + SOFT_INTERVAL_US < cell->look_at_us))
		cell->look_at_us = now_us + SOFT_INTERVAL_US;
	return ORDER_NONE;
}

void cell_give_order(struct cell *cell, enum order order, int64_t now_us)
{
	char byte = (char)order;

	if (cell->kill_at_us == 0 && order != ORDER_INTERRUPT)
		cell->kill_at_us = now_us + PATIENCE_US;
	/* A full pipe means that it has orders enough. */
	if (cell->lifeline_fd < 0 || write(cell->lifeline_fd, &byte, 1) < 0)
		return;
}

void cell_dismiss(struct cell *cell, int64_t now_us)
{
	if (cell->lifeline_fd >= 0)
		close(take_fd(&cell->lifeline_fd));
	cell->kill_at_us = now_us + PATIENCE_US;
}

void cell_kill(struct cell *cell)
{
	if (cell->lifeline_fd >= 0)
		close(take_fd(&cell->lifeline_fd));
	syscall(SYS_pidfd_send_signal, cell->pid_fd, SIGKILL, NULL, 0);
	if (cell->cgroup.tree)
		cgroup_kill(&cell->cgroup);
}
