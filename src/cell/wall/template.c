#include "cell/wall/template.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "cell/wall/mnt.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum row_kind {
	SHOW,   /* the machine's own, read-only; a symlink stays the symlink that it is */
	COPY,   /* a small file, copied: one mount less for every cell to carry */
	DEVICE, /* a device node, shown */
	MADE,   /* a file that is made up: text */
	LINK,   /* a symlink to text */
	DIR_,   /* an empty directory */
};

struct row {
	enum row_kind kind;
	const char *path;
	const char *why;
	const char *text;
};

#define ETC_PASSWD                                                                                 \
	"root:x:0:0:root:/root:/usr/sbin/nologin\n"                                                \
	"cell:x:1000:1000:cell:/tmp:/bin/sh\n"                                                     \
	"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
#define ETC_GROUP "root:x:0:\ncell:x:1000:\nnogroup:x:65534:\n"

/* What a cell sees of the machine. What is not on this list is not there. Rows whose file the
 * machine lacks are passed over. */
static const struct row rows[] = {
	{ SHOW, "/usr", "programs and libraries", NULL },
	{ SHOW, "/bin", "programs, on machines where it is not in /usr", NULL },
	{ SHOW, "/sbin", "likewise", NULL },
	{ SHOW, "/lib", "libraries, likewise", NULL },
	{ SHOW, "/lib32", "likewise", NULL },
	{ SHOW, "/lib64", "the dynamic loader's place", NULL },
	{ SHOW, "/libx32", "likewise", NULL },

	{ SHOW, "/etc/alternatives", "many programs in /usr/bin are links into it", NULL },
	{ COPY, "/etc/ld.so.cache", "where libraries are", NULL },
	{ COPY, "/etc/localtime", "the time zone", NULL },
	{ COPY, "/etc/timezone", "its name", NULL },
	{ COPY, "/etc/os-release", "programs look which system this is", NULL },

	{ MADE, "/etc/passwd", "one user, and not the machine's", ETC_PASSWD },
	{ MADE, "/etc/group", "likewise", ETC_GROUP },
	{ MADE, "/etc/hostname", "every cell is called so", "cell\n" },
	{ MADE, "/etc/hosts", "localhost", "127.0.0.1 localhost cell\n::1 localhost cell\n" },
	{ MADE, "/etc/nsswitch.conf", "names come from files",
		"passwd: files\ngroup: files\nhosts: files dns\n" },
	{ MADE, "/etc/resolv.conf", "shown only to cells with the machine's network", "" },
	{ MADE, "/etc/machine-id", "not the machine's", "00000000000000000000000000000000\n" },

	{ DIR_, "/dev/shm", "shared memory: the cell's own tmpfs goes here", NULL },

	{ DIR_, "/workspace", "the cell's own tmpfs goes here", NULL },
	{ DIR_, "/tmp", "likewise", NULL },
	{ DIR_, "/run", "empty", NULL },
	{ DIR_, "/var/lib", "empty", NULL },
	{ LINK, "/var/tmp", "some programs insist on it", "/tmp" },
	{ DIR_, CELL_DRIVERS, "hotcell's drivers", NULL },
};

/* Only where a cell's programs call the machine's kernel: a VMM makes up its guest's devices and
 * /proc. */
static const struct row kernel_rows[] = {
	{ DEVICE, "/dev/null", "everything uses it", NULL },
	{ DEVICE, "/dev/zero", "likewise", NULL },
	{ DEVICE, "/dev/full", "tests use it", NULL },
	{ DEVICE, "/dev/random", "randomness", NULL },
	{ DEVICE, "/dev/urandom", "randomness", NULL },
	{ LINK, "/dev/fd", "as everywhere", "/proc/self/fd" },
	{ LINK, "/dev/stdin", "as everywhere", "/proc/self/fd/0" },
	{ LINK, "/dev/stdout", "as everywhere", "/proc/self/fd/1" },
	{ LINK, "/dev/stderr", "as everywhere", "/proc/self/fd/2" },
	{ DIR_, "/proc", "a fresh one goes here", NULL },
	{ DIR_, "/.masked/dir", "laid over what of /proc must not be seen", NULL },
	{ MADE, "/.masked/file", "likewise", "" },
};

static const struct row null_row = { DEVICE, "/dev/null", "for the keeper", NULL };

/* Only where cells may have the machine's network: without one they are of no use, and every row
 * costs every start. */
static const struct row network_rows[] = {
	{ SHOW, "/etc/ssl/certs", "certificates of public authorities", NULL },
	{ SHOW, "/etc/pki/tls/certs", "likewise, on Fedora", NULL },
	{ COPY, "/etc/protocols", "names of protocols", NULL },
	{ COPY, "/etc/services", "names of ports", NULL },
};

/* Only where cells may have mounts. */
static const struct row mounts_row = { DIR_, MOUNTS_PLACE, "mounts go here", NULL };

enum { COPY_MAX = 4 << 20 };

/* `path` in the template, as a path of ours. */
static void in_cell(char *ret, size_t size, const char *path)
{
	snprintf(ret, size, CELL_ROOT "%s", path);
}

static int make_parents(const char *path, struct err *e)
{
	auto_close int root = open(CELL_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? err_sys(e, "open the template") :
			  path_make_parents(root, path + 1, 0755, e);
}

static int write_file(const char *path, const char *data, size_t len, struct err *e)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0 || fd_write_all(fd, data, len))
		return err_sys(e, "write '%s'", path);
	return 0;
}

/* Shows the host's `source` (an open O_PATH fd) at `target` in the template. */
static int show_fd(int source, const char *target, unsigned flags, struct err *e)
{
	struct stat status;
	int failed;

	if (fstat(source, &status))
		return err_sys(e, "stat the source of '%s'", target);
	if (S_ISDIR(status.st_mode))
		failed = mkdir(target, 0755) && errno != EEXIST;
	else
		failed = write_file(target, "", 0, e);
	if (failed)
		return err_sys(e, "make '%s'", target);
	return mnt_bind_fd(source, target, flags, e);
}

static int show(struct template *t, const struct row *row, const char *target, struct err *e)
{
	char link[PATH_MAX_BYTES + 1];
	ssize_t len = readlinkat(t->host_fd, row->path + 1, link, sizeof(link) - 1);
	auto_close int fd = -1;

	if (len > 0) {
		link[len] = '\0';
		return symlink(link, target) ? err_sys(e, "link '%s'", target) : 0;
	}
	fd = path_open_in_root(t->host_fd, row->path, O_PATH);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open '%s'", row->path);
	return show_fd(fd, target,
		row->kind == DEVICE ? MNT_NOEXEC_FLAG : MNT_RDONLY_FLAG | MNT_NODEV_FLAG, e);
}

static int copy(struct template *t, const struct row *row, const char *target, struct err *e)
{
	auto_close int from = path_open_in_root(t->host_fd, row->path, O_RDONLY | O_NONBLOCK);
	auto_close int to = -1;
	struct stat status;

	if (from < 0)
		return 0;
	to = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (to < 0 || fstat(from, &status))
		return err_sys(e, "copy '%s'", row->path);
	if (!S_ISREG(status.st_mode) || status.st_size > COPY_MAX)
		return 0;
	while (status.st_size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)status.st_size);

		if (n < 0)
			return err_sys(e, "copy '%s'", row->path);
		if (n == 0)
			break;
		status.st_size -= n;
	}
	return 0;
}

static bool same_parent(const struct row *row, const struct row *previous)
{
	size_t len = (size_t)(path_base(row->path) - row->path);

	return previous && strncmp(row->path, previous->path, len) == 0 &&
	       (size_t)(path_base(previous->path) - previous->path) == len;
}

static int make_row(
	struct template *t, const struct row *row, const struct row *previous, struct err *e)
{
	char target[512];

	in_cell(target, sizeof(target), row->path);
	if (!same_parent(row, previous) && make_parents(row->path, e))
		return -1;
	switch (row->kind) {
	case SHOW:
	case DEVICE:
		return show(t, row, target, e);
	case COPY:
		return copy(t, row, target, e);
	case MADE:
		return write_file(target, row->text, strlen(row->text), e);
	case LINK:
		return symlink(row->text, target) ? err_sys(e, "link '%s'", target) : 0;
	case DIR_:
		return mkdir(target, 0755) && errno != EEXIST ? err_sys(e, "mkdir '%s'", target) :
								0;
	}
	return 0;
}

static int make_rows(struct template *t, const struct row *list, size_t count, struct err *e)
{
	for (size_t i = 0; i < count; i++)
		if (make_row(t, &list[i], i ? &list[i - 1] : NULL, e))
			return -1;
	return 0;
}

/* Our new root is laid over some directory that every machine has, for a moment only. */
static const char *somewhere(void)
{
	static const char *const places[] = { "/tmp", "/var/tmp", "/mnt", "/run", "/usr" };

	for (size_t i = 0; i < COUNT(places); i++)
		if (access(places[i], F_OK) == 0)
			return places[i];
	return "/etc";
}

static int make_own_root(struct err *e)
{
	static const char *const dirs[] = { "host", "proc", "cell", "needs" };
	const char *place = somewhere();

	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return err_sys(e, "make the mounts our own");
	if (mnt_tmpfs(place, "mode=0755,size=4M,nr_inodes=1k", MNT_NODEV_FLAG, e))
		return -1;
	if (chdir(place))
		return err_sys(e, "chdir '%s'", place);
	for (size_t i = 0; i < COUNT(dirs); i++)
		if (mkdir(dirs[i], 0755))
			return err_sys(e, "mkdir '%s'", dirs[i]);
	return mnt_pivot(place, "host", e);
}

static int show_proc(struct template *t, struct err *e)
{
	auto_close int fd = openat(t->host_fd, "proc", O_PATH | O_CLOEXEC);
	auto_close int tree = -1;

	if (fd < 0)
		return err_sys(e, "open /proc");
	/* Alone if the kernel lets us (then what a container runtime masks in it is bare again),
	 * else with what is mounted below. */
	tree = (int)syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | 1 | O_CLOEXEC);
	if (tree < 0)
		return mnt_bind_fd(fd, "/proc", 0, e);
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, "/proc", 4))
		return err_sys(e, "show /proc");
	return 0;
}

static int show_drivers(struct template *t, const char *drivers, struct err *e)
{
	auto_close int fd = path_open_in_root(t->host_fd, drivers, O_PATH | O_DIRECTORY);

	if (fd < 0)
		return err_sys(e, "open '%s'", drivers);
	return show_fd(fd, CELL_ROOT CELL_DRIVERS, MNT_RDONLY_FLAG | MNT_NODEV_FLAG, e);
}

/* Opened through a read-only mount: where the cell's user owns the file, nothing else would keep a
 * VMM that was taken over from writing to it. */
static int open_vmm(struct template *t, const char *path, struct err *e)
{
	auto_close int source = path_open_in_root(t->host_fd, path, O_PATH);
	auto_close int fd = -1;

	if (source < 0)
		return err_sys(e, "open '%s'", path);
	if (show_fd(source, "/vmm", MNT_RDONLY_FLAG | MNT_NODEV_FLAG, e))
		return -1;
	fd = open("/vmm", O_RDONLY | O_CLOEXEC);
	return fd < 0 || dup3(fd, VMM_SELF_FD, O_CLOEXEC) < 0 ? err_sys(e, "open '%s'", path) : 0;
}

static int make_all_rows(struct template *t, const struct template_options *options, struct err *e)
{
	if (make_rows(t, rows, COUNT(rows), e) ||
		(t->host_dirs.paths && make_rows(t, &mounts_row, 1, e)) ||
		(options->host_network && make_rows(t, network_rows, COUNT(network_rows), e)))
		return -1;
	if (!options->vmm)
		return make_rows(t, kernel_rows, COUNT(kernel_rows), e);
	return show(t, &null_row, t->null, e) || open_vmm(t, options->vmm, e) ? -1 : 0;
}

int template_build(struct template *t, const struct template_options *options, struct err *e)
{
	*t = (struct template){
		.host_fd = -1,
		.null = options->vmm ? "/null" : CELL_ROOT "/dev/null",
	};
	if (make_own_root(e))
		return -1;
	t->host_fd = open("/host", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->host_fd < 0)
		return err_sys(e, "open the machine's root");
	if (show_proc(t, e))
		return -1;
	if (mnt_tmpfs(CELL_ROOT, "mode=0755,size=32M,nr_inodes=4k", MNT_NODEV_FLAG, e))
		return -1;
	if (host_dirs_open(&t->host_dirs, options->mount_dirs, t->host_fd, e) ||
		make_all_rows(t, options, e))
		return -1;
	return options->drivers ? show_drivers(t, options->drivers, e) : 0;
}

int template_find_need(const struct template *t, const char *path)
{
	for (unsigned i = 0; i < t->needs_count; i++)
		if (strcmp(t->needs[i], path) == 0)
			return (int)i;
	return -1;
}

/* Beneath what every cell mounts afresh, nothing of the machine would be seen. */
static bool is_covered(const struct template *t, const char *path)
{
	static const char *const own[] = { "/tmp", "/var/tmp", "/workspace", "/proc", "/dev",
		NULL };

	return mount_find_dir(own, path) >= 0 ||
	       (t->host_dirs.paths && mount_below(MOUNTS_PLACE, path));
}

int template_allow(struct template *t, const char *path, struct err *e)
{
	auto_close int fd = -1;
	char target[PATH_MAX_BYTES + 64];
	struct stat status;

	if (t->host_fd < 0)
		return err_set(e, ERR_PROTOCOL, "the template is sealed");
	if (path[0] != '/' || path_check_relative(path + 1, strlen(path + 1), e))
		return err_set(e, ERR_INPUT, "'%s': want an absolute path without '..'", path);
	if (template_find_need(t, path) >= 0)
		return 0;
	if (is_covered(t, path))
		return err_set(e, ERR_INPUT,
			"'%s' cannot be shown in a cell, which has a directory of its own there",
			path);
	if (t->needs_count == TEMPLATE_NEEDS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d needed directories", TEMPLATE_NEEDS_MAX);
	fd = path_open_in_root(t->host_fd, path, O_PATH);
	if (fd < 0 || fstat(fd, &status))
		return err_sys(e, "open '%s'", path);
	/* Where it is to appear must exist in the template, which is read-only later. */
	in_cell(target, sizeof(target), path);
	if (make_parents(path, e))
		return err_wrap(e, "'%s' cannot be shown in a cell", path);
	if (S_ISDIR(status.st_mode) ? mkdir(target, 0755) && errno != EEXIST :
				      write_file(target, "", 0, e))
		return err_sys(e, "make '%s'", target);
	snprintf(target, sizeof(target), "/needs/%u", t->needs_count);
	if (show_fd(fd, target, MNT_RDONLY_FLAG | MNT_NODEV_FLAG, e))
		return -1;
	t->needs[t->needs_count++] = xstrdup(path);
	return 0;
}

/* The name servers of the machine, for cells that have its network. */
static void keep_resolv_conf(struct template *t)
{
	static const struct row row = { COPY, "/etc/resolv.conf", "", NULL };
	struct err ignored;

	copy(t, &row, "/resolv.conf", &ignored);
}

int template_seal(struct template *t, struct err *e)
{
	if (t->host_fd < 0)
		return 0;
	keep_resolv_conf(t);
	if (mnt_restrict(CELL_ROOT, MNT_RDONLY_FLAG | MNT_NODEV_FLAG, false, e))
		return -1;
	close(take_fd(&t->host_fd));
	if (umount2("/host", MNT_DETACH))
		return err_sys(e, "let go of the machine's root");
	rmdir("/host");
	return 0;
}
