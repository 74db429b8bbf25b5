#include "vmm/spare.h"

#include "base/large.h"
#include "base/own.h"
#include "wire/vmm_start.h"

#include <emmintrin.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	/* So many pages that are written make a copy of the whole chunk worth it: where one entry of the guest's serves it,
	 * and where there is one for each page. */
	MANY = 45,
	MANY_BY_PAGES = 45,
	CHUNKS_MAX = VMM_SPARE_SIZE / CHUNK,
	PAGES = CHUNK / PAGE,
	AHEAD = 1024, /* bytes, asked for early: a fifth less time where they are in no cache */
};

static uint32_t chunks[CHUNKS_MAX];
static uint32_t chunks_count;

bool spare_has(uint64_t chunk)
{
	for (uint32_t i = 0; i < chunks_count; i++)
		if (chunks[i] == chunk)
			return true;
	return false;
}

/* ---- which ---- */

static const struct block *block_of(const struct mem *m, uint32_t chunk)
{
	for (uint32_t i = 0; i < m->blocks_count; i++)
		if (m->blocks[i].chunk == chunk)
			return &m->blocks[i];
	return NULL;
}

/* How many pages of the chunk will be written; `*at` is the first range that ends in it or behind it. */
static uint32_t count_pages(const struct spare_image *image, uint32_t chunk, uint32_t *at)
{
	uint32_t start = chunk * PAGES;
	uint32_t end = start + PAGES;
	uint32_t pages = 0;

	while (*at < image->hot_count && image->hot[*at].end <= start)
		++*at;
	for (uint32_t i = *at; i < image->hot_count && image->hot[i].start < end; i++) {
		uint32_t from = image->hot[i].start > start ? image->hot[i].start : start;

		pages += (image->hot[i].end < end ? image->hot[i].end : end) - from;
	}
	return pages;
}

/* Page tables have no block, and are put back in another way. */
static void choose(const struct mem *m, const struct spare_image *image, uint32_t most)
{
	uint32_t at = 0;

	most = most < CHUNKS_MAX ? most : CHUNKS_MAX;
	for (uint32_t chunk = 0; chunk < m->next_chunk && chunks_count < most; chunk++) {
		uint32_t pages = count_pages(image, chunk, &at);
		const struct block *b = pages >= MANY ? block_of(m, chunk) : NULL;

		if (b && (!b->table || pages >= MANY_BY_PAGES))
			chunks[chunks_count++] = chunk;
	}
}

/* ---- taking ---- */

/* Its first user makes large pages of it: there is nothing in it yet. */
static void make_large(uint64_t size)
{
	uint64_t last = size - PAGE;
	uint8_t *map;

	if (lseek(VMM_SPARE_FD, (off_t)last, SEEK_DATA) == (off_t)last)
		return;
	map = large_map(VMM_SPARE_FD, size, PROT_READ | PROT_WRITE);
	if (!map)
		return;
	large_make(map, size);
	munmap(map, size);
}

/* Past the caches, which takes half the time: of what is copied a run looks at little. Both are at the boundary of a
 * page. */
static void copy_past_caches(uint8_t *to, const uint8_t *from, size_t size)
{
	for (size_t i = 0; i < size; i += 64) {
		const __m128i *source = (const __m128i *)(const void *)(from + i);
		__m128i *target = (__m128i *)(void *)(to + i);
		__m128i a = _mm_load_si128(source);
		__m128i b = _mm_load_si128(source + 1);
		__m128i c = _mm_load_si128(source + 2);
		__m128i d = _mm_load_si128(source + 3);

		_mm_prefetch((const char *)(from + i + AHEAD), _MM_HINT_T0);
		_mm_stream_si128(target, a);
		_mm_stream_si128(target + 1, b);
		_mm_stream_si128(target + 2, c);
		_mm_stream_si128(target + 3, d);
	}
	_mm_sfence();
}

static void fill(const struct mem *m, const uint8_t *image, uint32_t chunk)
{
	uint64_t at = (uint64_t)chunk * CHUNK;

	copy_past_caches(m->host + at, image + at, CHUNK);
}

int spare_take(const struct mem *m, const struct spare_image *image, uint32_t most, struct err *e)
{
	chunks_count = 0;
	if (lseek(VMM_SPARE_FD, 0, SEEK_END) == (off_t)VMM_SPARE_SIZE)
		choose(m, image, most);
	if (chunks_count)
		make_large(chunks_count * CHUNK);
	for (uint32_t i = 0; i < chunks_count; i++)
		if (mmap(m->host + (uint64_t)chunks[i] * CHUNK, CHUNK, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_FIXED, VMM_SPARE_FD, (off_t)(i * CHUNK)) == MAP_FAILED)
			return err_sys(e, "map spare memory");
	close(VMM_SPARE_FD);
	spare_reset(m, image->bytes);
	return 0;
}

void spare_reset(const struct mem *m, const uint8_t *image)
{
	for (uint32_t i = 0; i < chunks_count; i++)
		fill(m, image, chunks[i]);
}

/* ---- leaving ---- */

/* Behind some pages something else has been mapped since. */
static void find_others(const struct mem *m, uint32_t chunk, bool *ret_is_other)
{
	uint64_t start = (uint64_t)chunk * CHUNK;

	memset(ret_is_other, 0, PAGES * sizeof(*ret_is_other));
	for (uint32_t i = 0; i < m->remaps_count; i++) {
		uint64_t from = m->remaps[i].start > start ? m->remaps[i].start : start;
		uint64_t to = m->remaps[i].end < start + CHUNK ? m->remaps[i].end : start + CHUNK;

		for (; from < to; from += PAGE)
			ret_is_other[from % CHUNK / PAGE] = true;
	}
}

static int copy_own(uint8_t *host, size_t size)
{
	uint8_t *own = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (own == MAP_FAILED)
		return -1;
	memcpy(own, host, size);
	if (mremap(own, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, host) != MAP_FAILED)
		return 0;
	munmap(own, size);
	return -1;
}

static int leave(const struct mem *m, uint32_t chunk)
{
	uint8_t *host = m->host + (uint64_t)chunk * CHUNK;
	bool is_other[PAGES];

	find_others(m, chunk, is_other);
	for (unsigned from = 0, to; from < PAGES; from = to + 1) {
		for (to = from; to < PAGES && !is_other[to]; to++)
			;
		if (to > from && copy_own(host + from * PAGE, (to - from) * PAGE))
			return -1;
	}
	return 0;
}

int spare_leave(const struct mem *m)
{
	for (; chunks_count; chunks_count--)
		if (leave(m, chunks[chunks_count - 1]))
			return -1;
	return 0;
}
