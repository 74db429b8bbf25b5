#include "vmm/call_fd.h"

#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/fds.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/memfd.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/timerfd.h>

static void output_may_have_changed(struct guest *g, int fd)
{
	if (fd == 1 || fd == 2)
		file_update_output(g);
}

/* ---- ends ---- */

int64_t call_close(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	int64_t result;

	if (fd < 0)
		return fd;
	fds_forget(fd);
	result = host_result(close(fd));
	output_may_have_changed(g, fd);
	/* Whatever it says, the descriptor is gone. */
	return result == -EINTR ? 0 : result;
}

int64_t call_close_range(struct guest *g, const uint64_t a[6])
{
	unsigned first = (unsigned)a[0];
	unsigned last = (unsigned)a[1];
	unsigned flags = (unsigned)a[2];

	if (first > last || flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC))
		return -EINVAL;
	/* Ours lie above the program's. */
	if (last >= VMM_GUEST_FDS)
		last = VMM_GUEST_FDS - 1;
	if (first > last)
		return 0;
	if (!(flags & CLOSE_RANGE_CLOEXEC))
		for (unsigned fd = first; fd <= last; fd++)
			fds_forget((int)fd);
	if (close_range(first, last, (int)(flags & CLOSE_RANGE_CLOEXEC)))
		return -errno;
	file_update_output(g);
	return 0;
}

/* ---- copies ---- */

static int64_t copy_above(struct guest *g, int fd, uint64_t lowest, int command)
{
	int copy;

	if (!fds_in_limit(g, lowest))
		return -EINVAL;
	copy = fds_new(g, fcntl(fd, command, (int)lowest));
	if (copy >= 0)
		fds_copy(fd, copy);
	if (copy >= 0)
		output_may_have_changed(g, copy);
	return copy;
}

int64_t call_dup(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	return fd < 0 ? fd : copy_above(g, fd, 0, F_DUPFD);
}

static int64_t copy_to(struct guest *g, int from, int to, int flags)
{
	if (from < 0 || to < 0 || !fds_in_limit(g, (uint64_t)to))
		return -EBADF;
	if (dup3(from, to, flags) < 0)
		return -errno;
	fds_copy(from, to);
	output_may_have_changed(g, to);
	return to;
}

int64_t call_dup2(struct guest *g, const uint64_t a[6])
{
	int from = fds_get(a[0]);
	int to = fds_get(a[1]);

	if (from >= 0 && from == to)
		return fcntl(from, F_GETFD) < 0 ? -EBADF : to;
	return copy_to(g, from, to, 0);
}

int64_t call_dup3(struct guest *g, const uint64_t a[6])
{
	if (a[2] & ~(uint64_t)O_CLOEXEC || (uint32_t)a[0] == (uint32_t)a[1])
		return -EINVAL;
	return copy_to(g, fds_get(a[0]), fds_get(a[1]), (int)a[2]);
}

/* ---- fcntl ---- */

static int64_t get_flags(int fd)
{
	int64_t flags = host_result(fcntl(fd, F_GETFL));

	/* The placeholder of a device was opened in another way than the program asked for. */
	if (flags >= 0 && fds_kind(fd) != FD_PLAIN)
		flags = (flags & ~(int64_t)O_ACCMODE) | fds_access(fd);
	return flags;
}

static int64_t set_flags(struct guest *g, int fd, uint64_t flags)
{
	/* O_ASYNC would send signals to us that we do not know how to pass on. */
	int64_t result = host_result(fcntl(fd, F_SETFL, (int)(flags & ~(uint64_t)O_ASYNC)));

	file_update_output(g);
	return result;
}

/* The command that does not wait, for one that does. */
static int without_waiting(int command)
{
	if (command == F_SETLKW)
		return F_SETLK;
	return command == F_OFD_SETLKW ? F_OFD_SETLK : command;
}

static int64_t lock(struct guest *g, int fd, int command, uint64_t address)
{
	int try = without_waiting(command);
	struct flock lock;
	int64_t result;

	if (mem_read(&g->mem, &lock, address, sizeof(lock)))
		return -EFAULT;
	result = host_result(fcntl(fd, try, &lock));
	if ((result == -EAGAIN || result == -EACCES) && try != command)
		return file_wait_a_little(g);
	if (result == 0 && (command == F_GETLK || command == F_OFD_GETLK) &&
		mem_write(&g->mem, address, &lock, sizeof(lock)))
		return -EFAULT;
	return result;
}

int64_t call_fcntl(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	int command = (int)a[1];

	if (fd < 0)
		return fd;
	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return copy_above(g, fd, (uint32_t)a[2], command);
	case F_GETFL:
		return get_flags(fd);
	case F_SETFL:
		return set_flags(g, fd, a[2]);
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return lock(g, fd, command, a[2]);
	case F_GETFD:
	case F_SETFD:
	case F_GETPIPE_SZ:
	case F_SETPIPE_SZ:
	case F_ADD_SEALS:
	case F_GET_SEALS:
		return host_result(fcntl(fd, command, (int)a[2]));
	case F_GETOWN:
	case F_SETOWN:
		return fcntl(fd, F_GETFD) < 0 ? -EBADF : 0; /* nobody: see set_flags() */
	case F_NOTIFY: /* would come as signals; only taking it back can be had */
		return a[2] & ~(uint64_t)(uint32_t)DN_MULTISHOT ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

int64_t call_flock(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	int64_t result;

	if (fd < 0)
		return fd;
	result = host_result(flock(fd, (int)a[1] | LOCK_NB));
	return result == -EWOULDBLOCK && !(a[1] & LOCK_NB) ? file_wait_a_little(g) : result;
}

/* ---- ioctl: few, since each is a door into some driver; nothing is a terminal ---- */

static int64_t count_readable(struct guest *g, int fd, uint64_t address)
{
	int count;

	if (fds_kind(fd) != FD_PLAIN)
		return -ENOTTY;
	if (ioctl(fd, FIONREAD, &count))
		return -errno;
	return mem_write(&g->mem, address, &count, sizeof(count));
}

static int64_t set_nonblocking(struct guest *g, int fd, uint64_t address)
{
	int64_t flags = host_result(fcntl(fd, F_GETFL));
	int on;

	if (flags < 0)
		return flags;
	if (mem_read(&g->mem, &on, address, sizeof(on)))
		return -EFAULT;
	return set_flags(g, fd, (uint64_t)(on ? flags | O_NONBLOCK : flags & ~(int64_t)O_NONBLOCK));
}

int64_t call_ioctl(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	if (fd < 0)
		return fd;
	switch ((uint32_t)a[1]) {
	case FIONREAD:
		return count_readable(g, fd, a[2]);
	case FIONBIO:
		return set_nonblocking(g, fd, a[2]);
	case FIOCLEX:
		return host_result(fcntl(fd, F_SETFD, FD_CLOEXEC));
	case FIONCLEX:
		return host_result(fcntl(fd, F_SETFD, 0));
	default:
		return fcntl(fd, F_GETFD) < 0 ? -EBADF : -ENOTTY;
	}
}

/* ---- new ones that are no files ---- */

static int64_t give_pair(struct guest *g, const int pair[2], uint64_t address)
{
	int first = fds_new(g, pair[0]);
	int second = fds_new(g, pair[1]);

	if (first >= 0 && second >= 0 && mem_write(&g->mem, address, pair, 2 * sizeof(int)) == 0) {
		uint32_t object = fds_new_object();

		fds_set_origin(first, ORIGIN_PIPE_OUT, object, false);
		fds_set_origin(second, ORIGIN_PIPE_IN, object, false);
		return 0;
	}
	if (first >= 0)
		close(first);
	if (second >= 0)
		close(second);
	return first < 0 || second < 0 ? -EMFILE : -EFAULT;
}

int64_t call_pipe2(struct guest *g, const uint64_t a[6])
{
	int pair[2];

	if (a[1] & ~(uint64_t)(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
		return -EINVAL;
	return pipe2(pair, (int)a[1]) ? -errno : give_pair(g, pair, a[0]);
}

int64_t call_pipe(struct guest *g, const uint64_t a[6])
{
	return call_pipe2(g, (uint64_t[6]){ a[0] });
}

int64_t call_memfd_create(struct guest *g, const uint64_t a[6])
{
	enum { NAME_SIZE = 250, NOEXEC_SEAL = 8, EXEC = 16 };
	char name[NAME_SIZE];
	char shown[NAME_SIZE + 32];
	int length = mem_string(&g->mem, name, a[0], sizeof(name));
	int fd;

	if (length < 0)
		return length == -ENAMETOOLONG ? -EINVAL : length;
	/* Large pages are the host's to give. */
	if (a[1] & ~(uint64_t)(MFD_CLOEXEC | MFD_ALLOW_SEALING | NOEXEC_SEAL | EXEC))
		return -EINVAL;
	fd = fds_new(g, memfd_create(name, (unsigned)a[1]));
	snprintf(shown, sizeof(shown), "/memfd:%s (deleted)", name);
	if (fd >= 0)
		fds_set_name(fd, shown);
	return fd;
}

int64_t call_eventfd2(struct guest *g, const uint64_t a[6])
{
	int fd = fds_new(g, eventfd((unsigned)a[0], (int)a[1]));

	if (fd >= 0)
		fds_set_origin(fd, ORIGIN_EVENT, fds_new_object(), (a[1] & EFD_SEMAPHORE) != 0);
	return fd;
}

int64_t call_eventfd(struct guest *g, const uint64_t a[6])
{
	return call_eventfd2(g, (uint64_t[6]){ a[0] });
}

int64_t call_timerfd_create(struct guest *g, const uint64_t a[6])
{
	return fds_new(g, timerfd_create((int)a[0], (int)a[1]));
}

int64_t call_timerfd_settime(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct itimerspec value;
	struct itimerspec old;

	if (fd < 0)
		return fd;
	if (mem_read(&g->mem, &value, a[2], sizeof(value)))
		return -EFAULT;
	if (timerfd_settime(fd, (int)a[1], &value, &old))
		return -errno;
	return a[3] ? mem_write(&g->mem, a[3], &old, sizeof(old)) : 0;
}

int64_t call_timerfd_gettime(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	struct itimerspec value;

	if (fd < 0)
		return fd;
	if (timerfd_gettime(fd, &value))
		return -errno;
	return mem_write(&g->mem, a[1], &value, sizeof(value));
}

int64_t call_inotify_init1(struct guest *g, const uint64_t a[6])
{
	return fds_new(g, inotify_init1((int)a[0]));
}

int64_t call_inotify_init(struct guest *g, const uint64_t a[6])
{
	(void)a;
	return fds_new(g, inotify_init1(0));
}

int64_t call_inotify_add_watch(struct guest *g, const uint64_t a[6])
{
	char path[PATH_SIZE];
	int fd = fds_get(a[0]);
	int length;

	if (fd < 0)
		return fd;
	length = mem_string(&g->mem, path, a[1], sizeof(path));
	return length < 0 ? length : host_result(inotify_add_watch(fd, path, (uint32_t)a[2]));
}

int64_t call_inotify_rm_watch(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);

	(void)g;
	return fd < 0 ? fd : host_result(inotify_rm_watch(fd, (int)a[1]));
}
