#include "base/processes.h"

#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool process_read(int proc_fd, const char *name, struct process *ret)
{
	char path[64];
	char text[1024];
	unsigned long long ticks[4] = { 0 };
	char *paren;
	int parent;
	int session;

	snprintf(path, sizeof(path), "%.20s/stat", name);
	if (fd_read_text(proc_fd, path, text, sizeof(text)))
		return false;
	/* The program chose the name in the parentheses: look behind the last one. */
	paren = strrchr(text, ')');
	if (!paren ||
		sscanf(paren + 1, " %*c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
			&parent, &session, &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 6)
		return false;
	*ret = (struct process){
		.pid = (pid_t)strtol(name, NULL, 10),
		.parent = parent,
		.session = session,
		.cpu_ticks = ticks[0] + ticks[1] + ticks[2] + ticks[3],
	};
	return true;
}

size_t processes_list(int proc_fd, struct process *all, size_t max)
{
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) && count < max)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			process_read(fd, entry->d_name, &all[count]))
			count++;
	if (dir)
		closedir(dir);
	return count;
}

void processes_choose_children(struct process *all, size_t count)
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
