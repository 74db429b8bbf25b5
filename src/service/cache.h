/* cache: results of runs whose caller said that the same request has the same result. One owner never gets
 * another's: the key holds the owner. Only what ended with 0. */
#ifndef HOTCELL_SERVICE_CACHE_H
#define HOTCELL_SERVICE_CACHE_H

#include "base/list.h"
#include "base/map.h"

#include <stddef.h>

struct job;

struct cache {
	struct map by_key;
	struct list entries; /* the oldest first */
	size_t count;
	size_t bytes;
};

void cache_open(struct cache *c);
void cache_close(struct cache *c);
/* The job that has it, with all files that it has left, or NULL. It stays the cache's. */
struct job *cache_find(struct cache *c, const char *key);
void cache_add(struct cache *c, struct job *job);

#endif
