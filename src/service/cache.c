#include "service/cache.h"

#include "base/buf.h"
#include "service/job.h"

#include <stdlib.h>

enum { COUNT_MAX = 10000, BYTES_MAX = 64 << 20 };

struct entry {
	struct list link;
	struct job *job;
	size_t bytes;
};

void cache_open(struct cache *c)
{
	list_init(&c->entries);
}

static void drop(struct cache *c, struct entry *entry)
{
	list_remove(&entry->link);
	map_remove(&c->by_key, entry->job->spec.cache_key);
	c->count--;
	c->bytes -= entry->bytes;
	job_release(entry->job);
	free(entry);
}

void cache_close(struct cache *c)
{
	while (!list_is_empty(&c->entries))
		drop(c, container_of(c->entries.next, struct entry, link));
	map_free(&c->by_key);
}

struct job *cache_find(struct cache *c, const char *key)
{
	struct entry *entry = map_get(&c->by_key, key);

	return entry ? entry->job : NULL;
}

void cache_add(struct cache *c, struct job *job)
{
	struct entry *old = map_get(&c->by_key, job->spec.cache_key);
	struct entry *entry;

	if (old)
		drop(c, old);
	entry = xalloc(sizeof(*entry));
	entry->job = job;
	entry->bytes = sizeof(*job) + job->spec.code_len + job->result->out.len + job->result->err.len;
	job->references++;
	map_put(&c->by_key, job->spec.cache_key, entry);
	list_add_last(&c->entries, &entry->link);
	c->count++;
	c->bytes += entry->bytes;
	while (c->count > COUNT_MAX || (c->bytes > BYTES_MAX && c->count > 1))
		drop(c, container_of(c->entries.next, struct entry, link));
}
