#include "vmm/device.h"

#include "base/own.h"
#include "vmm/try.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/sysmacros.h>

/* Minor numbers of major 1, as Linux has them. */
static const uint8_t minors[] = { [FD_NULL] = 3, [FD_ZERO] = 5, [FD_FULL] = 7, [FD_RANDOM] = 9 };

int device_open(struct guest *g, enum fd_kind kind, int flags)
{
	int fd = fds_new(g, eventfd(1, flags & O_CLOEXEC ? EFD_CLOEXEC : 0));

	if (fd >= 0)
		fds_set_kind(fd, kind, flags, 0);
	if (fd >= 0)
		fds_set_origin(fd, ORIGIN_OTHER, fds_new_object(), false);
	return fd;
}

void device_stat(enum fd_kind kind, struct stat *ret)
{
	*ret = (struct stat){
		.st_dev = makedev(0, 5),
		.st_ino = 4 + minors[kind],
		.st_nlink = 1,
		.st_mode = S_IFCHR | 0666,
		.st_rdev = makedev(1, minors[kind]),
		.st_blksize = 4096,
	};
}

static int64_t fill_random(struct pieces *p)
{
	int64_t total = 0;

	while (p->size) {
		/* Up to 256 bytes come whole and without being interrupted. */
		size_t part = p->at->iov_len < 256 ? p->at->iov_len : 256;
		ssize_t got = getrandom(p->at->iov_base, part, 0);

		if (got <= 0)
			return total ? total : -EIO;
		total += got;
		pieces_skip(p, (uint64_t)got);
	}
	return total;
}

int64_t device_read(int fd, struct pieces *p)
{
	enum fd_kind kind = fds_kind(fd);

	if (kind == FD_DIRECTORY)
		return -EISDIR;
	if (fds_access(fd) == O_WRONLY)
		return -EBADF;
	if (kind == FD_NULL)
		return 0;
	if (kind == FD_RANDOM)
		return fill_random(p);
	for (int i = 0; i < p->count; i++)
		if (try_zero(p->at[i].iov_base, p->at[i].iov_len))
			return -EFAULT;
	return (int64_t)p->size;
}

int64_t device_write(int fd, const struct pieces *p)
{
	if (fds_access(fd) == O_RDONLY)
		return -EBADF;
	return fds_kind(fd) == FD_FULL && p->size ? -ENOSPC : (int64_t)p->size;
}

int64_t device_seek(int fd, int64_t offset, int whence)
{
	if (fds_kind(fd) == FD_DIRECTORY)
		return host_result(lseek(fd, offset, whence));
	return 0;
}

int64_t device_getdents(int fd, void *ret, size_t size)
{
	ssize_t got = pread(fd, ret, size, lseek(fd, 0, SEEK_CUR));
	size_t whole = 0;

	if (got <= 0)
		return host_result(got);
	while (whole + offsetof(struct dirent64, d_name) <= (size_t)got) {
		uint16_t length;

		memcpy(&length, (char *)ret + whole + offsetof(struct dirent64, d_reclen),
			sizeof(length));
		if (length == 0 || whole + length > (size_t)got)
			break;
		whole += length;
	}
	if (whole == 0)
		return -EINVAL;
	return lseek(fd, (off_t)whole, SEEK_CUR) < 0 ? -errno : (int64_t)whole;
}
