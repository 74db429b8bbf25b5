#include "store/inner.h"

#include <search.h>
#include <string.h>

/* A sum for each, kept while it is not 0: adding up the rows of a million files would keep the loop
 * from its work, and does not know of those that are on their way. */
struct owner {
	uint64_t bytes;
	uint64_t files;
	char name[];
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct owner *)a)->name, ((const struct owner *)b)->name);
}

static struct owner *owner_new(const char *name)
{
	size_t size = strlen(name) + 1;
	struct owner *owner = xalloc(sizeof(*owner) + size);

	memcpy(owner->name, name, size);
	return owner;
}

static struct owner *find(const struct store *s, const char *name)
{
	auto_free struct owner *like = owner_new(name);
	struct owner **found = tfind(like, &s->owners, compare);

	return found ? *found : NULL;
}

void owners_add(struct store *s, const char *owner, uint64_t files, uint64_t bytes)
{
	struct owner *found = find(s, owner);

	if (!found) {
		found = owner_new(owner);
		if (!tsearch(found, &s->owners, compare))
			abort(); /* as all that lacks memory */
	}
	found->files += files;
	found->bytes += bytes;
}

void owners_take(struct store *s, const char *owner, uint64_t bytes)
{
	struct owner *found = find(s, owner);

	if (!found)
		return;
	found->bytes -= bytes < found->bytes ? bytes : found->bytes;
	if (--found->files)
		return;
	tdelete(found, &s->owners, compare);
	free(found);
}

uint64_t owners_bytes(const struct store *s, const char *owner)
{
	const struct owner *found = find(s, owner);

	return found ? found->bytes : 0;
}

void owners_free(struct store *s)
{
	tdestroy(s->owners, free);
	s->owners = NULL;
}
