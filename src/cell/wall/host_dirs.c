#include "cell/wall/host_dirs.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"
#include "cell/wall/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Data is data: what is to be executed belongs into the workspace. */
enum { FLAGS = MNT_RDONLY_FLAG | MNT_NODEV_FLAG | MNT_NOEXEC_FLAG };

/* What is no data, but a way into the kernel or into other processes; reading is enough to do harm. */
static const struct {
	unsigned long magic;
	const char *name;
} not_data[] = {
	{ PROC_SUPER_MAGIC, "proc" },
	{ SYSFS_MAGIC, "sysfs" },
	{ CGROUP_SUPER_MAGIC, "cgroup" },
	{ CGROUP2_SUPER_MAGIC, "cgroup2" },
	{ DEBUGFS_MAGIC, "debugfs" },
	{ TRACEFS_MAGIC, "tracefs" },
	{ SECURITYFS_MAGIC, "securityfs" },
	{ BPF_FS_MAGIC, "bpf" },
	{ DEVPTS_SUPER_MAGIC, "devpts" },
};

static int check_kind(int fd, const char *path, struct err *e)
{
	struct statfs status;

	if (fstatfs(fd, &status))
		return err_sys(e, "'%s' cannot be mounted", path);
	for (size_t i = 0; i < COUNT(not_data); i++)
		if ((unsigned long)status.f_type == not_data[i].magic)
			return err_set(e, ERR_INPUT,
				"'%s' cannot be mounted: it is a %s file system, which holds no data",
				path, not_data[i].name);
	return 0;
}

static int open_one(int machine_root_fd, const char *path, unsigned number, struct err *e)
{
	auto_close int fd = path_open_in_root(machine_root_fd, path, O_PATH | O_DIRECTORY);
	char target[32];

	if (fd < 0)
		return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_INPUT,
			"'%s' cannot be mounted: %s", path, strerror(errno));
	if (check_kind(fd, path, e))
		return -1;
	snprintf(target, sizeof(target), "/mounts/%u", number);
	if (mkdir(target, 0755))
		return err_sys(e, "mkdir '%s'", target);
	if (mnt_bind_fd_alone(fd, target, FLAGS, e) == 0)
		return 0;
	/* Only root may uncover what is below a mount. */
	return e->sys_errno == EINVAL ?
		       err_set(e, ERR_UNAVAILABLE,
			       "'%s' cannot be mounted: other file systems are mounted below it, and only "
			       "root can leave them out",
			       path) :
		       err_wrap(e, "'%s' cannot be mounted", path);
}

int host_dirs_open(
	struct host_dirs *h, const char *const *paths, int machine_root_fd, struct err *e)
{
	size_t count = 0;

	while (paths && paths[count])
		count++;
	if (count > MOUNT_DIRS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d directories for mounts", MOUNT_DIRS_MAX);
	if (count == 0)
		return 0;
	if (mkdir("/mounts", 0755))
		return err_sys(e, "mkdir '/mounts'");
	h->paths = paths;
	h->refused = xalloc(count * sizeof(*h->refused));
	for (size_t i = 0; i < count; i++) {
		struct err why = { 0 };

		if (open_one(machine_root_fd, paths[i], (unsigned)i, &why))
			h->refused[i] = xstrdup(why.text);
	}
	return 0;
}

void host_dirs_close(struct host_dirs *h)
{
	for (size_t i = 0; h->paths && h->paths[i]; i++)
		free(h->refused[i]);
	free(h->refused);
	*h = (struct host_dirs){ 0 };
}

int host_dirs_find(
	const struct host_dirs *h, const char *source, const char **ret_below, struct err *e)
{
	int number = mount_find_dir(h->paths, source);

	if (number < 0)
		return err_set(e, ERR_INPUT,
			"'%s' is not below a directory from which mounts are allowed", source);
	if (h->refused[number])
		return err_set(e, ERR_INPUT, "%s", h->refused[number]);
	*ret_below = mount_below(h->paths[number], source);
	return number;
}

/* ---- in a cell's process ---- */

static int tell_open_failure(const char *name, struct err *e)
{
	switch (errno) {
	case ENOENT:
		return err_set(e, ERR_NOT_FOUND, "'%s': its source is not there", name);
	case ELOOP:
		return err_set(e, ERR_INPUT, "'%s': its source leads through a symlink", name);
	case ENOTDIR:
		return err_set(e, ERR_INPUT, "'%s': its source is not a directory", name);
	case EACCES:
		return err_set(e, ERR_INPUT,
			"'%s': a directory above its source may not be entered by the cell's user",
			name);
	default:
		return err_sys(e, "'%s': open its source", name);
	}
}

static int show_one(const char *place, const struct cell_mount *mount, struct err *e)
{
	auto_close int top = -1;
	auto_close int fd = -1;
	char path[PATH_NAME_MAX + 64];

	snprintf(path, sizeof(path), "/mounts/%u", mount->dir);
	top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return err_sys(e, "open '%s'", path);
	fd = path_open_beneath(
		top, *mount->below ? mount->below : ".", O_PATH | O_DIRECTORY, 0, true);
	if (fd < 0)
		return tell_open_failure(mount->name, e);
	snprintf(path, sizeof(path), "%s/%s", place, mount->name);
	if (mkdir(path, 0755))
		return err_sys(e, "mkdir '%s'", path);
	return mnt_bind_fd_alone(fd, path, FLAGS, e);
}

int host_dirs_show(const char *root, const struct cell_mount *mounts, unsigned count, struct err *e)
{
	char place[64];

	if (count == 0)
		return 0;
	snprintf(place, sizeof(place), "%s" MOUNTS_PLACE, root);
	if (mnt_tmpfs(
		    place, "mode=0755,size=64k,nr_inodes=16", MNT_NODEV_FLAG | MNT_NOEXEC_FLAG, e))
		return -1;
	for (unsigned i = 0; i < count; i++)
		if (show_one(place, &mounts[i], e))
			return -1;
	return mnt_restrict(place, FLAGS, false, e);
}
