#include "base/nameless.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

int nameless_open(int dir_fd, const char *spare_name)
{
	int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	/* EISDIR: a kernel that does not know the flag at all. */
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	fd = openat(dir_fd, spare_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlinkat(dir_fd, spare_name, 0);
	return fd;
}

int nameless_copy(int from, int to)
{
	off_t at = 0;
	ssize_t n;

	do {
		n = sendfile(to, from, &at, PIECE);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -1 : 0;
}
