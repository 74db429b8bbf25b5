#include "keeper/tree.h"

#include "base/own.h"
#include "base/processes.h"
#include "wire/vmm_start.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { TREE_MAX = 4096 };

static struct process all[TREE_MAX];

static size_t list_all(void)
{
	/* A vm cell has no /proc in its root. */
	auto_close int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return processes_list(fd >= 0 ? fd : VMM_PROC_FD, all, TREE_MAX);
}

static void kill_chosen(size_t count)
{
	processes_choose_children(all, count);
	for (size_t i = 0; i < count; i++)
		if (all[i].chosen && all[i].pid != getpid())
			kill(all[i].pid, SIGKILL);
}

void tree_kill_descendants(void)
{
	size_t count = list_all();

	for (size_t i = 0; i < count; i++)
		all[i].chosen = all[i].parent == getpid();
	kill_chosen(count);
}

void tree_kill(pid_t pid)
{
	size_t count = list_all();

	for (size_t i = 0; i < count; i++)
		all[i].chosen = all[i].pid == pid || all[i].session == pid;
	kill_chosen(count);
}
