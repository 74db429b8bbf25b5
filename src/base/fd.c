#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, void *data, size_t len)
{
	char *at = data;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENODATA;
		if (n <= 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int fd_slurp(int dir_fd, const char *path, size_t max, struct buf *ret, struct err *e)
{
	auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	for (;;) {
		char *end = buf_reserve(ret, 4096);
		ssize_t n = read(fd, end, 4096);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read '%s'", path);
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
		if (n == 0)
			return 0;
		if (ret->len > max)
			return err_set(e, ERR_LIMIT, "'%s' is larger than %zu bytes", path, max);
	}
}

int fd_write_text(int dir_fd, const char *path, const char *text)
{
	auto_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -1 : fd_write_all(fd, text, strlen(text));
}

int fd_read_text(int dir_fd, const char *path, char *ret, size_t size)
{
	auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -1;
	while (n > 0 && (ret[n - 1] == '\n' || ret[n - 1] == ' '))
		n--;
	ret[n] = '\0';
	return 0;
}

int fd_read_u64(int dir_fd, const char *path, unsigned long long *ret)
{
	char text[64];
	char *end;

	if (fd_read_text(dir_fd, path, text, sizeof(text)))
		return -1;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (end == text) {
		errno = EINVAL;
		return -1;
	}
	return errno ? -1 : 0;
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static int close_from(int first, int kept, int kept_count)
{
	if (first < kept && syscall(SYS_close_range, first, kept - 1, 0))
		return -1;
	return (int)syscall(SYS_close_range, kept + kept_count, ~0U, 0);
}

int fd_arrange_beside(int *fds, int count, int base, int kept, int kept_count)
{
	/* First out of the way of all targets, then to their places: no target is overwritten
	 * while it still holds something that is needed. */
	for (int i = 0; i < count; i++) {
		int moved;

		if (fds[i] < 0)
			continue;
		moved = fcntl(fds[i], F_DUPFD_CLOEXEC, base + count);
		if (moved < 0)
			return -1;
		fds[i] = moved;
	}
	for (int i = 0; i < count; i++) {
		if (fds[i] < 0) {
			close(base + i);
			continue;
		}
		if (dup3(fds[i], base + i, O_CLOEXEC) < 0)
			return -1;
		fds[i] = base + i;
	}
	return close_from(base + count, kept, kept_count);
}

int fd_arrange(int *fds, int count, int base)
{
	return fd_arrange_beside(fds, count, base, base + count, 0);
}

/* ---- by way of /proc ---- */

static int own_proc_fd = -1;

void fd_set_proc(int proc_fd)
{
	own_proc_fd = proc_fd;
}

static const char *handle_path(int handle, char *ret, size_t size)
{
	snprintf(ret, size, "%sself/fd/%d", own_proc_fd < 0 ? "/proc/" : "", handle);
	return ret;
}

int fd_chmod_handle(int handle, mode_t mode)
{
	char path[64];

	return fchmodat(own_proc_fd, handle_path(handle, path, sizeof(path)), mode, 0);
}

int fd_open_handle(int handle, int flags)
{
	char path[64];

	return openat(own_proc_fd, handle_path(handle, path, sizeof(path)), flags | O_CLOEXEC);
}
