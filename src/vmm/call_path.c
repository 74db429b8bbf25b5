#include "vmm/call_path.h"

#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/device.h"
#include "vmm/fds.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* ---- what a path means ---- */

/* Drops the last name of what has been kept so far. */
static char *drop_name(const char *start, char *end)
{
	while (end > start && *--end != '/')
		;
	return end;
}

void path_normalise(char *path)
{
	const char *from = path;
	char *to = path;

	while (*from) {
		size_t length;

		from += strspn(from, "/");
		length = strcspn(from, "/");
		if (length == 2 && from[0] == '.' && from[1] == '.') {
			to = drop_name(path, to);
		} else if (length && !(length == 1 && from[0] == '.')) {
			/* `to` never passes `from`: at least one slash was read for each written. */
			*to++ = '/';
			memmove(to, from, length);
			to += length;
		}
		from += length;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

/* The absolute path as far as names tell, "" if they do not. */
static void make_absolute(const struct place *place, char *ret, size_t size)
{
	char directory[PATH_SIZE] = "";
	int length;

	if (place->path[0] == '/' || (place->directory == AT_FDCWD &&
					     syscall(SYS_getcwd, directory, sizeof(directory)) < 0))
		directory[0] = '\0';
	else if (place->directory != AT_FDCWD && fds_kind(place->directory) == FD_DIRECTORY)
		snprintf(directory, sizeof(directory), "%s",
			proc_row_path(fds_row(place->directory)));
	else if (place->directory != AT_FDCWD)
		snprintf(directory, sizeof(directory), "%s", fds_name(place->directory));
	ret[0] = '\0';
	if (place->path[0] != '/' && directory[0] != '/')
		return;
	length = snprintf(ret, size, "%s/%s", directory, place->path);
	if (length < 0 || (size_t)length >= size)
		ret[0] = '\0';
	else
		path_normalise(ret);
}

/* Names that are neither absolute nor below a made-up directory cannot be made up: a program cannot
 * have its working directory there. */
static void find_made(struct guest *g, struct place *place)
{
	char absolute[PATH_SIZE];

	if (place->path[0] != '/' &&
		(place->directory == AT_FDCWD || fds_kind(place->directory) != FD_DIRECTORY ||
			!place->path[0]))
		return;
	make_absolute(place, absolute, sizeof(absolute));
	place->is_made = absolute[0] && proc_find(g, absolute, &place->made);
	/* Below a made-up directory, but the host's (/dev/shm). */
	if (!place->is_made && place->path[0] != '/' && absolute[0]) {
		memcpy(place->path, absolute, sizeof(absolute));
		place->directory = AT_FDCWD;
	}
}

int path_get(struct guest *g, uint64_t directory, uint64_t address, struct place *ret)
{
	int length = mem_string(&g->mem, ret->path, address, sizeof(ret->path));

	if (length < 0)
		return length;
	ret->is_made = false;
	ret->directory = ret->path[0] == '/' ? AT_FDCWD : fds_get_directory(directory);
	if (ret->directory < 0 && ret->directory != AT_FDCWD)
		return ret->directory;
	find_made(g, ret);
	return 0;
}

bool path_follow_made(struct guest *g, const char *path, char *ret, size_t size)
{
	struct place place = { .directory = AT_FDCWD };
	char target[PATH_SIZE];
	int length;

	snprintf(place.path, sizeof(place.path), "%s", path);
	find_made(g, &place);
	length = place.is_made ? proc_readlink(g, &place.made, target, sizeof(target)) : -1;
	if (length <= 0 || target[0] != '/' || (size_t)length >= size)
		return false;
	memcpy(ret, target, (size_t)length + 1);
	return true;
}

int path_made_fd(struct guest *g, const char *path)
{
	struct place place = { .directory = AT_FDCWD };

	snprintf(place.path, sizeof(place.path), "%s", path);
	find_made(g, &place);
	return place.is_made ? place.made.number : -1;
}

/* ---- open ---- */

static void name_new(const struct place *place, int fd)
{
	char absolute[PATH_SIZE];

	make_absolute(place, absolute, sizeof(absolute));
	fds_set_name(fd, absolute);
}

static bool is_fifo(const struct place *place)
{
	struct stat st;

	return fstatat(place->directory, place->path, &st, 0) == 0 && S_ISFIFO(st.st_mode);
}

/* Opening a FIFO blocks until somebody opens its other end, so everything is opened without blocking
 * and made blocking afterwards. A writer tries until there is a reader. A reader has its descriptor
 * at once, or no writer would ever come; it is kept here until one has come. */
static int readers[THREADS_MAX]; /* 0 = none */

static int take_reader(int index)
{
	int fd = readers[index];

	readers[index] = 0;
	return fd;
}

void path_forget_opening(int index)
{
	int fd = take_reader(index);

	if (fd)
		close(fd);
}

/* Without taking anything out of it: reading to nowhere says EFAULT if there is data, EAGAIN if there
 * may be some, and the end (0) as long as nobody can write. One who came and went left POLLHUP. */
static bool had_writer(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) != 0 || syscall(SYS_read, fd, NULL, 1UL) != 0;
}

/* Out of the program's way until there is a writer, and back. Each closes `fd`. */
static int64_t await_writer(struct guest *g, int fd)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, VMM_OWN_FDS);

	close(fd);
	if (kept < 0)
		return -ENFILE;
	readers[g->current] = kept;
	return file_wait_a_little(g);
}

static int bring_back(int kept, uint64_t flags)
{
	int fd = fcntl(kept, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);

	close(kept);
	return fd;
}

static bool is_reader_of_fifo(int fd, uint64_t flags)
{
	struct stat st;

	return (flags & O_ACCMODE) == O_RDONLY && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_without_blocking(const struct place *place, const struct open_how *how)
{
	struct open_how ours = *how;

	if (!(how->flags & O_PATH))
		ours.flags |= O_NONBLOCK | O_NOCTTY;
	if (how->resolve)
		return (int)syscall(
			SYS_openat2, place->directory, place->path, &ours, sizeof(ours));
	return openat(place->directory, place->path, (int)ours.flags, (mode_t)ours.mode);
}

static int64_t open_on_host(struct guest *g, const struct place *place, const struct open_how *how)
{
	bool is_blocking = !(how->flags & (O_NONBLOCK | O_PATH));
	int kept = guest_thread(g)->tries_again ? take_reader(g->current) : 0;
	int fd = kept ? kept : open_without_blocking(place, how);

	if (fd < 0 && errno == ENXIO && is_blocking)
		return is_fifo(place) ? file_wait_a_little(g) : -ENXIO;
	if (fd >= 0 && is_blocking && is_reader_of_fifo(fd, how->flags) && !had_writer(fd))
		return await_writer(g, fd);
	fd = fds_new(g, kept ? bring_back(kept, how->flags) : fd);
	if (fd < 0)
		return fd;
	if (is_blocking)
		fcntl(fd, F_SETFL, (int)(how->flags & (O_APPEND | O_DIRECT | O_NOATIME)));
	name_new(place, fd);
	return fd;
}

static int64_t open_place(
	struct guest *g, uint64_t directory, uint64_t address, const struct open_how *how)
{
	struct place place;
	int64_t fd = path_get(g, directory, address, &place);

	if (fd)
		return fd;
	if (place.is_made && how->resolve == 0)
		fd = proc_open(g, &place.made, (int)how->flags, !(how->flags & O_NOFOLLOW));
	else
		fd = open_on_host(g, &place, how);
	if (fd == 1 || fd == 2)
		file_update_output(g);
	return fd;
}

int64_t call_openat(struct guest *g, const uint64_t a[6])
{
	struct open_how how = { .flags = (uint32_t)a[2] & ~(uint32_t)O_ASYNC,
		.mode = a[3] & 07777 };

	return open_place(g, a[0], a[1], &how);
}

int64_t call_open(struct guest *g, const uint64_t a[6])
{
	return call_openat(g, (uint64_t[6]){ (uint64_t)AT_FDCWD, a[0], a[1], a[2] });
}

int64_t call_creat(struct guest *g, const uint64_t a[6])
{
	return call_open(g, (uint64_t[6]){ a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1] });
}

int64_t call_openat2(struct guest *g, const uint64_t a[6])
{
	struct open_how how;

	if (a[3] < sizeof(how))
		return -EINVAL;
	/* Longer ones are of a later Linux than we speak. */
	if (a[3] > sizeof(how))
		return -E2BIG;
	if (mem_read(&g->mem, &how, a[2], sizeof(how)))
		return -EFAULT;
	if (how.flags > UINT32_MAX || how.mode & ~07777ULL)
		return -EINVAL;
	how.flags &= ~(uint64_t)O_ASYNC;
	return open_place(g, a[0], a[1], &how);
}

/* ---- stat ---- */

int path_stat_fd(int fd, struct stat *ret)
{
	enum fd_kind kind = fds_kind(fd);

	if (kind == FD_DIRECTORY)
		proc_stat_row(fds_row(fd), ret);
	else if (kind != FD_PLAIN)
		device_stat(kind, ret);
	else if (fstat(fd, ret))
		return -errno;
	return 0;
}

/* Only the host knows, and it is nothing of ours: 1. Else 0 with *ret set, or a negative errno. */
static int stat_ours(struct guest *g, uint64_t directory, uint64_t address, int flags,
	struct place *place, struct stat *ret)
{
	int result = 0;

	/* Since Linux 6.11 no path at all is an empty one. */
	*place = (struct place){ .directory = fds_get_directory(directory) };
	if (address || !(flags & AT_EMPTY_PATH))
		result = path_get(g, directory, address, place);
	else if (place->directory < 0 && place->directory != AT_FDCWD)
		result = -EBADF;
	if (result)
		return result;
	if (place->is_made)
		return proc_stat(g, &place->made, !(flags & AT_SYMLINK_NOFOLLOW), ret);
	if (!place->path[0] && flags & AT_EMPTY_PATH && place->directory != AT_FDCWD &&
		fds_kind(place->directory) != FD_PLAIN)
		return path_stat_fd(place->directory, ret);
	return 1;
}

int64_t call_newfstatat(struct guest *g, const uint64_t a[6])
{
	struct place place;
	struct stat st;
	int flags = (int)a[3];
	int result = stat_ours(g, a[0], a[1], flags, &place, &st);

	if (result == 1)
		result = fstatat(place.directory, place.path, &st, flags) ? -errno : 0;
	return result ? result : mem_write(&g->mem, a[2], &st, sizeof(st));
}

int64_t call_stat(struct guest *g, const uint64_t a[6])
{
	return call_newfstatat(g, (uint64_t[6]){ (uint64_t)AT_FDCWD, a[0], a[1], 0 });
}

int64_t call_lstat(struct guest *g, const uint64_t a[6])
{
	return call_newfstatat(
		g, (uint64_t[6]){ (uint64_t)AT_FDCWD, a[0], a[1], AT_SYMLINK_NOFOLLOW });
}

int64_t call_fstat(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct stat st;
	int result = fd < 0 ? fd : path_stat_fd(fd, &st);

	return result ? result : mem_write(&g->mem, a[1], &st, sizeof(st));
}

static void to_statx(const struct stat *st, struct statx *ret)
{
	*ret = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_blksize = (uint32_t)st->st_blksize,
		.stx_nlink = (uint32_t)st->st_nlink,
		.stx_uid = st->st_uid,
		.stx_gid = st->st_gid,
		.stx_mode = (uint16_t)st->st_mode,
		.stx_ino = st->st_ino,
		.stx_size = (uint64_t)st->st_size,
		.stx_blocks = (uint64_t)st->st_blocks,
		.stx_rdev_major = major(st->st_rdev),
		.stx_rdev_minor = minor(st->st_rdev),
		.stx_dev_major = major(st->st_dev),
		.stx_dev_minor = minor(st->st_dev),
	};
}

int64_t call_statx(struct guest *g, const uint64_t a[6])
{
	struct place place;
	struct stat st;
	struct statx stx;
	int flags = (int)a[2];
	int result = stat_ours(g, a[0], a[1], flags, &place, &st);

	if (result == 1)
		result = statx(place.directory, place.path, flags, (unsigned)a[3], &stx) ? -errno :
											   0;
	else if (result == 0)
		to_statx(&st, &stx);
	return result ? result : mem_write(&g->mem, a[4], &stx, sizeof(stx));
}

/* ---- may it, where does it lead ---- */

int64_t call_faccessat2(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = path_get(g, a[0], a[1], &place);

	if (result)
		return result;
	if (place.is_made)
		return proc_access(g, &place.made, (int)a[2]);
	/* The call itself and not the library's: that one makes up flags which old hosts lack. */
	if (a[3] == 0)
		return host_result(syscall(SYS_faccessat, place.directory, place.path, (int)a[2]));
	return host_result(
		syscall(SYS_faccessat2, place.directory, place.path, (int)a[2], (int)a[3]));
}

int64_t call_faccessat(struct guest *g, const uint64_t a[6])
{
	return call_faccessat2(g, (uint64_t[6]){ a[0], a[1], a[2], 0 });
}

int64_t call_access(struct guest *g, const uint64_t a[6])
{
	return call_faccessat2(g, (uint64_t[6]){ (uint64_t)AT_FDCWD, a[0], a[1], 0 });
}

int64_t call_readlinkat(struct guest *g, const uint64_t a[6])
{
	struct place place;
	char target[PATH_SIZE];
	int64_t length = path_get(g, a[0], a[1], &place);
	size_t room = (int)a[3] < PATH_SIZE ? (size_t)(uint32_t)a[3] : PATH_SIZE;

	if (length)
		return length;
	if ((int)a[3] <= 0)
		return -EINVAL;
	length = place.is_made ? proc_readlink(g, &place.made, target, sizeof(target)) :
				 host_result(readlinkat(
					 place.directory, place.path, target, sizeof(target)));
	if (length < 0)
		return length;
	if ((size_t)length > room)
		length = (int64_t)room;
	return mem_write(&g->mem, a[2], target, (size_t)length) ? -EFAULT : length;
}

int64_t call_readlink(struct guest *g, const uint64_t a[6])
{
	return call_readlinkat(g, (uint64_t[6]){ (uint64_t)AT_FDCWD, a[0], a[1], a[2] });
}

/* ---- directories ---- */

static int64_t list(struct guest *g, const uint64_t a[6], long number)
{
	static char entries[32768];
	int fd = fds_get(a[0]);
	size_t size = (uint32_t)a[2] < sizeof(entries) ? (uint32_t)a[2] : sizeof(entries);
	int64_t got;

	if (fd < 0)
		return fd;
	if (fds_kind(fd) == FD_DIRECTORY && number == SYS_getdents64)
		got = device_getdents(fd, entries, size);
	else
		got = host_result(syscall(number, fd, entries, size));
	if (got > 0 && mem_write(&g->mem, a[1], entries, (size_t)got))
		return -EFAULT;
	return got;
}

int64_t call_getdents64(struct guest *g, const uint64_t a[6])
{
	return list(g, a, SYS_getdents64);
}

int64_t call_getdents(struct guest *g, const uint64_t a[6])
{
	return list(g, a, SYS_getdents);
}

int64_t call_getcwd(struct guest *g, const uint64_t a[6])
{
	char path[PATH_SIZE];
	int64_t length = host_result(syscall(SYS_getcwd, path, sizeof(path)));

	if (length < 0)
		return length;
	if ((uint64_t)length > a[1])
		return -ERANGE;
	return mem_write(&g->mem, a[0], path, (size_t)length) ? -EFAULT : length;
}

int64_t call_chdir(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = path_get(g, (uint64_t)AT_FDCWD, a[0], &place);

	return result ? result : host_result(chdir(place.path));
}

int64_t call_fchdir(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(fchdir(fd));
}

/* ---- file systems ---- */

int64_t call_statfs(struct guest *g, const uint64_t a[6])
{
	struct place place;
	struct statfs st;
	int result = path_get(g, (uint64_t)AT_FDCWD, a[0], &place);

	if (result)
		return result;
	if (place.is_made)
		st = (struct statfs){
			.f_type = PROC_SUPER_MAGIC, .f_bsize = 4096, .f_namelen = 255
		};
	else if (statfs(place.path, &st))
		return -errno;
	return mem_write(&g->mem, a[1], &st, sizeof(st));
}

int64_t call_fstatfs(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct statfs st;

	if (fd < 0)
		return fd;
	return fstatfs(fd, &st) ? -errno : mem_write(&g->mem, a[1], &st, sizeof(st));
}
