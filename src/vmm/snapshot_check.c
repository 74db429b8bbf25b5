#include "vmm/recipe.h"
#include "vmm/snapshot_file.h"

#include <stddef.h>
#include <string.h>

/* What has not been looked at yet. */
struct rest {
	const uint8_t *at;
	const uint8_t *end;
};

/* The next `count` things of `size` bytes; NULL if there are not as many. */
static const uint8_t *take(struct rest *r, uint64_t count, size_t size)
{
	const uint8_t *at = r->at;

	if (count > (uint64_t)(r->end - r->at) / size)
		return NULL;
	r->at += count * size;
	return at;
}

static bool take_strings(struct rest *r, uint32_t count)
{
	for (; count; count--) {
		const uint8_t *nul = memchr(r->at, '\0', (size_t)(r->end - r->at));

		if (!nul)
			return false;
		r->at = nul + 1;
	}
	return true;
}

static bool is_descriptor(int fd)
{
	return fd >= RECIPES_FROM && fd < VMM_GUEST_FDS;
}

static bool take_descriptors(struct rest *r, const struct header *h)
{
	const uint8_t *recipes = take(r, h->recipes_count, sizeof(struct recipe));
	const uint8_t *watches = take(r, h->watches_count, sizeof(struct epoll_watch));
	struct recipe recipe;
	struct epoll_watch watch;

	if (!recipes || !watches)
		return false;
	for (uint32_t i = 0; i < h->recipes_count; i++) {
		memcpy(&recipe, recipes + i * sizeof(recipe), sizeof(recipe));
		if (!is_descriptor(recipe.fd) || recipe.kind > FD_DIRECTORY ||
			recipe.origin > ORIGIN_PIPE_IN || recipe.data_size > RECIPE_DATA_MAX)
			return false;
	}
	for (uint32_t i = 0; i < h->watches_count; i++) {
		memcpy(&watch, watches + i * sizeof(watch), sizeof(watch));
		/* One may watch its standard input, which comes with a request. */
		if (!is_descriptor(watch.epoll_fd) || watch.fd < 0 || watch.fd >= VMM_GUEST_FDS)
			return false;
	}
	return true;
}

static bool take_areas(struct rest *r, const struct header *h)
{
	const uint8_t *at = take(r, h->areas_count, sizeof(struct area));
	uint64_t before = LOW_END;

	for (uint32_t i = 0; at && i < h->areas_count; i++) {
		struct area a;

		memcpy(&a, at + i * sizeof(a), sizeof(a));
		if (a.start < before || a.start >= a.end || a.end > ADDRESS_END || a.start % PAGE ||
			a.end % PAGE || a.kind > AREA_STACK || a.name >= h->names_count)
			return false;
		before = a.end;
	}
	return at;
}

static bool take_blocks(struct rest *r, const struct header *h)
{
	const uint8_t *at = take(r, h->blocks_count, sizeof(struct block));
	uint64_t least = LOW_END / CHUNK;

	for (uint32_t i = 0; at && i < h->blocks_count; i++) {
		struct block b;

		memcpy(&b, at + i * sizeof(b), sizeof(b));
		if (b.number < least || b.number >= ADDRESS_END / CHUNK || b.chunk == 0 ||
			b.chunk >= h->next_chunk || b.table % PAGE ||
			b.table >= (uint64_t)h->next_chunk * CHUNK)
			return false;
		least = b.number + 1;
	}
	return at;
}

static bool take_chunks(struct rest *r, const struct header *h, uint32_t count)
{
	const uint8_t *at = take(r, count, sizeof(uint32_t));

	for (uint32_t i = 0; at && i < count; i++) {
		uint32_t chunk;

		memcpy(&chunk, at + i * sizeof(chunk), sizeof(chunk));
		if (chunk == 0 || chunk >= h->next_chunk)
			return false;
	}
	return at;
}

static bool take_threads(struct rest *r, const struct header *h)
{
	bool is_there[THREADS_MAX] = { false };

	for (uint32_t i = 0; i < h->threads_count; i++) {
		const uint8_t *at = take(r, 1, sizeof(struct saved_thread));
		int32_t index;
		uint32_t polls_count;

		if (!at)
			return false;
		memcpy(&index, at + offsetof(struct saved_thread, index), sizeof(index));
		memcpy(&polls_count, at + offsetof(struct saved_thread, thread.polls_count),
			sizeof(polls_count));
		if (index < 0 || index >= THREADS_MAX || is_there[index] ||
			!take(r, polls_count, sizeof(struct pollfd)))
			return false;
		is_there[index] = true;
	}
	return h->current >= 0 && h->current < THREADS_MAX && is_there[h->current];
}

static bool is_header(const struct header *h, uint64_t size)
{
	uint64_t end = (uint64_t)h->next_chunk * CHUNK;

	return h->magic == SNAPSHOT_MAGIC && h->version == SNAPSHOT_VERSION && h->is_pvm <= 1 &&
	       h->next_chunk && IMAGE + end == size && h->memory_size >= end &&
	       h->memory_size <= MEMORY_MAX && h->heap_start < ADDRESS_END &&
	       h->next_table <= h->tables_end && h->tables_end <= end &&
	       h->next_table % PAGE == 0 && h->extra_tables_count <= EXTRA_TABLES_MAX &&
	       h->names_count > 0 && h->ns_per_tsc_32 > 0 && h->words_count > 0 &&
	       memchr(h->exe, '\0', sizeof(h->exe)) && memchr(h->comm, '\0', sizeof(h->comm)) &&
	       memchr(h->features, '\0', sizeof(h->features));
}

static bool are_hot(const uint8_t *file, const struct header *h)
{
	const struct hot_range *at = (const struct hot_range *)(const void *)(file + HOT_AT);

	if (h->hot_count > HOT_RANGES_MAX)
		return false;
	for (uint32_t i = 0; i < h->hot_count; i++)
		if (at[i].start >= at[i].end ||
			at[i].end > (uint64_t)h->next_chunk * (CHUNK / PAGE))
			return false;
	return true;
}

bool snapshot_is_sound(const uint8_t *file, uint64_t size)
{
	const struct header *h = (const struct header *)(const void *)file;
	struct rest r = { file + sizeof(*h), file + HOT_AT };
	struct rest tables = { (const uint8_t *)h->extra_tables,
		(const uint8_t *)h->extra_tables + sizeof(h->extra_tables) };

	return is_header(h, size) && take_chunks(&tables, h, h->extra_tables_count) &&
	       take_descriptors(&r, h) && take_areas(&r, h) && take_blocks(&r, h) &&
	       take_chunks(&r, h, h->free_chunks_count) && take_threads(&r, h) &&
	       take_strings(&r, h->names_count - 1) && r.at == file + h->words_at &&
	       take_strings(&r, h->words_count) && are_hot(file, h);
}
