#include "base/large.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* Debian's headers do not have it (Linux 6.1). */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { PAGE = 4096 };

uint8_t *large_map(int fd, uint64_t size, int protection)
{
	uint64_t pages = (size + PAGE - 1) / PAGE * PAGE;
	uint8_t *room = mmap(NULL, pages + LARGE_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;
	uint8_t *map;

	if (room == MAP_FAILED)
		return NULL;
	before = (LARGE_PAGE - (uintptr_t)room % LARGE_PAGE) % LARGE_PAGE;
	map = mmap(room + before, size, protection, MAP_SHARED | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED) {
		munmap(room, pages + LARGE_PAGE);
		return NULL;
	}
	if (before)
		munmap(room, before);
	munmap(map + pages, LARGE_PAGE - before);
	return map;
}

/* How much there is in [from, to): the rest are holes. */
static uint64_t count_bytes(int fd, uint64_t from, uint64_t to)
{
	uint64_t count = 0;

	while (from < to) {
		off_t start = lseek(fd, (off_t)from, SEEK_DATA);
		off_t end = start < 0 ? -1 : lseek(fd, start, SEEK_HOLE);

		if (end < 0 || (uint64_t)start >= to)
			break;
		from = (uint64_t)end < to ? (uint64_t)end : to;
		count += from - (uint64_t)start;
	}
	return count;
}

static bool is_mostly_data(int fd, uint64_t at)
{
	return count_bytes(fd, at, at + LARGE_PAGE) >= LARGE_PAGE / 2;
}

/* Those that follow each other in one call: it waits for all processors to empty their queues, which takes
 * longer than all the rest. */
static void collapse(const uint8_t *map, uint64_t from, uint64_t to)
{
	if (from < to)
		madvise((void *)(uintptr_t)(map + from), to - from, MADV_COLLAPSE);
}

static void join(int fd, int model, const uint8_t *map, uint64_t at, uint64_t size)
{
	uint64_t from = 0;

	for (uint64_t done = 0; done + LARGE_PAGE <= size; done += LARGE_PAGE) {
		/* The kernel takes those with nothing in them for gone. */
		if (is_mostly_data(model, at + done) &&
			(model == fd || pwrite(fd, "", 1, (off_t)(at + done)) == 1))
			continue;
		collapse(map, from, done);
		from = done + LARGE_PAGE;
	}
	collapse(map, from, size / LARGE_PAGE * LARGE_PAGE);
}

void large_join(int fd, const uint8_t *map, uint64_t at, uint64_t size)
{
	join(fd, fd, map, at, size);
}

void large_prepare(int fd, const uint8_t *map, int model, uint64_t size)
{
	join(fd, model, map, 0, size);
}

void large_make(uint8_t *map, uint64_t size)
{
	for (uint64_t at = 0; at < size; at += LARGE_PAGE)
		map[at] = 0;
	collapse(map, 0, size);
}
