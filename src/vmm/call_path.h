/* call_path: finding files by their names: open, stat, and the like. */
#ifndef HOTCELL_VMM_CALL_PATH_H
#define HOTCELL_VMM_CALL_PATH_H

#include "vmm/call_name.h"
#include "vmm/guest.h"
#include "vmm/proc.h"

/* What a path of the program means: a name for the host, or something made up. */
struct place {
	int directory; /* AT_FDCWD or a descriptor of the program */
	bool is_made;
	struct made made;
	char path[PATH_SIZE];
};

/* Returns 0 or a negative errno. */
int path_get(struct guest *g, uint64_t directory, uint64_t address, struct place *ret);

/* The file that a path stands for if it is a made-up link (/proc/self/exe): for execve. Gives false
 * and leaves *ret alone if it is none. */
bool path_follow_made(struct guest *g, const char *path, char *ret, size_t size);

/* The descriptor that a path stands for, if it is one of /proc/self/fd; else -1. */
int path_made_fd(struct guest *g, const char *path);

/* Without "//", "/./" and "/../", in place. The path is absolute. */
void path_normalise(char *path);

/* The call of thread number `index` ends by a signal: if it was waiting to open a FIFO, it no longer
 * is one who reads it. */
void path_forget_opening(int index);

/* fstat of a descriptor of the program, whatever stands behind it. Returns 0 or a negative errno. */
int path_stat_fd(int fd, struct stat *ret);

int64_t call_open(struct guest *g, const uint64_t a[6]);
int64_t call_openat(struct guest *g, const uint64_t a[6]);
int64_t call_openat2(struct guest *g, const uint64_t a[6]);
int64_t call_creat(struct guest *g, const uint64_t a[6]);
int64_t call_stat(struct guest *g, const uint64_t a[6]);
int64_t call_lstat(struct guest *g, const uint64_t a[6]);
int64_t call_fstat(struct guest *g, const uint64_t a[6]);
int64_t call_newfstatat(struct guest *g, const uint64_t a[6]);
int64_t call_statx(struct guest *g, const uint64_t a[6]);
int64_t call_access(struct guest *g, const uint64_t a[6]);
int64_t call_faccessat(struct guest *g, const uint64_t a[6]);
int64_t call_faccessat2(struct guest *g, const uint64_t a[6]);
int64_t call_readlink(struct guest *g, const uint64_t a[6]);
int64_t call_readlinkat(struct guest *g, const uint64_t a[6]);
int64_t call_getdents(struct guest *g, const uint64_t a[6]);
int64_t call_getdents64(struct guest *g, const uint64_t a[6]);
int64_t call_getcwd(struct guest *g, const uint64_t a[6]);
int64_t call_chdir(struct guest *g, const uint64_t a[6]);
int64_t call_fchdir(struct guest *g, const uint64_t a[6]);
int64_t call_statfs(struct guest *g, const uint64_t a[6]);
int64_t call_fstatfs(struct guest *g, const uint64_t a[6]);

#endif
