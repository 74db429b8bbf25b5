#include "cell/cgroup_find.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ASIDE       "/hotcell-main"
#define ASIDE_PROCS "hotcell-main/cgroup.procs"

enum { PROC_FILE_MAX = 1 << 20, LINE_MAX_BYTES = 4096 };

/* Does the comma-separated `list` have `word`? */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',')) {
		if (*at == ',')
			at++;
		if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
	}
	return false;
}

int cgroup_facts_read(struct cgroup_facts *f)
{
	struct err ignored;

	*f = (struct cgroup_facts){ 0 };
	return fd_slurp(AT_FDCWD, "/proc/self/cgroup", PROC_FILE_MAX, &f->groups, &ignored) ||
			       fd_slurp(AT_FDCWD, "/proc/self/mountinfo", PROC_FILE_MAX, &f->mounts,
				       &ignored) ?
		       -1 :
		       0;
}

void cgroup_facts_free(struct cgroup_facts *f)
{
	buf_free(&f->groups);
	buf_free(&f->mounts);
}

/* Copies the line at *at to `line` and moves on; false at the end. Longer lines are cut: none that
 * matters here is. */
static bool next_line(const char **at, char *line, size_t size)
{
	size_t len;

	if (!*at || !**at)
		return false;
	len = strcspn(*at, "\n");
	snprintf(line, size, "%.*s", (int)len, *at);
	*at += len + ((*at)[len] == '\n');
	return true;
}

/* Our path in the hierarchy of `controller` ("" = version 2). */
static char *own_path(const struct cgroup_facts *f, const char *controller)
{
	const char *at = f->groups.data;
	char line[LINE_MAX_BYTES];

	while (next_line(&at, line, sizeof(line))) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		controllers++;
		if (*controller ? has_word(controllers, controller) : *controllers == '\0')
			return xstrdup(path);
	}
	return NULL;
}

/* Where the hierarchy is mounted: the mount point, and which of its directories is the top there. */
static char *mount_point(
	const struct cgroup_facts *f, const char *type, const char *controller, char **ret_root)
{
	const char *at = f->mounts.data;
	char line[LINE_MAX_BYTES];

	while (next_line(&at, line, sizeof(line))) {
		char root[1024];
		char point[1024];
		char found_type[32];
		char options[1024];
		char *dash = strstr(line, " - ");

		/* Most lines are of other file systems: look at the cheap part first. */
		if (!dash || strncmp(dash + 3, "cgroup", 6) != 0 ||
			sscanf(dash, " - %31s %*s %1023s", found_type, options) != 2 ||
			sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2)
			continue;
		if (strcmp(found_type, type) != 0 ||
			(*controller && !has_word(options, controller)))
			continue;
		/* It shows more than our cgroup namespace: where we are in it cannot be told. */
		if (strncmp(root, "/..", 3) == 0)
			continue;
		*ret_root = xstrdup(root);
		return xstrdup(point);
	}
	return NULL;
}

static char *own_dir_path(
	const struct cgroup_facts *f, const char *type, const char *controller, char **ret_mount)
{
	auto_free char *root = NULL;
	auto_free char *path = own_path(f, controller);
	char *point = path ? mount_point(f, type, controller, &root) : NULL;
	const char *below = path;
	size_t len;

	if (!point)
		return NULL;
	/* In a container the mount shows a part of the hierarchy while /proc may name it from its
	 * real top: take off what is above the mount. */
	len = strlen(root);
	if (len > 1 && strncmp(path, root, len) == 0)
		below = path + len;
	*ret_mount = point;
	return xasprintf("%s%s", point, strcmp(below, "/") == 0 ? "" : below);
}

/* Container runtimes mount the container's own groups read-only. Whoever may mount can have a copy
 * of that mount that is not, without touching anybody's; it lasts as long as the descriptor. */
static int writable_copy(int fd)
{
	struct {
		uint64_t set;
		uint64_t clear;
		uint64_t propagation;
		uint64_t userns_fd;
	} attributes = { .clear = MOUNT_ATTR_RDONLY };
	auto_close int tree = (int)syscall(
		SYS_open_tree, fd, "", AT_EMPTY_PATH | 1 /* OPEN_TREE_CLONE */ | O_CLOEXEC);

	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes,
				sizeof(attributes)))
		return -1;
	return openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int cgroup_open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int copy;

	if (fd < 0 || faccessat(fd, ".", W_OK, AT_EACCESS) == 0 || errno != EROFS)
		return fd;
	copy = writable_copy(fd);
	if (copy < 0)
		return fd;
	close(fd);
	return copy;
}

int cgroup1_own_dir(const struct cgroup_facts *f, const char *controller)
{
	auto_free char *mount = NULL;
	auto_free char *path = own_dir_path(f, "cgroup", controller, &mount);

	return path ? cgroup_open_dir(path) : -1;
}

static bool has_controller(int dir_fd, const char *file, const char *name)
{
	char text[512];

	if (fd_read_text(dir_fd, file, text, sizeof(text)))
		return false;
	for (char *at = text; *at; at++)
		if (*at == ' ')
			*at = ',';
	return has_word(text, name);
}

static bool has_controllers(int dir_fd, const char *file)
{
	return has_controller(dir_fd, file, "memory") && has_controller(dir_fd, file, "pids");
}

/* Another child of our parent, and one of us: a service's daemon, or its other wardens. */
static bool is_sibling(long pid)
{
	char path[64];
	char text[512];
	char *behind;
	long parent = 0;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) || !strstr(text, "(hotcell-"))
		return false;
	behind = strrchr(text, ')');
	return behind && sscanf(behind + 1, " %*c %ld", &parent) == 1 && parent == getppid();
}

/* Calls for each process in it, until that returns false. */
static bool each_process(int dir_fd, bool (*on_process)(int dir_fd, long pid), unsigned *ret_count)
{
	auto_buf struct buf text = { 0 };
	struct err ignored;
	char *save;

	*ret_count = 0;
	if (fd_slurp(dir_fd, "cgroup.procs", PROC_FILE_MAX, &text, &ignored) || !text.data)
		return false;
	for (char *line = strtok_r(text.data, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		++*ret_count;
		if (!on_process(dir_fd, strtol(line, NULL, 10)))
			return false;
	}
	return true;
}

/* We, our parent (the engine or the supervisor that started us), and what else that has started of ours. */
static bool is_ours(int dir_fd, long pid)
{
	(void)dir_fd;
	return pid == getpid() || pid == getppid() || is_sibling(pid);
}

static bool is_ours_alone(int dir_fd, bool *ret_empty)
{
	unsigned count;
	bool alone = each_process(dir_fd, is_ours, &count);

	*ret_empty = count == 0;
	return alone;
}

static bool move_aside(int dir_fd, long number)
{
	char pid[32];

	snprintf(pid, sizeof(pid), "%ld", number);
	fd_write_text(dir_fd, ASIDE_PROCS, pid);
	return true;
}

/* A group with processes may not have groups with controllers below it (the hierarchy's top is
 * exempt). If the processes are ours, they can stand aside. */
static int step_aside(int dir_fd)
{
	unsigned ignored;

	if (mkdirat(dir_fd, ASIDE + 1, 0755) && errno != EEXIST)
		return -1;
	each_process(dir_fd, move_aside, &ignored);
	return fd_write_text(dir_fd, ASIDE_PROCS, "0");
}

/* The hierarchy's own top has no type; that of a namespace's part of it has. */
static bool is_top(int fd)
{
	return faccessat(fd, "cgroup.type", F_OK, 0) != 0;
}

static bool try_dir(const char *path, int *ret_fd, char *why_not, size_t size)
{
	auto_close int fd = cgroup_open_dir(path);
	bool empty;

	if (fd < 0 || !has_controllers(fd, "cgroup.controllers"))
		return false;
	if (faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) || faccessat(fd, ".", W_OK, AT_EACCESS))
		return false;
	if (!is_top(fd)) {
		if (!is_ours_alone(fd, &empty)) {
			snprintf(why_not, size,
				"the cgroup '%.120s' has other processes in it, which must be moved "
				"into one below it first",
				path);
			return false;
		}
		if (!empty && step_aside(fd))
			return false;
	}
	fd_write_text(fd, "cgroup.subtree_control", "+cpu");
	fd_write_text(fd, "cgroup.subtree_control", "+memory +pids");
	if (!has_controllers(fd, "cgroup.subtree_control"))
		return false;
	*ret_fd = take_fd(&fd);
	return true;
}

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
	       getenv("KUBERNETES_SERVICE_HOST");
}

int cgroup2_usable_dir(const struct cgroup_facts *f, bool *ret_has_cpu, char *why_not, size_t size)
{
	auto_free char *mount = NULL;
	auto_free char *path = own_dir_path(f, "cgroup2", "", &mount);
	int fd = -1;

	snprintf(why_not, size,
		"no cgroup at or above our own may be written and has the memory and pids controllers");
	if (!path) {
		snprintf(why_not, size, "no cgroup file system is mounted");
		return -1;
	}
	/* We stepped aside earlier: the group above is the one that we use. */
	if (strlen(path) > strlen(ASIDE) && strcmp(path + strlen(path) - strlen(ASIDE), ASIDE) == 0)
		path[strlen(path) - strlen(ASIDE)] = '\0';
	for (;;) {
		char *slash;

		if (try_dir(path, &fd, why_not, size)) {
			*ret_has_cpu = has_controller(fd, "cgroup.subtree_control", "cpu");
			return fd;
		}
		slash = strrchr(path, '/');
		/* On a machine the groups above may be ours; a container's limits hold only for what
		 * stays below its own. */
		if (!slash || strlen(path) <= strlen(mount) || in_container())
			break;
		*slash = '\0';
	}
	return -1;
}
