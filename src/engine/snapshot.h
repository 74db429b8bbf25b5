/* snapshot: the states from which warm machines start, made once for each language and profile.
 *
 * They are kept on disk too, so that a program that lives for one run starts from them at once. The
 * name of a file holds a hash of all that it depends on; a file is believed only if it is ours alone
 * and its seal is right. */
#ifndef HOTCELL_ENGINE_SNAPSHOT_H
#define HOTCELL_ENGINE_SNAPSHOT_H

#include "engine/engine.h"

/* Which profile suits a program: by name if one is given (NULL = by the program's words). NULL with
 * *e if there is no such profile. */
const struct profile *snapshot_profile(const struct language *language, const char *name,
	const char *code, size_t code_len, struct err *e);

/* The command of the driver that one is made of; empty if there is none. */
const struct strings *snapshot_command(const struct tool *tool);
/* Whether runs of this language can start from a snapshot at all. */
bool snapshot_is_possible(const struct hotcell *h, const struct tool *tool);
/* Whether a program with these settings besides the usual ones (NULL = none) can do with one: some are
 * heeded only by what starts with them. */
bool snapshot_suits_env(const char *const *env);

/* The snapshot, made now if it is not there, unless the engine never waits. The descriptor stays the
 * engine's. -1 on failure. */
int snapshot_get(
	struct hotcell *h, const struct tool *tool, const struct profile *profile, struct err *e);

/* The parts of that, for who makes one (prepare.c). What it depends on, as a number: */
uint64_t snapshot_key(
	const struct hotcell *h, const struct tool *tool, const struct profile *profile);
/* One that this engine has; one from disk, which it has then. -1 if there is none. */
int snapshot_find(const struct hotcell *h, const struct tool *tool, const struct profile *profile);
int snapshot_load(
	struct hotcell *h, const struct tool *tool, const struct profile *profile, uint64_t key);
/* An empty file for a driver's state; and the same when it is filled, to be kept. Takes *fd unless it
 * fails. */
int snapshot_new(struct err *e);
int snapshot_add(struct hotcell *h, const struct tool *tool, const struct profile *profile,
	uint64_t key, int *fd, struct err *e);

/* More than one machine will start from the one with this descriptor, and in their own time: from here on it is in
 * memory, in large pages, unless the engine never waits: it takes some milliseconds, up to a hundred for large ones. It is
 * no harm if it cannot. */
void snapshot_serve_many(struct hotcell *h, int fd);
/* Its parts: a sealed copy that is so, or -1 if that cannot be, or need not; and all of a file but its holes. */
int snapshot_bring_in(int fd);
int snapshot_copy(int from, int to, uint64_t size);

void snapshot_close_all(struct hotcell *h);

/* Reads all of every file in the cache, compares it with its seal, and removes what is not right. Tells
 * of each one: `problem` is NULL if it is fine, and valid during the call only. Returns how many were
 * not; 0 if there is no cache; -1 with *e if the cache is not ours, and nothing was touched. */
int snapshot_verify_all(const char *cache_dir,
	void (*on_one)(void *context, const char *name, const char *problem), void *context,
	struct err *e);

#endif
