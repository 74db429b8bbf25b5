#include "keeper/tree.h"

#include "base/fd.h"
#include "base/own.h"
#include "wire/vmm_start.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TREE_MAX = 4096 };

struct node {
	pid_t pid;
	pid_t parent;
	pid_t session;
	bool chosen;
};

static struct node all[TREE_MAX];

static bool read_node(int proc_fd, const char *name, struct node *ret)
{
	char path[64];
	char text[512];
	char *paren;
	int parent;
	int session;

	snprintf(path, sizeof(path), "%.20s/stat", name);
	if (fd_read_text(proc_fd, path, text, sizeof(text)))
		return false;
	/* The program chose the name in the parentheses: look behind the last one. */
	paren = strrchr(text, ')');
	if (!paren || sscanf(paren + 1, " %*c %d %*d %d", &parent, &session) != 2)
		return false;
	*ret = (struct node){ (pid_t)strtol(name, NULL, 10), parent, session, false };
	return true;
}

/* A vm cell has no /proc in its root. */
static int open_proc(void)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : openat(VMM_PROC_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static size_t list_all(void)
{
	int fd = open_proc();
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) && count < TREE_MAX)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			read_node(fd, entry->d_name, &all[count]))
			count++;
	if (dir)
		closedir(dir);
	return count;
}

static void choose_children(size_t count)
{
	bool found = true;

	while (found) {
		found = false;
		for (size_t i = 0; i < count; i++)
			for (size_t k = 0; !all[i].chosen && k < count; k++)
				if (all[k].chosen && all[k].pid == all[i].parent)
					found = all[i].chosen = true;
	}
}

static void kill_chosen(size_t count)
{
	choose_children(count);
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
