/* proc: the table of made-up files, and what can be done with them.
 *
 * A file's content is made when it is opened and lies in a memfd of its own. A directory is a memfd
 * with its entries in it as getdents64 gives them, and of the kind FD_DIRECTORY. */
#include "vmm/proc.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "vmm/call_path.h"
#include "vmm/device.h"
#include "vmm/fds.h"
#include "vmm/proc_text.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

enum made_kind { MADE_FILE, MADE_TEXT, MADE_DIRECTORY, MADE_LINK, MADE_DEVICE, MADE_FD };

static const struct row {
	const char *path;
	enum made_kind kind;
	proc_text *make;     /* FILE, LINK; of a directory: what readlink says */
	const char *text;    /* TEXT: the same for everybody */
	enum fd_kind device; /* DEVICE */
	bool is_writable;    /* TEXT: may be written to, which changes nothing */
	const char *why;
} rows[] = {
	{ "/proc", MADE_DIRECTORY, .why = "listed by ps and its like" },
	{ "/proc/self", MADE_DIRECTORY, text_self, .why = "a link to a directory: both work" },
	{ "/proc/self/exe", MADE_LINK, text_exe, .why = "runtimes find their libraries by it" },
	{ "/proc/self/cwd", MADE_LINK, text_cwd, .why = "shells" },
	{ "/proc/self/root", MADE_LINK, text_root, .why = "always /" },
	{ "/proc/self/maps", MADE_FILE, text_maps, .why = "glibc: the stack's end; JITs" },
	{ "/proc/self/status", MADE_FILE, text_status, .why = "memory in use" },
	{ "/proc/self/stat", MADE_FILE, text_stat, .why = "memory and time in use" },
	{ "/proc/self/statm", MADE_FILE, text_statm, .why = "memory in use" },
	{ "/proc/self/cmdline", MADE_FILE, text_cmdline, .why = "how it was started" },
	{ "/proc/self/environ", MADE_FILE, text_environ, .why = "how it was started" },
	{ "/proc/self/comm", MADE_FILE, text_comm, .why = "its short name" },
	{ "/proc/self/limits", MADE_FILE, text_limits, .why = "ulimit for people" },
	{ "/proc/self/auxv", MADE_TEXT, .text = "", .why = "programs have it on their stack" },
	{ "/proc/self/cgroup", MADE_TEXT, .text = "0::/\n", .why = "runtimes look for limits" },
	{ "/proc/self/oom_score_adj", MADE_TEXT, .text = "0\n", .is_writable = true,
		.why = "daemons write it" },
	{ "/proc/self/mounts", MADE_TEXT,
		.text = "rootfs / rootfs ro,nosuid,nodev 0 0\n"
			"proc /proc proc rw,nosuid,nodev 0 0\n"
			"tmpfs /tmp tmpfs rw,nosuid,nodev 0 0\n"
			"tmpfs /workspace tmpfs rw,nosuid,nodev 0 0\n"
			"tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n",
		.why = "df; the host's mounts are not shown" },
	{ "/proc/self/mountinfo", MADE_TEXT,
		.text = "1 1 0:1 / / ro,nosuid,nodev - rootfs rootfs ro\n"
			"2 1 0:2 / /proc rw,nosuid,nodev - proc proc rw\n"
			"3 1 0:3 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw\n"
			"4 1 0:3 / /workspace rw,nosuid,nodev - tmpfs tmpfs rw\n"
			"5 1 0:3 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw\n",
		.why = "runtimes look for cgroups" },
	{ "/proc/self/fd", MADE_DIRECTORY, .why = "closing all that is open" },
	{ "/proc/self/fd/N", MADE_FD, .why = "a descriptor by name" },
	{ "/proc/self/task", MADE_DIRECTORY, .why = "counting threads" },
	{ "/proc/cpuinfo", MADE_FILE, text_cpuinfo, .why = "libraries choose their code by it" },
	{ "/proc/meminfo", MADE_FILE, text_meminfo, .why = "caches and heaps are sized by it" },
	{ "/proc/stat", MADE_FILE, text_machine_stat, .why = "number of processors" },
	{ "/proc/uptime", MADE_FILE, text_uptime, .why = "the guest's monotonic time" },
	{ "/proc/loadavg", MADE_FILE, text_loadavg, .why = "make -l" },
	{ "/proc/version", MADE_FILE, text_version, .why = "as uname" },
	{ "/proc/filesystems", MADE_TEXT, .text = "nodev\tproc\nnodev\ttmpfs\n",
		.why = "libselinux" },
	{ "/proc/sys", MADE_DIRECTORY },
	{ "/proc/sys/kernel", MADE_DIRECTORY },
	{ "/proc/sys/kernel/ostype", MADE_TEXT, .text = "Linux\n" },
	{ "/proc/sys/kernel/osrelease", MADE_FILE, text_release, .why = "as uname" },
	{ "/proc/sys/kernel/hostname", MADE_FILE, text_hostname, .why = "as uname" },
	{ "/proc/sys/kernel/pid_max", MADE_TEXT, .text = "4194304\n" },
	{ "/proc/sys/kernel/threads-max", MADE_TEXT, .text = "256\n", .why = "THREADS_MAX" },
	{ "/proc/sys/kernel/cap_last_cap", MADE_TEXT, .text = "40\n" },
	{ "/proc/sys/kernel/ngroups_max", MADE_TEXT, .text = "65536\n", .why = "sysconf" },
	{ "/proc/sys/kernel/random", MADE_DIRECTORY },
	{ "/proc/sys/kernel/random/uuid", MADE_FILE, text_uuid, .why = "another at each open" },
	{ "/proc/sys/kernel/random/boot_id", MADE_FILE, text_boot_id, .why = "not the host's" },
	{ "/proc/sys/kernel/random/entropy_avail", MADE_TEXT, .text = "256\n" },
	{ "/proc/sys/vm", MADE_DIRECTORY },
	{ "/proc/sys/vm/overcommit_memory", MADE_TEXT, .text = "1\n", .why = "reserving is free" },
	{ "/proc/sys/vm/max_map_count", MADE_TEXT, .text = "65530\n", .why = "AREAS_MAX in mem.c" },
	{ "/proc/sys/vm/mmap_min_addr", MADE_TEXT, .text = "65536\n" },
	{ "/proc/sys/fs", MADE_DIRECTORY },
	{ "/proc/sys/fs/file-max", MADE_TEXT, .text = "1000\n" },
	{ "/proc/sys/fs/nr_open", MADE_TEXT, .text = "1000\n", .why = "VMM_GUEST_FDS" },
	{ "/proc/sys/fs/pipe-max-size", MADE_TEXT, .text = "1048576\n" },
	{ "/proc/sys/net", MADE_DIRECTORY },
	{ "/proc/sys/net/core", MADE_DIRECTORY },
	{ "/proc/sys/net/core/somaxconn", MADE_TEXT, .text = "4096\n", .why = "Go asks" },
	{ "/sys", MADE_DIRECTORY },
	{ "/sys/devices", MADE_DIRECTORY },
	{ "/sys/devices/system", MADE_DIRECTORY },
	{ "/sys/devices/system/cpu", MADE_DIRECTORY },
	{ "/sys/devices/system/cpu/online", MADE_TEXT, .text = "0\n", .why = "one processor" },
	{ "/sys/devices/system/cpu/possible", MADE_TEXT, .text = "0\n", .why = "one processor" },
	{ "/sys/devices/system/cpu/present", MADE_TEXT, .text = "0\n", .why = "one processor" },
	{ "/dev", MADE_DIRECTORY },
	{ "/dev/null", MADE_DEVICE, .device = FD_NULL },
	{ "/dev/zero", MADE_DEVICE, .device = FD_ZERO },
	{ "/dev/full", MADE_DEVICE, .device = FD_FULL },
	{ "/dev/random", MADE_DEVICE, .device = FD_RANDOM },
	{ "/dev/urandom", MADE_DEVICE, .device = FD_RANDOM },
};

/* Other names of the same. The end of a name must be the end of a component. */
static const struct {
	const char *name;
	const char *means;
} aliases[] = {
	{ "/proc/thread-self", "/proc/self" },
	{ "/proc/mounts", "/proc/self/mounts" },
	{ "/dev/fd", "/proc/self/fd" },
	{ "/dev/stdin", "/proc/self/fd/0" },
	{ "/dev/stdout", "/proc/self/fd/1" },
	{ "/dev/stderr", "/proc/self/fd/2" },
};

static_assert(COUNT(rows) <= 256, "fds.c keeps a row in a byte");

/* ---- finding ---- */

/* What follows `name` in a path: "" or "/…"; NULL if it does not begin so. */
static const char *behind(const char *path, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(path, name, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return path + length;
}

/* A decimal number that is a whole component; what follows it in *ret_rest. -1 if it is none. */
static int component_number(const char *text, const char **ret_rest)
{
	int number = 0;
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || digits > 8 || (text[digits] && text[digits] != '/'))
		return -1;
	for (size_t i = 0; i < digits; i++)
		number = number * 10 + (text[i] - '0');
	*ret_rest = text + digits;
	return number;
}

static bool is_own_id(const struct guest *g, int id)
{
	for (int i = 0; i < g->threads_top; i++)
		if (g->threads[i].used && g->threads[i].tid == id)
			return true;
	return id == g->pid;
}

static bool replace(char *path, size_t size, const char *start, const char *rest)
{
	char changed[PATH_SIZE];
	int length = snprintf(changed, sizeof(changed), "%s%s", start, rest);

	if (length < 0 || (size_t)length >= size || (size_t)length >= sizeof(changed))
		return false;
	memcpy(path, changed, (size_t)length + 1);
	return true;
}

/* /proc/PID and /proc/self/task/TID are all /proc/self: threads share everything that is shown. */
static bool use_self(const struct guest *g, char *path, size_t size, const char *start)
{
	const char *rest = behind(path, start);
	int id = rest && *rest ? component_number(rest + 1, &rest) : -1;

	return id < 0 || !is_own_id(g, id) || replace(path, size, "/proc/self", rest);
}

static bool simplify(const struct guest *g, char *path, size_t size)
{
	for (size_t i = 0; i < COUNT(aliases); i++) {
		const char *rest = behind(path, aliases[i].name);

		if (rest)
			return replace(path, size, aliases[i].means, rest) &&
			       use_self(g, path, size, "/proc/self/task");
	}
	return use_self(g, path, size, "/proc") && use_self(g, path, size, "/proc/self/task");
}

static int find_row(const char *path)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].path, path) == 0)
			return (int)i;
	return -1;
}

bool proc_find(struct guest *g, const char *path, struct made *ret)
{
	char simple[PATH_SIZE];
	const char *rest;

	/* Most paths are none of these, and are looked up often. */
	if (!behind(path, "/proc") && !behind(path, "/dev") && !behind(path, "/sys"))
		return false;
	snprintf(simple, sizeof(simple), "%s", path);
	if (!simplify(g, simple, sizeof(simple)))
		return false;
	ret->number = -1;
	rest = behind(simple, "/proc/self/fd");
	if (!rest || !*rest) {
		ret->row = find_row(simple);
		return ret->row >= 0;
	}
	ret->row = find_row("/proc/self/fd/N");
	ret->number = component_number(rest + 1, &rest);
	return ret->number >= 0 && !*rest && fds_get((uint64_t)ret->number) >= 0 &&
	       fcntl(ret->number, F_GETFD) >= 0;
}

const char *proc_row_path(int row)
{
	return row >= 0 && (size_t)row < COUNT(rows) ? rows[row].path : "";
}

/* ---- links ---- */

/* What /proc/self/fd/N leads to. Paths as they were given; the rest as Linux names it. */
static void describe_fd(int fd, struct buf *ret)
{
	static const char *const devices[] = { [FD_NULL] = "/dev/null",
		[FD_ZERO] = "/dev/zero",
		[FD_FULL] = "/dev/full",
		[FD_RANDOM] = "/dev/urandom" };
	enum fd_kind kind = fds_kind(fd);
	struct stat st;

	if (kind == FD_DIRECTORY)
		buf_add_str(ret, proc_row_path(fds_row(fd)));
	else if (kind != FD_PLAIN)
		buf_add_str(ret, devices[kind]);
	else if (*fds_name(fd))
		buf_add_str(ret, fds_name(fd));
	else if (fstat(fd, &st))
		buf_add_str(ret, "anon_inode:[unknown]");
	else if (S_ISFIFO(st.st_mode))
		buf_addf(ret, "pipe:[%llu]", (unsigned long long)st.st_ino);
	else if (S_ISSOCK(st.st_mode))
		buf_addf(ret, "socket:[%llu]", (unsigned long long)st.st_ino);
	else if (S_ISCHR(st.st_mode))
		buf_add_str(ret, "/dev/null"); /* what a keeper gives when it gives nothing */
	else
		buf_add_str(ret, "anon_inode:[file]");
}

int proc_readlink(struct guest *g, const struct made *made, char *ret, size_t size)
{
	const struct row *row = &rows[made->row];
	auto_buf struct buf text = { 0 };

	if (row->kind == MADE_FD)
		describe_fd(made->number, &text);
	else if ((row->kind == MADE_LINK || row->kind == MADE_DIRECTORY) && row->make)
		row->make(g, &text);
	else
		return -EINVAL;
	if (text.len >= size)
		return -ENAMETOOLONG;
	memcpy(ret, text.data ? text.data : "", text.len + 1);
	return (int)text.len;
}

/* ---- stat ---- */

void proc_stat_row(int row, struct stat *ret)
{
	static const mode_t modes[] = { [MADE_FILE] = S_IFREG | 0444,
		[MADE_TEXT] = S_IFREG | 0444,
		[MADE_DIRECTORY] = S_IFDIR | 0555,
		[MADE_LINK] = S_IFLNK | 0777,
		[MADE_FD] = S_IFLNK | 0700 };

	if (rows[row].kind == MADE_DEVICE) {
		device_stat(rows[row].device, ret);
		return;
	}
	*ret = (struct stat){
		.st_dev = makedev(0, 4),
		.st_ino = (ino_t)row + 100,
		.st_nlink = rows[row].kind == MADE_DIRECTORY ? 2 : 1,
		.st_mode = modes[rows[row].kind] | (rows[row].is_writable ? 0200 : 0),
		.st_uid = getuid(),
		.st_gid = getgid(),
		.st_blksize = 1024,
	};
}

int proc_stat(struct guest *g, const struct made *made, bool follows, struct stat *ret)
{
	const struct row *row = &rows[made->row];
	char target[PATH_SIZE];
	int length;

	proc_stat_row(made->row, ret);
	if (!follows || (row->kind != MADE_LINK && row->kind != MADE_FD))
		return 0;
	if (row->kind == MADE_FD)
		return path_stat_fd(made->number, ret);
	length = proc_readlink(g, made, target, sizeof(target));
	if (length < 0)
		return length;
	return stat(target, ret) ? -errno : 0;
}

int proc_access(struct guest *g, const struct made *made, int mode)
{
	struct stat st;
	int result = proc_stat(g, made, true, &st);

	if (result)
		return result;
	/* Where a descriptor leads has been opened already; the rest is ours, and of our owner. */
	if (made->number >= 0 || mode == F_OK)
		return 0;
	return (mode & X_OK && !(st.st_mode & 0111)) || (mode & W_OK && !(st.st_mode & 0222)) ?
		       -EACCES :
		       0;
}

/* ---- directories ---- */

static void add_entry(struct buf *ret, uint64_t inode, uint8_t type, const char *name)
{
	struct dirent64 entry = { .d_ino = inode, .d_type = type };
	size_t used = offsetof(struct dirent64, d_name) + strlen(name) + 1;

	entry.d_reclen = (uint16_t)((used + 7) / 8 * 8);
	entry.d_off = (off64_t)(ret->len + entry.d_reclen);
	snprintf(entry.d_name, sizeof(entry.d_name), "%s", name);
	buf_add(ret, &entry, entry.d_reclen);
}

static void add_number(struct buf *ret, uint8_t type, int number)
{
	char name[16];

	snprintf(name, sizeof(name), "%d", number);
	add_entry(ret, 1000 + (uint64_t)number, type, name);
}

/* poll() tells of all descriptors at once which are open. */
static void add_open_fds(struct buf *ret)
{
	struct pollfd fds[VMM_GUEST_FDS];

	for (int fd = 0; fd < VMM_GUEST_FDS; fd++)
		fds[fd] = (struct pollfd){ .fd = fd };
	if (poll(fds, VMM_GUEST_FDS, 0) < 0)
		return;
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++)
		if (!(fds[fd].revents & POLLNVAL))
			add_number(ret, DT_LNK, fd);
}

static void add_threads(const struct guest *g, struct buf *ret)
{
	for (int i = 0; i < g->threads_top; i++)
		if (g->threads[i].used)
			add_number(ret, DT_DIR, g->threads[i].tid);
}

static void make_directory(struct guest *g, int directory, struct buf *ret)
{
	const char *path = rows[directory].path;
	struct stat st;

	add_entry(ret, 1, DT_DIR, ".");
	add_entry(ret, 1, DT_DIR, "..");
	for (size_t i = 0; i < COUNT(rows); i++) {
		const char *rest = behind(rows[i].path, path);

		if (!rest || !*rest || strchr(rest + 1, '/') || rows[i].kind == MADE_FD)
			continue;
		proc_stat_row((int)i, &st);
		add_entry(ret, st.st_ino, (uint8_t)IFTODT(st.st_mode), rest + 1);
	}
	for (size_t i = 0; i < COUNT(aliases); i++) {
		const char *rest = behind(aliases[i].name, path);

		if (rest && *rest && !strchr(rest + 1, '/'))
			add_entry(ret, 2, DT_LNK, rest + 1);
	}
	if (strcmp(path, "/dev") == 0)
		add_entry(ret, 3, DT_DIR, "shm"); /* a real one, on the cell's disk */
	if (strcmp(path, "/proc") == 0)
		add_number(ret, DT_DIR, g->pid);
	else if (strcmp(path, "/proc/self/fd") == 0)
		add_open_fds(ret);
	else if (strcmp(path, "/proc/self/task") == 0)
		add_threads(g, ret);
}

/* ---- open ---- */

/* A new descriptor with this content. */
static int open_content(
	struct guest *g, const struct row *row, const struct buf *content, int flags)
{
	int fd = fds_new(g, memfd_create("proc", flags & O_CLOEXEC ? MFD_CLOEXEC : 0));

	if (fd < 0)
		return fd;
	if (content->len && fd_write_all(fd, content->data, content->len)) {
		close(fd);
		return -ENOMEM;
	}
	lseek(fd, 0, SEEK_SET);
	fds_set_name(fd, row->path);
	return fd;
}

static int open_file(struct guest *g, const struct row *row, int flags)
{
	auto_buf struct buf content = { 0 };

	if (flags & O_DIRECTORY)
		return -ENOTDIR;
	if (!row->is_writable && (flags & O_ACCMODE) != O_RDONLY)
		return -EACCES;
	if (row->make)
		row->make(g, &content);
	else
		buf_add_str(&content, row->text);
	return open_content(g, row, &content, flags);
}

static int open_directory(struct guest *g, int row, int flags)
{
	auto_buf struct buf entries = { 0 };
	int fd;

	if ((flags & O_ACCMODE) != O_RDONLY)
		return -EISDIR;
	make_directory(g, row, &entries);
	fd = open_content(g, &rows[row], &entries, flags);
	if (fd >= 0)
		fds_set_kind(fd, FD_DIRECTORY, O_RDONLY, row);
	return fd;
}

static int open_link(struct guest *g, const struct made *made, int flags)
{
	char target[PATH_SIZE];
	int fd = proc_readlink(g, made, target, sizeof(target));

	if (fd < 0)
		return fd;
	fd = fds_new(g, open(target, (flags & ~(O_CREAT | O_EXCL | O_TRUNC)) | O_NOCTTY));
	if (fd >= 0)
		fds_set_name(fd, target);
	return fd;
}

/* Linux opens the file anew, with an offset of its own; nothing that has no /proc can do that, and a
 * copy of the descriptor is what programs mean by /dev/stdout. */
static int open_fd(struct guest *g, int from, int flags)
{
	int have = fcntl(from, F_GETFL) & O_ACCMODE;
	struct stat st;
	int fd;

	/* A copy can do what the other one can, and no more. */
	if (fds_kind(from) == FD_PLAIN && have != O_RDWR && have != (flags & O_ACCMODE) &&
		fstat(from, &st) == 0 && S_ISREG(st.st_mode))
		return -EACCES;
	fd = fds_new(g, fcntl(from, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0));
	if (fd >= 0)
		fds_copy(from, fd);
	return fd;
}

int64_t proc_open(struct guest *g, const struct made *made, int flags, bool follows)
{
	const struct row *row = &rows[made->row];

	if (flags & O_CREAT && flags & O_EXCL)
		return -EEXIST;
	if (!follows && (row->kind == MADE_LINK || row->kind == MADE_FD))
		return -ELOOP;
	switch (row->kind) {
	case MADE_FILE:
	case MADE_TEXT:
		return open_file(g, row, flags);
	case MADE_DIRECTORY:
		return open_directory(g, made->row, flags);
	case MADE_LINK:
		return open_link(g, made, flags);
	case MADE_DEVICE:
		return flags & O_DIRECTORY ? -ENOTDIR : device_open(g, row->device, flags);
	case MADE_FD:
		return open_fd(g, made->number, flags);
	}
	return -ENOENT;
}
