#include "vmm/hot.h"

#include "base/large.h"
#include "vmm/dirty.h"
#include "vmm/spare.h"

#include <sys/mman.h>

/* So little is between two ranges that one call for both is cheaper. */
enum { NEAR = 2 };

int hot_learn(const struct mem *m, uint64_t image_size, struct hot_range *ret, uint32_t *ret_count,
	struct err *e)
{
	const struct dirty_range *dirty;
	int dirty_count = dirty_find(m->host, image_size, &dirty, e);
	uint32_t count = 0;

	if (dirty_count < 0)
		return -1;
	for (int i = 0; i < dirty_count; i++) {
		uint32_t start = (uint32_t)(dirty[i].start / PAGE);
		uint32_t end = (uint32_t)(dirty[i].end / PAGE);

		if (count && start - ret[count - 1].end <= NEAR)
			ret[count - 1].end = end;
		else if (count < HOT_RANGES_MAX)
			ret[count++] = (struct hot_range){ start, end };
	}
	*ret_count = count;
	return 0;
}

void hot_join(const struct mem *m, int fd, uint64_t image_at, uint64_t image_size)
{
	large_join(fd, m->host, image_at, image_size);
}

void hot_fetch(const struct mem *m, const struct hot_range *ranges, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!spare_has(ranges[i].start * PAGE / CHUNK) ||
			!spare_has((ranges[i].end - 1) * PAGE / CHUNK))
			madvise(m->host + (uint64_t)ranges[i].start * PAGE,
				(uint64_t)(ranges[i].end - ranges[i].start) * PAGE,
				MADV_POPULATE_WRITE);
}
