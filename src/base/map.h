/* map: from a name to a pointer. The map copies names and owns nothing else. Hashed with a key of its own that is
 * random, so that nobody outside can choose names that collide. */
#ifndef HOTCELL_BASE_MAP_H
#define HOTCELL_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_slot {
	char *name;
	void *value;
};

struct map {
	struct map_slot *slots; /* a power of two, at most three quarters full */
	size_t size;
	size_t count;
	uint64_t key;
};

void *map_get(const struct map *m, const char *name);
/* Returns what was there before, or NULL. `value` is not NULL. */
void *map_put(struct map *m, const char *name, void *value);
void *map_remove(struct map *m, const char *name);
/* Each entry once, in no order: `at` begins with 0. NULL at the end. Nothing may be put meanwhile; what was just
 * given may be removed only after the walk. */
void *map_next(const struct map *m, size_t *at);
void map_free(struct map *m);

#endif
