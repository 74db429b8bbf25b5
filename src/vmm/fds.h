/* fds: what we know of the program's descriptors beyond what the host knows: names, kinds that the
 * host does not have, and who must be told when one goes away.
 *
 * Every new descriptor passes fds_new() or fds_copy(), every one that ends passes fds_forget(). */
#ifndef HOTCELL_VMM_FDS_H
#define HOTCELL_VMM_FDS_H

#include "vmm/guest.h"

#include "wire/vmm_start.h"

#include <errno.h>

/* What stands behind a descriptor. Of all but the first the host has only a placeholder. */
enum fd_kind { FD_PLAIN, FD_NULL, FD_ZERO, FD_FULL, FD_RANDOM, FD_DIRECTORY };

/* The descriptor that an argument names, or -EBADF if it cannot be the program's. */
int fds_get(uint64_t argument);
/* Likewise for the directory of an ...at() call: AT_FDCWD is one, too. */
int fds_get_directory(uint64_t argument);
/* The host gave `fd` to the program, or refused with errno. Returns it or a negative errno; one
 * above the program's limit is closed. */
int fds_new(const struct guest *g, int fd);
/* Whether the program may have a descriptor of this number. */
bool fds_in_limit(const struct guest *g, uint64_t number);
void fds_copy(int from, int to);
void fds_forget(int fd);
/* execve in place: ends those that are close-on-exec. */
void fds_close_on_exec(void);

/* The absolute path that it was opened by, "" if that is not known. */
const char *fds_name(int fd);
void fds_set_name(int fd, const char *name);

enum fd_kind fds_kind(int fd);
int fds_access(int fd); /* O_RDONLY, O_WRONLY, O_RDWR; not for plain ones */
int fds_row(int fd);    /* of a made-up directory: its row in proc.c */
void fds_set_kind(int fd, enum fd_kind kind, int access, int row);

/* By which call it came about, as far as a snapshot can make it again. */
enum fd_origin { ORIGIN_OTHER, ORIGIN_EPOLL, ORIGIN_EVENT, ORIGIN_PIPE_OUT, ORIGIN_PIPE_IN };

/* A number that both ends of a pipe share, and copies of a descriptor. */
uint32_t fds_new_object(void);
void fds_set_origin(int fd, enum fd_origin origin, uint32_t object, bool is_semaphore);
enum fd_origin fds_origin(int fd);
uint32_t fds_object(int fd);
bool fds_is_semaphore(int fd);

/* A vfork child has descriptors of its own but our memory: what it changes is taken back. */
struct fds_kept;
struct fds_kept *fds_keep(void);
void fds_restore(struct fds_kept *kept);

/* The kinds as a short text, for a fresh VMM that gets the same descriptors (execve after vfork).
 * Those that are close-on-exec are left out. Returns the length; a text that does not fit is cut
 * at a whole entry. */
size_t special_save(char *ret, size_t size);
void special_load(const char *text);
/* Same as fds_kind(). */
int special_kind(int fd);

/* 0 and above is a result, below stands errno. */
static inline int64_t host_result(int64_t result)
{
	return result < 0 ? -(int64_t)errno : result;
}

#endif
