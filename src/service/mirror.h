/* mirror: a session's files that are in no cell: a directory of the service's, with regular files and directories
 * in it and nothing else. Names come from outside: everything is opened beneath it, through no link. Symlinks are only
 * remembered: outside of a cell they lead nowhere.
 *
 * What is in it is known by heart, so that listing asks no disk. A file is never changed, only replaced: whoever
 * has it open reads on, and its bytes may be somebody else's too (a second name for the same file). */
#ifndef HOTCELL_SERVICE_MIRROR_H
#define HOTCELL_SERVICE_MIRROR_H

#include "base/err.h"
#include "workspace/staging.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mirror;
struct uv_loop_s;

/* Files and directories together: as many as a cell can be given at once and has room for, but for some that a run
 * brings: its code is one, and without room for it nothing could be run any more. */
enum { MIRROR_ENTRIES_SPARE = 100, MIRROR_ENTRIES_MAX = STAGING_ITEMS_MAX - MIRROR_ENTRIES_SPARE };

struct mirror_file {
	char *path;
	bool is_directory;
	bool generated; /* left by a run, not put there */
	bool is_executable;
	uint64_t size_bytes;
	char *target; /* of a symlink, or NULL */
};

/* How many it takes, if its bytes are limited to so many. */
size_t mirror_entries_max(uint64_t max_bytes);
/* A new one beneath `dir`, which is made if need be. `name` is ours. */
int mirror_open(
	const char *dir, const char *name, uint64_t max_bytes, struct mirror **ret, struct err *e);
/* Removes it with all that is in it. Accepts NULL. */
void mirror_close(struct mirror *m);
/* The same, by a thread of the loop's if it takes long: then it goes on when this returns. */
void mirror_drop(struct mirror *m, struct uv_loop_s *loop);
/* Removes all that an earlier service has left in `dir`. */
void mirror_sweep(const char *dir);

/* A new file without a name, for mirror_put(). -1 with *e. */
int mirror_open_blob(struct mirror *m, struct err *e);
/* The bytes of `fd` as `path`, and the directories above it; a file that was there is replaced. ERR_LIMIT if there is
 * no room, ERR_INPUT if the path is bad or a directory is in the way. Closes fd. */
int mirror_put(struct mirror *m, const char *path, int fd, bool generated, struct err *e);
int mirror_put_data(
	struct mirror *m, const char *path, const void *data, size_t len, struct err *e);
/* A symlink; what was there is replaced, but for a directory. */
int mirror_put_link(
	struct mirror *m, const char *path, const char *target, bool generated, struct err *e);
/* Removes what is in the way of a directory, or of anything else: a run has put another kind of thing there. */
void mirror_make_way(struct mirror *m, const char *path, bool for_directory);
/* A directory, if it is not there. */
int mirror_make_dir(struct mirror *m, const char *path, bool generated, struct err *e);
/* Whether nothing is in this directory. */
bool mirror_is_empty(const struct mirror *m, const char *path);
/* For reading. -1 with *e: ERR_NOT_FOUND, or ERR_INPUT if it is a directory or a symlink. */
int mirror_get(struct mirror *m, const char *path, uint64_t *ret_size, struct err *e);
/* A file, or a directory with all that is in it. */
int mirror_remove(struct mirror *m, const char *path, struct err *e);
/* Sorted by path. */
void mirror_list(const struct mirror *m, struct mirror_file **ret, size_t *ret_count);
void mirror_files_free(struct mirror_file *files, size_t count);
/* Where it is on the host: for staging. */
const char *mirror_path(const struct mirror *m);

#endif
