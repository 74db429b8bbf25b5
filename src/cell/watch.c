#include "cell/watch.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { CHILDREN_TEXT_MAX = 1 << 20, PROCESSES_MAX = 8192, MEMFDS_MAX = 4096 };

struct share {
	uint64_t all_bytes;
	uint64_t shmem_bytes; /* of it: memory that is also a file somewhere */
};

static uint64_t rollup_bytes(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

static void add_share(int proc_fd, pid_t pid, struct share *sum)
{
	char path[64];
	char text[2048];
	unsigned long long pages;

	snprintf(path, sizeof(path), "%ld/smaps_rollup", (long)pid);
	if (fd_read_text(proc_fd, path, text, sizeof(text)) == 0) {
		sum->all_bytes += rollup_bytes(text, "\nPss:");
		sum->shmem_bytes += rollup_bytes(text, "\nPss_Shmem:");
		return;
	}
	/* Not ours to read (a program that nobody may read makes its memory so): all of its pages
	 * then, shared or not. Hiding does not make a process smaller. */
	snprintf(path, sizeof(path), "%ld/statm", (long)pid);
	if (fd_read_text(proc_fd, path, text, sizeof(text)) == 0 &&
		sscanf(text, "%*u %llu", &pages) == 1)
		sum->all_bytes += pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static size_t list_all(int proc_fd, pid_t keeper, struct process *all)
{
	size_t count = processes_list(proc_fd, all, PROCESSES_MAX);

	for (size_t i = 0; i < count; i++)
		all[i].chosen = all[i].pid == keeper;
	processes_choose_children(all, count);
	return count;
}

/* Appends the children of one thread. */
static int add_children(
	int proc_fd, pid_t pid, const char *thread, struct process *all, size_t *count)
{
	char path[64];
	auto_buf struct buf text = { 0 };
	struct err e;
	char *end;

	snprintf(path, sizeof(path), "%ld/task/%.20s/children", (long)pid, thread);
	if (fd_slurp(proc_fd, path, CHILDREN_TEXT_MAX, &text, &e))
		return -1;
	for (char *at = text.data; at && strtol(at, &end, 10) > 0 && *count < PROCESSES_MAX;
		at = end) {
		char name[24];

		snprintf(name, sizeof(name), "%ld", strtol(at, NULL, 10));
		if (process_read(proc_fd, name, &all[*count]))
			all[(*count)++].chosen = true;
	}
	return 0;
}

static int add_children_of_all_threads(int proc_fd, pid_t pid, struct process *all, size_t *count)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;
	int result = 0;
	int fd;

	snprintf(path, sizeof(path), "%ld/task", (long)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
			add_children(proc_fd, pid, entry->d_name, all, count))
			result = -1;
	if (dir)
		closedir(dir);
	return result;
}

/* Downwards from the keeper: costs as much as the cell is large, not as the machine is. 0 if this
 * kernel does not tell children. */
static size_t list_descendants(int proc_fd, pid_t keeper, struct process *all)
{
	char name[24];
	size_t count = 0;

	snprintf(name, sizeof(name), "%ld", (long)keeper);
	if (!process_read(proc_fd, name, &all[0]))
		return 0;
	all[count++].chosen = true;
	if (add_children_of_all_threads(proc_fd, keeper, all, &count))
		return 0;
	for (size_t i = 1; i < count; i++)
		add_children_of_all_threads(proc_fd, all[i].pid, all, &count);
	return count;
}

/* ---- memory that no process needs to have mapped ---- */

struct seen {
	dev_t device;
	ino_t inode;
};

static bool see(struct seen *seen, size_t *count, const struct stat *status)
{
	for (size_t i = 0; i < *count; i++)
		if (seen[i].device == status->st_dev && seen[i].inode == status->st_ino)
			return false;
	if (*count == MEMFDS_MAX)
		return true; /* counted twice, rather than not at all */
	seen[(*count)++] = (struct seen){ .device = status->st_dev, .inode = status->st_ino };
	return true;
}

/* Files that exist in memory only, as long as somebody holds them. */
static uint64_t memfd_bytes(int proc_fd, const struct process *all, size_t count)
{
	static struct seen seen[MEMFDS_MAX];
	size_t seen_count = 0;
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++) {
		char path[64];
		struct dirent *entry;
		DIR *dir;
		int fd;

		snprintf(path, sizeof(path), "%ld/fd", (long)all[i].pid);
		fd = all[i].chosen ? openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
		dir = fd < 0 ? NULL : fdopendir(fd);
		while (dir && (entry = readdir(dir))) {
			char target[32] = "";
			struct stat status;

			if (readlinkat(fd, entry->d_name, target, sizeof(target) - 1) > 0 &&
				strncmp(target, "/memfd:", 7) == 0 &&
				fstatat(fd, entry->d_name, &status, 0) == 0 &&
				see(seen, &seen_count, &status))
				bytes += (uint64_t)status.st_blocks * 512;
		}
		if (dir)
			closedir(dir);
	}
	return bytes;
}

/* System V segments stay when their maker has gone. */
static uint64_t segment_bytes(int proc_fd, pid_t pid)
{
	char path[64];
	auto_close int fd = -1;
	auto_fclose FILE *file = NULL;
	char line[512];
	uint64_t bytes = 0;

	snprintf(path, sizeof(path), "%ld/root/proc/sysvipc/shm", (long)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (file)
		take_fd(&fd); /* the stream owns it now */
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long long resident;

		if (sscanf(line, "%*d %*d %*o %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %llu",
			    &resident) == 1)
			bytes += resident;
	}
	return bytes;
}

static uint64_t disk_bytes(int proc_fd, pid_t pid)
{
	char path[64];
	auto_close int fd = -1;
	struct statvfs s;

	snprintf(path, sizeof(path), "%ld/root/tmp", (long)pid);
	fd = openat(proc_fd, path, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstatvfs(fd, &s))
		return 0;
	return (uint64_t)(s.f_blocks - s.f_bfree) * s.f_frsize;
}

static uint64_t file_bytes(int proc_fd, const struct process *all, size_t count, pid_t keeper)
{
	uint64_t bytes = memfd_bytes(proc_fd, all, count);

	/* Through any process of the cell but the keeper, into which we may not look. */
	for (size_t i = 0; i < count; i++) {
		uint64_t disk =
			all[i].chosen && all[i].pid != keeper ? disk_bytes(proc_fd, all[i].pid) : 0;

		if (disk)
			return bytes + disk + segment_bytes(proc_fd, all[i].pid);
	}
	return bytes;
}

static void sum(int proc_fd, const struct process *all, size_t count, pid_t keeper,
	bool has_namespaces, struct watch_sum *ret)
{
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct share share = { 0 };
	uint64_t files;

	*ret = (struct watch_sum){ 0 };
	for (size_t i = 0; i < count; i++) {
		if (!all[i].chosen)
			continue;
		add_share(proc_fd, all[i].pid, &share);
		ret->cpu_us += all[i].cpu_ticks * tick_us;
		ret->processes++;
	}
	if (ret->processes)
		ret->processes--;
	files = has_namespaces ? file_bytes(proc_fd, all, count, keeper) :
				 memfd_bytes(proc_fd, all, count);
	/* What is mapped of those files is in both sums: the larger one counts. */
	ret->memory_bytes = share.all_bytes - share.shmem_bytes +
			    (files > share.shmem_bytes ? files : share.shmem_bytes);
}

/* One warden looks at one cell at a time. */
static struct process table[PROCESSES_MAX];

void watch_descendants(pid_t keeper, bool has_namespaces, struct watch_sum *ret)
{
	auto_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t count = list_descendants(proc_fd, keeper, table);

	if (count == 0)
		count = list_all(proc_fd, keeper, table);
	sum(proc_fd, table, count, keeper, has_namespaces, ret);
}
