#include "base/large.h"

#include <sys/mman.h>
#include <unistd.h>

/* Debian's headers do not have it (Linux 6.1). */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

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

void large_join(int fd, const uint8_t *map, uint64_t at, uint64_t size)
{
	for (uint64_t done = 0; done + LARGE_PAGE <= size; done += LARGE_PAGE)
		if (count_bytes(fd, at + done, at + done + LARGE_PAGE) >= LARGE_PAGE / 2)
			madvise((void *)(uintptr_t)(map + done), LARGE_PAGE, MADV_COLLAPSE);
}
