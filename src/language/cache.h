/* cache: what probing learned about programs, kept between runs of hotcell.
 *
 * One small text file in the cache directory. A row is believed only while the program that it
 * describes is the same file (path, device, inode, size, change time); the file only if it belongs
 * to us and nobody else may write it. Losing it costs time, nothing else. */
#ifndef HOTCELL_LANGUAGE_CACHE_H
#define HOTCELL_LANGUAGE_CACHE_H

#include <stdbool.h>

struct probe_cache;

/* `dir` may be NULL or not writable: then nothing is kept. Never fails. */
struct probe_cache *probe_cache_open(const char *dir);
/* Writes what changed (to a temporary name, then renamed) and frees. */
void probe_cache_close(struct probe_cache *c);

/* True if the cache knows about `program` (as it is on disk now) for this version command (its
 * words joined): *ret_works says whether it ran, *ret_version its version (valid until the next
 * set or close). */
bool probe_cache_get(struct probe_cache *c, const char *program, const char *command,
	bool *ret_works, const char **ret_version);
void probe_cache_set(struct probe_cache *c, const char *program, const char *command, bool works,
	const char *version);

#endif
