#include "cell/cgroup.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/procid.h"
#include "cell/cgroup_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "hotcell-"

static const char *const controller_names[CONTROLLER_COUNT] = {
	[CONTROLLER_MEMORY] = "memory",
	[CONTROLLER_PIDS] = "pids",
	[CONTROLLER_CPUACCT] = "cpuacct",
	[CONTROLLER_CPU] = "cpu",
};

static void kill_listed(int dir_fd, const char *file)
{
	auto_buf struct buf text = { 0 };
	struct err ignored;
	char *save;

	if (fd_slurp(dir_fd, file, 1 << 20, &text, &ignored) || !text.data)
		return;
	for (char *line = strtok_r(text.data, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		long pid = strtol(line, NULL, 10);

		if (pid > 1 && pid != getpid())
			kill((pid_t)pid, SIGKILL);
	}
}

static void kill_group(int dir_fd)
{
	if (fd_write_text(dir_fd, "cgroup.kill", "1"))
		kill_listed(dir_fd, "cgroup.procs");
}

static bool is_empty(int fd)
{
	char text[32];

	return fd_read_text(fd, "cgroup.procs", text, sizeof(text)) || text[0] == '\0';
}

/* A group whose processes are still dying stays for the next start; one that is busy without any
 * has groups below it, which are none of ours. */
static void remove_dead(int dir_fd, const char *name)
{
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	kill_group(fd);
	for (int tries = 0; tries < 20; tries++) {
		if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY || is_empty(fd))
			return;
		usleep(2000);
	}
}

void cgroup_tree_sweep(const struct cgroup_tree *t)
{
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		DIR *dir = t->dir_fd[i] < 0 ? NULL :
					      fdopendir(openat(t->dir_fd[i], ".",
						      O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		struct dirent *entry;

		while (dir && (entry = readdir(dir)))
			if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
				procid_is_dead(entry->d_name + strlen(PREFIX)))
				remove_dead(t->dir_fd[i], entry->d_name);
		if (dir)
			closedir(dir);
	}
}

static void open_version1(struct cgroup_tree *t, const struct cgroup_facts *facts)
{
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		auto_close int fd = cgroup1_own_dir(facts, controller_names[i]);

		if (fd < 0)
			continue;
		if (faccessat(fd, ".", W_OK, AT_EACCESS) == 0) {
			t->dir_fd[i] = take_fd(&fd);
			t->version = 1;
		} else {
			snprintf(t->why_not[i], sizeof(t->why_not[i]),
				"cgroup v1: no group may be made in the %s hierarchy (%s)",
				controller_names[i], strerror(errno));
		}
	}
	t->has_cpus = t->dir_fd[CONTROLLER_CPU] >= 0;
}

/* Where nothing more exact is known already. */
static void set_why_not(struct cgroup_tree *t, const char *why_not)
{
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		if (!t->why_not[i][0])
			snprintf(t->why_not[i], sizeof(t->why_not[i]), "%s", why_not);
}

static void open_version2(struct cgroup_tree *t, const struct cgroup_facts *facts)
{
	char why_not[sizeof(t->why_not[0])];
	int fd = cgroup2_usable_dir(facts, &t->has_cpus, why_not, sizeof(why_not));

	if (fd < 0) {
		set_why_not(t, why_not);
		return;
	}
	t->version = 2;
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		t->dir_fd[i] = i ? dup(fd) : fd;
}

void cgroup_tree_open(struct cgroup_tree *t)
{
	struct cgroup_facts facts;
	char id[PROCID_SIZE];

	*t = (struct cgroup_tree){ .tasks_each = 1 };
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		t->dir_fd[i] = -1;
	if (procid_self(id, sizeof(id)) || cgroup_facts_read(&facts)) {
		set_why_not(t, "/proc cannot be read");
		return;
	}
	snprintf(t->prefix, sizeof(t->prefix), PREFIX "%s", id);
	open_version1(t, &facts);
	if (t->version == 0)
		open_version2(t, &facts);
	cgroup_facts_free(&facts);
}

void cgroup_tree_close(struct cgroup_tree *t)
{
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		own_close(&t->dir_fd[i]);
		t->dir_fd[i] = -1;
	}
	t->version = 0;
}

uint32_t cgroup_tree_holds(const struct cgroup_tree *t)
{
	uint32_t bits = 0;

	if (t->dir_fd[CONTROLLER_MEMORY] >= 0)
		bits |= LIMIT_BIT(LIMIT_MEMORY_BYTES);
	if (t->dir_fd[CONTROLLER_PIDS] >= 0)
		bits |= LIMIT_BIT(LIMIT_PROCESSES);
	if (t->dir_fd[CONTROLLER_CPUACCT] >= 0)
		bits |= LIMIT_BIT(LIMIT_CPU_MS);
	if (t->has_cpus)
		bits |= LIMIT_BIT(LIMIT_CPUS_MILLI);
	return bits;
}

const char *cgroup_tree_why_not(const struct cgroup_tree *t, enum limit limit)
{
	switch (limit) {
	case LIMIT_MEMORY_BYTES:
		return t->why_not[CONTROLLER_MEMORY];
	case LIMIT_PROCESSES:
		return t->why_not[CONTROLLER_PIDS];
	case LIMIT_CPU_MS:
		return t->why_not[CONTROLLER_CPUACCT];
	case LIMIT_CPUS_MILLI:
		return t->why_not[CONTROLLER_CPU];
	default:
		return "";
	}
}

void cgroup_forget(struct cgroup *g)
{
	*g = (struct cgroup){ 0 };
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		g->fd[i] = -1;
	for (int i = 0; i < FIGURE_COUNT; i++)
		g->figure_fd[i] = -1;
}

static int make_in(struct cgroup *g, int tree_fd)
{
	if (mkdirat(tree_fd, g->name, 0755) && errno != EEXIST)
		return -1;
	return openat(tree_fd, g->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void open_figures(struct cgroup *g)
{
	static const struct {
		enum controller controller;
		const char *file[2]; /* version 1, version 2 */
	} figures[FIGURE_COUNT] = {
		[FIGURE_CPU] = { CONTROLLER_CPUACCT, { "cpuacct.usage", "cpu.stat" } },
		[FIGURE_MEMORY] = { CONTROLLER_MEMORY,
			{ "memory.max_usage_in_bytes", "memory.peak" } },
		[FIGURE_OOM] = { CONTROLLER_MEMORY, { "memory.oom_control", "memory.events" } },
		[FIGURE_PIDS] = { CONTROLLER_PIDS, { "pids.peak", "pids.peak" } },
	};

	for (int i = 0; i < FIGURE_COUNT; i++) {
		int fd = g->fd[figures[i].controller];
		const char *file = figures[i].file[g->tree->version - 1];

		if (fd < 0)
			continue;
		/* The peak of memory can be written to, which sets it back. (Version 2: since Linux 6.12.) */
		if (i == FIGURE_MEMORY)
			g->figure_fd[i] = openat(fd, file, O_RDWR | O_CLOEXEC);
		if (g->figure_fd[i] < 0)
			g->figure_fd[i] = openat(fd, file, O_RDONLY | O_CLOEXEC);
	}
}

int cgroup_peak_fd(const struct cgroup *g)
{
	return g->figure_fd[FIGURE_MEMORY];
}

void cgroup_forget_peak(const struct cgroup *g)
{
	int fd = cgroup_peak_fd(g);
	ssize_t written = fd < 0 ? 0 : pwrite(fd, "0", 1, 0);

	(void)written; /* else it is the peak of all runs in this cell */
}

int cgroup_make(const struct cgroup_tree *t, uint32_t number, bool with_cpus, struct cgroup *ret,
	struct err *e)
{
	cgroup_forget(ret);
	ret->tree = t;
	snprintf(ret->name, sizeof(ret->name), "%s-%u", t->prefix, number);
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		if (t->dir_fd[i] < 0 || (t->version == 1 && i == CONTROLLER_CPU && !with_cpus))
			continue;
		ret->fd[i] =
			t->version == 2 && i > 0 ? dup(ret->fd[0]) : make_in(ret, t->dir_fd[i]);
		if (ret->fd[i] < 0) {
			err_sys(e, "make cgroup '%s' (%s)", ret->name, controller_names[i]);
			cgroup_remove(ret);
			return -1;
		}
	}
	open_figures(ret);
	return 0;
}

static int write_number(int dir_fd, const char *file, uint64_t value, struct err *e)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return fd_write_text(dir_fd, file, text) ? err_sys(e, "write %s to %s", text, file) : 0;
}

/* Version 1 has two limits, and memory may never exceed memory+swap: which is written first
 * depends on whether they go up or down. */
static int set_memory1(int fd, uint64_t bytes, uint64_t before, struct err *e)
{
	static const char alone[] = "memory.limit_in_bytes";
	static const char with_swap[] = "memory.memsw.limit_in_bytes";
	bool down = before == 0 || bytes < before;

	if (write_number(fd, down ? alone : with_swap, bytes, e) &&
		(down || faccessat(fd, with_swap, F_OK, 0) == 0))
		return -1;
	if (write_number(fd, down ? with_swap : alone, bytes, e) == 0)
		return 0;
	/* No accounting of swap in this kernel: then the cell gets none. */
	if (!down || faccessat(fd, with_swap, F_OK, 0) == 0)
		return -1;
	fd_write_text(fd, "memory.swappiness", "0");
	return 0;
}

static int set_memory2(int fd, uint64_t bytes, struct err *e)
{
	fd_write_text(fd, "memory.swap.max", "0"); /* not there where the kernel has no swap */
	return write_number(fd, "memory.max", bytes, e);
}

static int set_cpus(const struct cgroup *g, uint64_t milli, struct err *e)
{
	enum { PERIOD_US = 50000 };
	int fd = g->fd[CONTROLLER_CPU];
	uint64_t quota_us = milli * PERIOD_US / 1000;
	char text[64];

	if (quota_us < 1000)
		quota_us = 1000; /* the least that the kernel takes */
	if (g->tree->version == 1) {
		if (write_number(fd, "cpu.cfs_period_us", PERIOD_US, e))
			return -1;
		return write_number(fd, "cpu.cfs_quota_us", quota_us, e);
	}
	snprintf(text, sizeof(text), "%llu %d", (unsigned long long)quota_us, PERIOD_US);
	return fd_write_text(fd, "cpu.max", text) ? err_sys(e, "write cpu.max") : 0;
}

int cgroup_set_limits(struct cgroup *g, const struct limits *limits, struct err *e)
{
	uint64_t memory = limits->at[LIMIT_MEMORY_BYTES];
	uint64_t processes = limits->at[LIMIT_PROCESSES];
	uint64_t cpus = limits->at[LIMIT_CPUS_MILLI];
	struct limits before = g->limits;
	int fd = g->fd[CONTROLLER_MEMORY];

	g->limits = *limits;
	if (memory && fd >= 0 && memory != before.at[LIMIT_MEMORY_BYTES] &&
		(g->tree->version == 1 ? set_memory1(fd, memory, before.at[LIMIT_MEMORY_BYTES], e) :
					 set_memory2(fd, memory, e)))
		return -1;
	/* One more for the keeper; where processes are machines, also for the mother of some. */
	if (processes && g->fd[CONTROLLER_PIDS] >= 0 && processes != before.at[LIMIT_PROCESSES] &&
		write_number(g->fd[CONTROLLER_PIDS], "pids.max",
			(processes + 1) * g->tree->tasks_each, e))
		return -1;
	if (cpus && g->fd[CONTROLLER_CPU] >= 0 && cpus != before.at[LIMIT_CPUS_MILLI])
		return set_cpus(g, cpus, e);
	return 0;
}

int cgroup_entrances(const struct cgroup *g, int *ret_into, int ret_tasks[CONTROLLER_COUNT])
{
	int count = 0;

	*ret_into = -1;
	if (!g->tree)
		return 0;
	if (g->tree->version == 2) {
		*ret_into = g->fd[0];
		return 0;
	}
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		int fd = g->fd[i] < 0 ? -1 : openat(g->fd[i], "tasks", O_WRONLY | O_CLOEXEC);

		if (fd >= 0)
			ret_tasks[count++] = fd;
	}
	return count;
}

static int read_figure(const struct cgroup *g, enum cgroup_figure which, char *ret, size_t size)
{
	ssize_t n = g->figure_fd[which] < 0 ? -1 : pread(g->figure_fd[which], ret, size - 1, 0);

	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? 0 : -1;
}

/* The number behind `key` in a file of "key number" lines. */
static uint64_t keyed(const struct cgroup *g, enum cgroup_figure which, const char *key)
{
	char text[2048];
	char *at = text;
	size_t len = strlen(key);

	if (read_figure(g, which, text, sizeof(text)))
		return 0;
	while (at) {
		if (strncmp(at, key, len) == 0 && at[len] == ' ')
			return strtoull(at + len, NULL, 10);
		at = strchr(at, '\n');
		if (at)
			at++;
	}
	return 0;
}

static uint64_t number(const struct cgroup *g, enum cgroup_figure which)
{
	char text[64];

	return read_figure(g, which, text, sizeof(text)) ? 0 : strtoull(text, NULL, 10);
}

void cgroup_read_usage(const struct cgroup *g, struct usage *ret)
{
	if (!g->tree)
		return;
	ret->peak_memory_bytes = number(g, FIGURE_MEMORY);
	ret->oom_kills = keyed(g, FIGURE_OOM, "oom_kill");
	if (g->tree->version == 1) {
		ret->cpu_us = number(g, FIGURE_CPU) / 1000;
	} else {
		unsigned long long now = 0;

		ret->cpu_us = keyed(g, FIGURE_CPU, "usage_usec");
		/* Kernels before 5.19 keep no peak. */
		if (ret->peak_memory_bytes == 0 &&
			fd_read_u64(g->fd[0], "memory.current", &now) == 0)
			ret->peak_memory_bytes = now;
	}
	/* Without the keeper; rounded down, since there may be a mother of machines. */
	ret->peak_processes = number(g, FIGURE_PIDS);
	if (ret->peak_processes > g->tree->tasks_each)
		ret->peak_processes = (ret->peak_processes - 1) / g->tree->tasks_each;
}

void cgroup_kill(const struct cgroup *g)
{
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		if (g->fd[i] < 0)
			continue;
		kill_group(g->fd[i]);
		return; /* all hierarchies have the same processes */
	}
}

bool cgroup_remove(struct cgroup *g)
{
	bool gone = true;

	for (int i = 0; i < FIGURE_COUNT; i++)
		if (g->figure_fd[i] >= 0)
			close(take_fd(&g->figure_fd[i]));
	for (int i = 0; g->tree && i < CONTROLLER_COUNT; i++) {
		if (g->fd[i] < 0)
			continue;
		if (unlinkat(g->tree->dir_fd[i], g->name, AT_REMOVEDIR) && errno == EBUSY) {
			gone = false;
			continue;
		}
		close(take_fd(&g->fd[i]));
	}
	return gone;
}
