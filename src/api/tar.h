/* tar: archives of a session's files. What is unpacked is hostile: this is the gate that it passes. Both are slow, and
 * belong on a thread beside the loop; one archive is one thread's at a time. */
#ifndef HOTCELL_API_TAR_H
#define HOTCELL_API_TAR_H

#include "base/err.h"
#include "service/mirror.h"

#include <stddef.h>
#include <stdint.h>

/* ---- unpacking ---- */

enum { TAR_SKIPPED_MAX = 100 };

struct tar_limits {
	size_t entries_max; /* of whatever kind */
	uint64_t
		bytes_max; /* of all files; and about that many are read at most, however small they were packed */
	uint64_t file_max; /* of one of them */
};

struct tar_skipped {
	char *path;
	const char *why;
};

struct tar_report {
	size_t files;
	size_t directories;
	uint64_t bytes;
	struct tar_skipped skipped[TAR_SKIPPED_MAX]; /* the first of them */
	size_t skipped_count;                        /* of all */
};

/* A tar, as it is or packed with gzip, zstd or xz. Regular files and directories go into the mirror; links, devices
 * and the like are skipped, and told. Anything absolute, or with '..', refuses all of it: ERR_INPUT; too many or too
 * large: ERR_LIMIT. What was unpacked by then stays in the mirror. */
int tar_unpack(int fd, const struct tar_limits *limits, struct mirror *to, struct tar_report *ret,
	struct err *e);
void tar_report_free(struct tar_report *report);

/* ---- packing ---- */

struct tar;

/* Writes to `fd`, which stays the caller's, up to about `bytes_max`: then ERR_LIMIT. */
struct tar *tar_new(int fd, uint64_t bytes_max);
int tar_add_dir(struct tar *t, const char *path, struct err *e);
/* The target stays what it is: nobody follows it here. One beneath a link or a file that was added before is left out:
 * no workspace has such a thing, and who unpacks it would make it where that link leads. */
int tar_add_link(struct tar *t, const char *path, const char *target, struct err *e);

struct tar_file {
	const char *path;
	bool is_executable;
	int fd; /* the bytes from its start */
	uint64_t size_bytes;
};
int tar_add_file(struct tar *t, const struct tar_file *file, struct err *e);
int tar_end(struct tar *t, struct err *e);
/* Accepts NULL. */
void tar_free(struct tar *t);

#endif
