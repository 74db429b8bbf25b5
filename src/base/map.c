#include "base/map.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { SIZE_FIRST = 16 };

/* FNV with a secret beginning and a last stir. */
static size_t hash(const struct map *m, const char *name)
{
	uint64_t h = m->key ^ 0xcbf29ce484222325U;

	for (const unsigned char *at = (const unsigned char *)name; *at; at++)
		h = (h ^ *at) * 0x100000001b3U;
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15U | (m->key << 1);
	return (size_t)(h >> 20);
}

/* Where it is, or where it would go. */
static struct map_slot *find(const struct map *m, const char *name)
{
	size_t at = hash(m, name) & (m->size - 1);

	while (m->slots[at].name && strcmp(m->slots[at].name, name) != 0)
		at = (at + 1) & (m->size - 1);
	return &m->slots[at];
}

static void grow(struct map *m)
{
	struct map_slot *old = m->slots;
	size_t old_size = m->size;

	if (!m->key && getrandom(&m->key, sizeof(m->key), 0) != (ssize_t)sizeof(m->key))
		m->key = (uintptr_t)m;
	m->size = old_size ? old_size * 2 : SIZE_FIRST;
	m->slots = xalloc(m->size * sizeof(*m->slots));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].name)
			*find(m, old[i].name) = old[i];
	free(old);
}

void *map_get(const struct map *m, const char *name)
{
	return m->size ? find(m, name)->value : NULL;
}

void *map_put(struct map *m, const char *name, void *value)
{
	struct map_slot *slot;
	void *old;

	if ((m->count + 1) * 4 > m->size * 3)
		grow(m);
	slot = find(m, name);
	old = slot->value;
	if (!slot->name) {
		slot->name = xstrdup(name);
		m->count++;
	}
	slot->value = value;
	return old;
}

/* What comes behind it may have been pushed there by it. */
static void close_gap(struct map *m, size_t gap)
{
	size_t at = gap;

	for (;;) {
		size_t home;

		at = (at + 1) & (m->size - 1);
		if (!m->slots[at].name)
			break;
		home = hash(m, m->slots[at].name) & (m->size - 1);
		if (((at - home) & (m->size - 1)) < ((at - gap) & (m->size - 1)))
			continue;
		m->slots[gap] = m->slots[at];
		gap = at;
	}
	m->slots[gap] = (struct map_slot){ 0 };
}

void *map_remove(struct map *m, const char *name)
{
	struct map_slot *slot = m->size ? find(m, name) : NULL;
	void *old;

	if (!slot || !slot->name)
		return NULL;
	old = slot->value;
	free(slot->name);
	m->count--;
	close_gap(m, (size_t)(slot - m->slots));
	return old;
}

void *map_next(const struct map *m, size_t *at)
{
	while (*at < m->size) {
		const struct map_slot *slot = &m->slots[(*at)++];

		if (slot->name)
			return slot->value;
	}
	return NULL;
}

void map_free(struct map *m)
{
	for (size_t i = 0; i < m->size; i++)
		free(m->slots[i].name);
	free(m->slots);
	*m = (struct map){ 0 };
}
