/* Made-up files are not the program's to change; whatever the host has under such a name is not
 * either. */
#include "vmm/call_name.h"

#include "base/own.h"
#include "vmm/call_path.h"
#include "vmm/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#define HERE ((uint64_t)AT_FDCWD)

static int name_get(struct guest *g, uint64_t directory, uint64_t address, struct place *ret)
{
	int result = path_get(g, directory, address, ret);

	if (result || !ret->is_made)
		return result;
	/* By the name of a descriptor the library tries what it has no call for; so it goes on. */
	return ret->made.number >= 0 ? -ENOENT : -EPERM;
}

/* Two places, for calls that have a from and a to. */
static int get_two(struct guest *g, const uint64_t a[6], struct place two[2])
{
	int result = path_get(g, a[0], a[1], &two[0]);

	return result ? result : name_get(g, a[2], a[3], &two[1]);
}

/* ---- names ---- */

int64_t call_mkdirat(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = name_get(g, a[0], a[1], &place);

	return result ? result : host_result(mkdirat(place.directory, place.path, (mode_t)a[2]));
}

int64_t call_mkdir(struct guest *g, const uint64_t a[6])
{
	return call_mkdirat(g, (uint64_t[6]){ HERE, a[0], a[1] });
}

/* Devices are the host's. */
int64_t call_mknodat(struct guest *g, const uint64_t a[6])
{
	mode_t mode = (mode_t)a[2];
	struct place place;
	int result = name_get(g, a[0], a[1], &place);

	if (result)
		return result;
	if ((mode & S_IFMT) && !S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
		return -EPERM;
	return host_result(mknodat(place.directory, place.path, mode, 0));
}

int64_t call_mknod(struct guest *g, const uint64_t a[6])
{
	return call_mknodat(g, (uint64_t[6]){ HERE, a[0], a[1], a[2] });
}

int64_t call_unlinkat(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = name_get(g, a[0], a[1], &place);

	return result ? result : host_result(unlinkat(place.directory, place.path, (int)a[2]));
}

int64_t call_unlink(struct guest *g, const uint64_t a[6])
{
	return call_unlinkat(g, (uint64_t[6]){ HERE, a[0], 0 });
}

int64_t call_rmdir(struct guest *g, const uint64_t a[6])
{
	return call_unlinkat(g, (uint64_t[6]){ HERE, a[0], AT_REMOVEDIR });
}

int64_t call_renameat2(struct guest *g, const uint64_t a[6])
{
	struct place two[2];
	int result = get_two(g, a, two);

	if (result == 0 && two[0].is_made)
		result = -EPERM;
	if (result)
		return result;
	return host_result(syscall(SYS_renameat2, two[0].directory, two[0].path, two[1].directory,
		two[1].path, (unsigned)a[4]));
}

int64_t call_renameat(struct guest *g, const uint64_t a[6])
{
	return call_renameat2(g, (uint64_t[6]){ a[0], a[1], a[2], a[3], 0 });
}

int64_t call_rename(struct guest *g, const uint64_t a[6])
{
	return call_renameat2(g, (uint64_t[6]){ HERE, a[0], HERE, a[1], 0 });
}

int64_t call_linkat(struct guest *g, const uint64_t a[6])
{
	struct place two[2];
	int flags = (int)a[4];
	int result = get_two(g, a, two);

	if (result)
		return result;
	/* The usual way to give a file made by O_TMPFILE its name is /proc/self/fd/N. */
	if (two[0].is_made && two[0].made.number >= 0 && flags & AT_SYMLINK_FOLLOW) {
		two[0].directory = two[0].made.number;
		two[0].path[0] = '\0';
		flags = AT_EMPTY_PATH;
	} else if (two[0].is_made) {
		return -EPERM;
	}
	return host_result(
		linkat(two[0].directory, two[0].path, two[1].directory, two[1].path, flags));
}

int64_t call_link(struct guest *g, const uint64_t a[6])
{
	return call_linkat(g, (uint64_t[6]){ HERE, a[0], HERE, a[1], 0 });
}

int64_t call_symlinkat(struct guest *g, const uint64_t a[6])
{
	char target[PATH_SIZE];
	struct place place;
	int result = mem_string(&g->mem, target, a[0], sizeof(target));

	if (result >= 0)
		result = name_get(g, a[1], a[2], &place);
	return result ? result : host_result(symlinkat(target, place.directory, place.path));
}

int64_t call_symlink(struct guest *g, const uint64_t a[6])
{
	return call_symlinkat(g, (uint64_t[6]){ a[0], HERE, a[1] });
}

/* ---- modes and owners ---- */

int64_t call_fchmod(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(fchmod(fd, (mode_t)a[1]));
}

int64_t call_fchmodat(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = name_get(g, a[0], a[1], &place);

	/* The system call has no flags; the library's function would look for /proc. */
	return result ? result :
			host_result(
				syscall(SYS_fchmodat, place.directory, place.path, (mode_t)a[2]));
}

int64_t call_chmod(struct guest *g, const uint64_t a[6])
{
	return call_fchmodat(g, (uint64_t[6]){ HERE, a[0], a[1] });
}

/* To the host an id that the cell does not have is none at all; to a program it is somebody else's. */
static int64_t chown_result(int result, uint64_t user, uint64_t group)
{
	bool is_foreign = ((uid_t)user != (uid_t)-1 && (uid_t)user != getuid()) ||
			  ((gid_t)group != (gid_t)-1 && (gid_t)group != getgid());

	return result && errno == EINVAL && is_foreign ? -EPERM : host_result(result);
}

int64_t call_fchown(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : chown_result(fchown(fd, (uid_t)a[1], (gid_t)a[2]), a[1], a[2]);
}

int64_t call_fchownat(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = name_get(g, a[0], a[1], &place);

	return result ? result :
			chown_result(fchownat(place.directory, place.path, (uid_t)a[2], (gid_t)a[3],
					     (int)a[4]),
				a[2], a[3]);
}

int64_t call_chown(struct guest *g, const uint64_t a[6])
{
	return call_fchownat(g, (uint64_t[6]){ HERE, a[0], a[1], a[2], 0 });
}

int64_t call_lchown(struct guest *g, const uint64_t a[6])
{
	return call_fchownat(g, (uint64_t[6]){ HERE, a[0], a[1], a[2], AT_SYMLINK_NOFOLLOW });
}

int64_t call_truncate(struct guest *g, const uint64_t a[6])
{
	struct place place;
	int result = name_get(g, HERE, a[0], &place);

	return result ? result : host_result(truncate(place.path, (off_t)a[1]));
}

int64_t call_umask(struct guest *g, const uint64_t a[6])
{
	(void)g;
	return (int64_t)umask((mode_t)a[0] & 0777);
}

/* ---- times ---- */

/* `times` NULL = now. A path at address 0 means the descriptor itself. */
static int64_t set_times(struct guest *g, uint64_t directory, uint64_t address,
	const struct timespec *times, int flags)
{
	struct place place;
	int fd = fds_get(directory);
	int result;

	if (!address)
		return fd < 0 ? -EBADF : host_result(syscall(SYS_utimensat, fd, NULL, times, 0));
	result = name_get(g, directory, address, &place);
	if (result)
		return result;
	return host_result(syscall(SYS_utimensat, place.directory, place.path, times, flags));
}

int64_t call_utimensat(struct guest *g, const uint64_t a[6])
{
	struct timespec times[2];

	if (a[2] && mem_read(&g->mem, times, a[2], sizeof(times)))
		return -EFAULT;
	return set_times(g, a[0], a[1], a[2] ? times : NULL, (int)a[3]);
}

int64_t call_futimesat(struct guest *g, const uint64_t a[6])
{
	struct timeval given[2];
	struct timespec times[2];

	if (a[2] && mem_read(&g->mem, given, a[2], sizeof(given)))
		return -EFAULT;
	for (int i = 0; a[2] && i < 2; i++) {
		if (given[i].tv_usec < 0 || given[i].tv_usec >= 1000000)
			return -EINVAL;
		times[i] = (struct timespec){ given[i].tv_sec, given[i].tv_usec * 1000 };
	}
	return set_times(g, a[0], a[1], a[2] ? times : NULL, 0);
}

int64_t call_utimes(struct guest *g, const uint64_t a[6])
{
	return call_futimesat(g, (uint64_t[6]){ HERE, a[0], a[1] });
}

int64_t call_utime(struct guest *g, const uint64_t a[6])
{
	struct utimbuf given;
	struct timespec times[2] = { 0 };

	if (a[1] && mem_read(&g->mem, &given, a[1], sizeof(given)))
		return -EFAULT;
	if (a[1]) {
		times[0].tv_sec = given.actime;
		times[1].tv_sec = given.modtime;
	}
	return set_times(g, HERE, a[0], a[1] ? times : NULL, 0);
}
