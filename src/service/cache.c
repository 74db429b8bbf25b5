#include "service/cache.h"

#include "base/buf.h"
#include "service/job.h"
#include "service/service.h"

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

static bool is_stored(const struct job *job, const char *id)
{
	struct store_file file = { 0 };
	struct err ignored;
	bool found =
		store_find_file(job->service->store, id, job->caller.owner, &file, &ignored) == 0;

	store_file_free(&file);
	return found;
}

/* Its files may have been removed, or have had their time. */
static bool is_whole(const struct job *job)
{
	for (size_t i = 0; i < job->files_count; i++)
		if (*job->files[i].id && !is_stored(job, job->files[i].id))
			return false;
	return !*job->full_id || is_stored(job, job->full_id);
}

struct job *cache_find(struct cache *c, const char *key)
{
	struct entry *entry = map_get(&c->by_key, key);

	if (!entry)
		return NULL;
	if (is_whole(entry->job))
		return entry->job;
	drop(c, entry);
	return NULL;
}

void cache_add(struct cache *c, struct job *job)
{
	struct entry *old = map_get(&c->by_key, job->spec.cache_key);
	struct entry *entry;

	if (old)
		drop(c, old);
	entry = xalloc(sizeof(*entry));
	entry->job = job;
	entry->bytes =
		sizeof(*job) + job->spec.code_len + job->result->out.len + job->result->err.len;
	job->references++;
	map_put(&c->by_key, job->spec.cache_key, entry);
	list_add_last(&c->entries, &entry->link);
	c->count++;
	c->bytes += entry->bytes;
	while (c->count > COUNT_MAX || (c->bytes > BYTES_MAX && c->count > 1))
		drop(c, container_of(c->entries.next, struct entry, link));
}
