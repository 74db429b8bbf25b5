/* baseline: what was in a workspace before a run, so that what is new can be told from it.
 *
 * A file counts as unchanged if its content is what was staged, and it can be executed or not as before: touching it,
 * or writing the same bytes again, does not make it "generated". */
#ifndef HOTCELL_WORKSPACE_BASELINE_H
#define HOTCELL_WORKSPACE_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct baseline_entry {
	char *path;
	uint64_t hash; /* of the content, or of a symlink's target */
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns; /* unlike the other it cannot be set back */
	uint64_t inode;
	mode_t type;
	bool is_executable;
};

struct baseline {
	struct baseline_entry *entries;
	size_t count;
	size_t cap;
	/* Where each path stands in entries, plus 1; 0 = free. Twice as many slots as entries at
	 * least, so that looking one of many thousands up takes a step or two. */
	uint32_t *slots;
	size_t slots_count;
};

#define BASELINE_HASH_INIT 0xcbf29ce484222325ULL

/* Continues a hash over more bytes. */
uint64_t baseline_hash(uint64_t hash, const void *data, size_t len);

void baseline_add(
	struct baseline *b, const char *path, const struct stat *status, uint64_t content_hash);
const struct baseline_entry *baseline_find(const struct baseline *b, const char *path);

/* Whether `path` beneath `dir_fd`, now with `status`, is what the baseline knows. Reads the file
 * only if its times or inode differ while its size does not. */
bool baseline_unchanged(
	const struct baseline *b, int dir_fd, const char *path, const struct stat *status);
/* `path` and all beneath it were removed: what is there later is new. */
void baseline_forget(struct baseline *b, const char *path);
void baseline_clear(struct baseline *b);

#endif
