/* mirror: a session's files that are in no cell: a directory of the service's, with regular files and directories
 * in it and nothing else. Names come from outside: everything is opened beneath it, through no link. */
#ifndef HOTCELL_SERVICE_MIRROR_H
#define HOTCELL_SERVICE_MIRROR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mirror;

struct mirror_file {
	char *path;
	bool is_directory;
	bool generated; /* left by a run, not put there */
	uint64_t size_bytes;
};

/* A new one beneath `dir`, which is made if need be. */
int mirror_open(const char *dir, const char *name, uint64_t max_bytes, struct mirror **ret, struct err *e);
/* Removes it with all that is in it. Accepts NULL. */
void mirror_close(struct mirror *m);
/* Removes all that an earlier service has left in `dir`. */
void mirror_sweep(const char *dir);

/* A new file without a name, for mirror_put(). */
int mirror_open_blob(struct mirror *m, struct err *e);
/* The bytes of `fd` as `path`; what was there is replaced. ERR_LIMIT if there is no room. Closes fd. */
int mirror_put(struct mirror *m, const char *path, int fd, bool generated, struct err *e);
int mirror_put_data(struct mirror *m, const char *path, const void *data, size_t len, struct err *e);
/* For reading. */
int mirror_get(struct mirror *m, const char *path, uint64_t *ret_size, struct err *e);
/* A file, or a directory with all that is in it. */
int mirror_remove(struct mirror *m, const char *path, struct err *e);
/* Sorted by path. */
void mirror_list(struct mirror *m, struct mirror_file **ret, size_t *ret_count);
void mirror_files_free(struct mirror_file *files, size_t count);
/* Where it is on the host: for staging. */
const char *mirror_path(const struct mirror *m);

#endif
