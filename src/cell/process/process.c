/* Theory of operation
 *
 * A cell is a directory and a keeper that is a subreaper: whatever the program starts, and however
 * it detaches itself, becomes the keeper's child when its parent ends, and is killed with the rest.
 * As root each cell runs as a user id of its own, so that one kill(-1) reaches all of it; without
 * root it runs as the caller. The directory is /tmp/hotcell-<procid>-<number>; the warden removes
 * it, the keeper does if the warden is dead, and the next start does if both were killed. */
#include "cell/process/process.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/procid.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PREFIX "hotcell-"

enum { CELLS_MAX = 1024, GONE = -1 };

struct process {
	void (*inside)(const struct cell_inside *inside);
	char top[64]; /* directory in which the cells' directories are made */
	char id[PROCID_SIZE];
	unsigned next;
	struct {
		pid_t pid;
		char *dir;
	} cells[CELLS_MAX];
};

static void remove_dir(const char *path)
{
	auto_close int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	walk_remove_all(fd);
	rmdir(path);
}

static void sweep(const char *top)
{
	DIR *dir = opendir(top);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		struct stat status;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
			!procid_is_dead(entry->d_name + strlen(PREFIX)))
			continue;
		/* Others may have made something with such a name in a shared directory. */
		if (fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISDIR(status.st_mode) && (geteuid() == 0 || status.st_uid == geteuid())) {
			auto_free char *path = path_join(top, entry->d_name);

			remove_dir(path);
		}
	}
	if (dir)
		closedir(dir);
}

static int prepare(const struct isolation_options *options, void **ret_state, struct err *e)
{
	struct process *p = xalloc(sizeof(*p));

	*ret_state = p;
	p->inside = options->inside;
	snprintf(p->top, sizeof(p->top), "/tmp");
	if (procid_self(p->id, sizeof(p->id)))
		return err_sys(e, "read /proc/self");
	sweep(p->top);
	return 0;
}

static int allow(void *state, const char *path, struct err *e)
{
	(void)state;
	(void)path;
	(void)e;
	return 0; /* everything is in view anyway */
}

static int find_need(void *state, const char *path)
{
	(void)state;
	(void)path;
	return 0;
}

static int seal(void *state, struct err *e)
{
	(void)state;
	(void)e;
	return 0;
}

static int make_dir(struct process *p, const struct cell_spec *spec, char **ret, struct err *e)
{
	static const char *const parts[] = { "workspace", "tmp" };
	auto_free char *dir = xasprintf("%s/" PREFIX "%s-%u", p->top, p->id, p->next++);

	if (mkdir(dir, 0700))
		return err_sys(e, "mkdir '%s'", dir);
	for (size_t i = 0; i < COUNT(parts); i++) {
		auto_free char *path = path_join(dir, parts[i]);

		if (mkdir(path, 0700) || (geteuid() == 0 && lchown(path, spec->uid, spec->gid))) {
			remove_dir(dir);
			return err_sys(e, "mkdir '%s'", path);
		}
	}
	/* Last: from here on it is the cell's. */
	if (geteuid() == 0 && lchown(dir, spec->uid, spec->gid)) {
		remove_dir(dir);
		return err_sys(e, "chown '%s'", dir);
	}
	*ret = take_ptr(&dir);
	return 0;
}

static int drop_root(const struct cell_spec *spec, struct err *e)
{
	if (geteuid() != 0)
		return 0;
	if (spec->uid == 0)
		return err_set(e, ERR_UNAVAILABLE,
			"a process cell never runs as root, and there is no other user id to give it here");
	if (setgroups(0, NULL) || setresgid(spec->gid, spec->gid, spec->gid) ||
		setresuid(spec->uid, spec->uid, spec->uid))
		return err_sys(e, "become user %u", (unsigned)spec->uid);
	if (setuid(0) == 0)
		return err_set(e, ERR_SYSTEM, "root could be taken back");
	return 0;
}

static int settle(const struct cell_spec *spec, struct err *e)
{
	int keep[] = { spec->control_fd, spec->lifeline_fd, spec->report_fd };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return err_sys(e, "open /dev/null");
	if (fd_arrange(keep, COUNT(keep), KEEPER_CONTROL_FD))
		return err_sys(e, "arrange descriptors");
	if (setsid() < 0)
		return err_sys(e, "setsid");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		return err_sys(e, "become a subreaper");
	if (drop_root(spec, e))
		return -1;
	umask(022);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0))
		return err_sys(e, "prctl");
	return 0;
}

static _Noreturn void child(struct process *p, const struct cell_spec *spec, const char *dir,
	const int *tasks, int tasks_count)
{
	auto_free char *workspace = path_join(dir, "workspace");
	auto_free char *tmp = path_join(dir, "tmp");
	struct cell_inside inside = {
		.workspace = workspace,
		.tmp = tmp,
		.kill_all_is_safe = geteuid() == 0, /* then its user id is its own */
	};
	struct err e = { 0 };
	int report_fd = spec->report_fd;

	for (int i = 0; i < tasks_count; i++)
		if (fd_write_all(tasks[i], "0", 1)) {
			err_sys(&e, "enter the cgroup");
			isolation_child_failed(report_fd, &e);
		}
	if (settle(spec, &e))
		isolation_child_failed(
			fcntl(KEEPER_REPORT_FD, F_GETFD) >= 0 ? KEEPER_REPORT_FD : report_fd, &e);
	close(KEEPER_REPORT_FD);
	p->inside(&inside);
	remove_dir(dir);
	_exit(0);
}

static bool has_room(const struct process *p)
{
	for (size_t i = 0; i < CELLS_MAX; i++)
		if (!p->cells[i].dir)
			return true;
	return false;
}

static void remember(struct process *p, pid_t pid, char *dir)
{
	for (size_t i = 0; i < CELLS_MAX; i++)
		if (!p->cells[i].dir) {
			p->cells[i].pid = pid;
			p->cells[i].dir = dir;
			return;
		}
}

static int make(
	void *state, const struct cell_spec *spec, struct isolation_made *ret, struct err *e)
{
	struct process *p = state;
	int tasks[CONTROLLER_COUNT];
	char *dir = NULL;
	int into;
	int tasks_count;
	static char workspace[PATH_MAX_BYTES];

	if (!has_room(p))
		return err_set(e, ERR_LIMIT, "more than %d process cells", CELLS_MAX);
	if (make_dir(p, spec, &dir, e))
		return -1;
	tasks_count = cgroup_entrances(spec->cgroup, &into, tasks);
	ret->pid = isolation_clone(0, into, &ret->pid_fd);
	if (ret->pid == 0)
		child(p, spec, dir, tasks, tasks_count);
	for (int i = 0; i < tasks_count; i++)
		close(tasks[i]);
	if (ret->pid < 0) {
		err_sys(e, "clone3");
		remove_dir(dir);
		free(dir);
		return -1;
	}
	remember(p, ret->pid, dir);
	snprintf(workspace, sizeof(workspace), "%s/workspace", dir);
	ret->workspace = workspace;
	return 0;
}

static void get_ahead(void *state)
{
	(void)state;
}

static bool is_keeper(const struct process *p, pid_t pid)
{
	for (size_t i = 0; i < CELLS_MAX; i++)
		if (p->cells[i].dir && p->cells[i].pid == pid)
			return true;
	return false;
}

/* What a dead keeper left has become our child, for we are a subreaper; its own children become
 * ours as it dies. So: until no child is left that is not a keeper. */
static void kill_strays(const struct process *p)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
	for (int rounds = 0; rounds < 1000; rounds++) {
		auto_buf struct buf text = { 0 };
		struct err ignored;
		bool found = false;
		char *save;

		if (fd_slurp(AT_FDCWD, path, 1 << 20, &text, &ignored) || !text.data)
			return;
		for (char *word = strtok_r(text.data, " ", &save); word;
			word = strtok_r(NULL, " ", &save)) {
			pid_t pid = (pid_t)strtol(word, NULL, 10);

			if (pid <= 0 || is_keeper(p, pid))
				continue;
			found = true;
			kill(pid, SIGKILL);
			waitpid(pid, NULL, __WALL);
		}
		if (!found)
			return;
	}
}

static void clear(void *state, pid_t pid)
{
	struct process *p = state;

	for (size_t i = 0; i < CELLS_MAX; i++)
		if (p->cells[i].pid == pid)
			p->cells[i].pid = GONE; /* reaped: the number may be another's now */
	kill_strays(p);
	for (size_t i = 0; i < CELLS_MAX; i++)
		if (p->cells[i].dir && p->cells[i].pid == GONE) {
			remove_dir(p->cells[i].dir);
			free(take_ptr(&p->cells[i].dir));
		}
}

static void close_process(void *state)
{
	struct process *p = state;

	for (size_t i = 0; p && i < CELLS_MAX; i++)
		if (p->cells[i].dir) {
			remove_dir(p->cells[i].dir);
			free(p->cells[i].dir);
		}
	free(p);
}

const struct isolation isolation_process = {
	.name = "process",
	.kind = ISOLATION_PROCESS,
	.holds = LIMIT_BIT(LIMIT_WALL_MS) | LIMIT_BIT(LIMIT_FILE_BYTES) |
		 LIMIT_BIT(LIMIT_OPEN_FILES) | LIMIT_BIT(LIMIT_OUTPUT_BYTES),
	.prepare = prepare,
	.allow = allow,
	.find_need = find_need,
	.seal = seal,
	.make = make,
	.get_ahead = get_ahead,
	.clear = clear,
	.close = close_process,
};
