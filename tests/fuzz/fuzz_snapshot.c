/* The books of a snapshot: all of the file before the image of memory. They are sealed, but a damaged
 * one, or one that somebody else made, must be refused and must never lead out of our own memory. */
#include "fuzz.h"

#include "vmm/guest.h"
#include "vmm/snapshot.h"
#include "vmm/snapshot_inner.h"

#include <string.h>

#define MEMORY (64UL << 20)

/* So much of an input's end stands where the hot pages are told, too. */
enum { HOT_BYTES = 64 };

/* As far as the file's own words about it are believed. */
static uint64_t claimed_size(const uint8_t *file)
{
	uint32_t next_chunk;

	memcpy(&next_chunk, file + 32, sizeof(next_chunk));
	return IMAGE + next_chunk * CHUNK;
}

static void check_books(const struct guest *g)
{
	const struct mem *m = &g->mem;

	for (uint32_t i = 0; i < m->areas_count; i++) {
		const struct area *area = &m->areas[i];

		CLAIM(area->start < area->end && area->start >= LOW_END &&
			area->end <= ADDRESS_END);
		CLAIM(i == 0 || m->areas[i - 1].end <= area->start);
		CLAIM(area->name < m->names_count);
		CLAIM(area->name == 0 || strlen(m->names[area->name]) < IMAGE);
	}
	for (uint32_t i = 0; i < m->blocks_count; i++) {
		CLAIM(i == 0 || m->blocks[i - 1].number < m->blocks[i].number);
		CLAIM(m->blocks[i].chunk > 0 && m->blocks[i].chunk < m->next_chunk);
		CLAIM(m->blocks[i].table < (uint64_t)m->next_chunk * CHUNK);
	}
	for (uint32_t i = 0; i < m->extra_tables_count; i++)
		CLAIM(m->extra_tables[i] < m->next_chunk);
	CLAIM(m->next_table <= (uint64_t)m->next_chunk * CHUNK);
	CLAIM(g->current >= 0 && g->current < THREADS_MAX && g->threads[g->current].used);
	for (uint32_t i = 0; i < snapshot_header()->hot_count; i++) {
		const struct hot_range *hot =
			(const struct hot_range *)(const void *)((const uint8_t *)
									 snapshot_header() +
								 HOT_AT) +
			i;

		CLAIM(hot->start < hot->end && hot->end <= m->next_chunk * (CHUNK / PAGE));
	}
	CLAIM(strlen(g->exe) < sizeof(g->exe) && strlen(g->comm) < sizeof(g->comm));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[IMAGE] __attribute__((aligned(4096)));
	static size_t used;
	static struct guest g;
	struct err e = { 0 };

	if (size < HOT_BYTES || size > HOT_AT)
		return 0;
	memset(file, 0, used);
	memcpy(file, data, size);
	memcpy(file + HOT_AT, data + size - HOT_BYTES, HOT_BYTES);
	used = size;
	if (snapshot_use(file, claimed_size(file), &e)) {
		CLAIM(e.kind != ERR_NONE);
		return 0;
	}
	if (!g.threads)
		g.threads = calloc(THREADS_MAX, sizeof(*g.threads));
	CLAIM(g.threads && mem_open(&g.mem, MEMORY, &e) == 0);
	if (snapshot_read_books(&g, &e) == 0)
		check_books(&g);
	mem_close(&g.mem);
	return 0;
}
