/* fd: small helpers around file descriptors. Every fd is close-on-exec from birth. */
#ifndef HOTCELL_BASE_FD_H
#define HOTCELL_BASE_FD_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* Write or read all of it, over short counts and EINTR. 0 or -1 with errno. fd_read_all sets errno
 * to ENODATA when the file ends early. */
int fd_write_all(int fd, const void *data, size_t len);
int fd_read_all(int fd, void *data, size_t len);

/* The whole (small) file at `dir_fd`/`path` as bytes; refuses more than `max` bytes. */
int fd_slurp(int dir_fd, const char *path, size_t max, struct buf *ret, struct err *e);

/* For one-line kernel files: writes `text`, 0 or -1 with errno; reads a trimmed string or number.
 * fd_read_u64 gives -1 with errno on failure. */
int fd_write_text(int dir_fd, const char *path, const char *text);
int fd_read_text(int dir_fd, const char *path, char *ret, size_t size);
int fd_read_u64(int dir_fd, const char *path, unsigned long long *ret);

int fd_set_nonblock(int fd, bool on);

/* Puts `fds[i]` at number `base + i` for all i, whatever the numbers were, and closes every other
 * fd from `base` up. For the moment between fork and the new life of a child. */
int fd_arrange(int *fds, int count, int base);
/* The same, but the `kept_count` numbers from `kept` up stay open if they are. */
int fd_arrange_beside(int *fds, int count, int base, int kept, int kept_count);

/* What an O_PATH descriptor refers to: another mode for it, or another descriptor. By way of /proc;
 * where none is mounted, fd_set_proc() says which to use. */
int fd_chmod_handle(int handle, mode_t mode);
int fd_open_handle(int handle, int flags);
void fd_set_proc(int proc_fd);

#endif
