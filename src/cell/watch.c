#include "cell/watch.h"

#include "base/fd.h"
#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROCESSES_MAX = 8192 };

struct process {
	pid_t pid;
	pid_t parent;
	uint64_t cpu_ticks;
	bool chosen;
};

static bool read_stat(int proc_fd, const char *name, struct process *ret)
{
	char path[64];
	char text[1024];
	unsigned long long ticks[4] = { 0 };
	char *paren;
	int parent;

	snprintf(path, sizeof(path), "%.20s/stat", name);
	if (fd_read_text(proc_fd, path, text, sizeof(text)))
		return false;
	/* The program chose the name in the parentheses: look behind the last one. */
	paren = strrchr(text, ')');
	if (!paren || sscanf(paren + 1,
			      " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
			      &parent, &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 5)
		return false;
	ret->pid = (pid_t)strtol(name, NULL, 10);
	ret->parent = parent;
	ret->cpu_ticks = ticks[0] + ticks[1] + ticks[2] + ticks[3];
	ret->chosen = false;
	return true;
}

static uint64_t pss_bytes(int proc_fd, pid_t pid)
{
	char path[64];
	char text[2048];
	unsigned long long pages;
	char *at;

	snprintf(path, sizeof(path), "%ld/smaps_rollup", (long)pid);
	if (fd_read_text(proc_fd, path, text, sizeof(text)) == 0) {
		at = strstr(text, "\nPss:");
		return at ? strtoull(at + 5, NULL, 10) * 1024 : 0;
	}
	/* Not ours to read (a program that nobody may read makes its memory so): all of its pages
	 * then, shared or not. Hiding does not make a process smaller. */
	snprintf(path, sizeof(path), "%ld/statm", (long)pid);
	if (fd_read_text(proc_fd, path, text, sizeof(text)) ||
		sscanf(text, "%*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static size_t list(int proc_fd, struct process *all)
{
	DIR *dir = fdopendir(openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) && count < PROCESSES_MAX)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			read_stat(proc_fd, entry->d_name, &all[count]))
			count++;
	if (dir)
		closedir(dir);
	return count;
}

static void sum(int proc_fd, const struct process *all, size_t count, struct watch_sum *ret)
{
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);

	*ret = (struct watch_sum){ 0 };
	for (size_t i = 0; i < count; i++) {
		if (!all[i].chosen)
			continue;
		ret->memory_bytes += pss_bytes(proc_fd, all[i].pid);
		ret->cpu_us += all[i].cpu_ticks * tick_us;
		ret->processes++;
	}
	if (ret->processes)
		ret->processes--;
}

/* One warden looks at one cell at a time. */
static struct process table[PROCESSES_MAX];

void watch_descendants(pid_t keeper, struct watch_sum *ret)
{
	auto_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t count = list(proc_fd, table);
	bool found = true;

	for (size_t i = 0; i < count; i++)
		table[i].chosen = table[i].pid == keeper;
	while (found) {
		found = false;
		for (size_t i = 0; i < count; i++)
			for (size_t k = 0; !table[i].chosen && k < count; k++)
				if (table[k].chosen && table[k].pid == table[i].parent)
					found = table[i].chosen = true;
	}
	sum(proc_fd, table, count, ret);
}
