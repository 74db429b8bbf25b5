#include "vmm/put_back.h"

#include <string.h>
#include <sys/mman.h>

enum {
	PAGE_BYTES = 4096,
	GIVEN_BACK = 1 << 20, /* in one piece: few need as much again */
	FEW_BYTES = 1 << 20,  /* in all: copied in no time */
	LOOK_EVERY = 8,       /* resets */
};

struct whole {
	uint8_t *memory;
	const uint8_t *image;
	bool (*stays)(const void *context, uint64_t at);
	const void *context;
};

static void give_back(const struct whole *w, uint64_t start, uint64_t end)
{
	if (start < end)
		madvise(w->memory + start, end - start, MADV_DONTNEED);
}

static void copy(const struct whole *w, uint64_t start, uint64_t end)
{
	memcpy(w->memory + start, w->image + start, end - start);
}

static bool is_as_it_was(const struct whole *w, uint64_t at)
{
	return memcmp(w->memory + at, w->image + at, PAGE_BYTES) == 0;
}

static bool is_large(const struct dirty_range *range)
{
	return range->end - range->start >= GIVEN_BACK;
}

static uint64_t count_bytes(const struct dirty_range *ranges, int count)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += is_large(&ranges[i]) ? 0 : ranges[i].end - ranges[i].start;
	return sum;
}

static uint64_t count_unused(const struct whole *w, const struct dirty_range *ranges, int count)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		for (uint64_t at = ranges[i].start; !is_large(&ranges[i]) && at < ranges[i].end;
			at += PAGE_BYTES)
			sum += is_as_it_was(w, at) ? PAGE_BYTES : 0;
	return sum;
}

/* Pieces of it, as long as possible: each one costs a call. */
static void keep_what_was_used(const struct whole *w, const struct dirty_range *range)
{
	uint64_t unused = range->start; /* from here to `at` */

	for (uint64_t at = range->start; at < range->end; at += PAGE_BYTES) {
		if (is_as_it_was(w, at) && !w->stays(w->context, at))
			continue;
		give_back(w, unused, at);
		copy(w, at, at + PAGE_BYTES);
		unused = at + PAGE_BYTES;
	}
	give_back(w, unused, range->end);
}

void put_back(uint8_t *memory, const uint8_t *image, const struct dirty_range *ranges, int count,
	bool (*stays)(const void *context, uint64_t at), const void *context)
{
	static unsigned resets;
	const struct whole w = { memory, image, stays, context };
	uint64_t bytes = count_bytes(ranges, count);
	bool looks = bytes > FEW_BYTES && ++resets % LOOK_EVERY == 0 &&
		     count_unused(&w, ranges, count) > bytes / 2;

	for (int i = 0; i < count; i++) {
		if (is_large(&ranges[i]))
			give_back(&w, ranges[i].start, ranges[i].end);
		else if (looks)
			keep_what_was_used(&w, &ranges[i]);
		else
			copy(&w, ranges[i].start, ranges[i].end);
	}
}
