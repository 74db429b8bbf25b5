#include "vmm/hot.h"

#include "base/buf.h"
#include "base/large.h"
#include "base/own.h"
#include "vmm/dirty.h"
#include "vmm/tables.h"

#include <sys/mman.h>

/* So little is between two ranges that one call for both is cheaper. */
enum { NEAR = 2 };

enum { NOT_USED, READ, WRITTEN };

void hot_watch(struct mem *m)
{
	tables_forget_use(m);
}

static void note_read(void *context, uint64_t physical)
{
	const struct buf *uses = context;

	if (physical / PAGE < uses->len && uses->data[physical / PAGE] == NOT_USED)
		uses->data[physical / PAGE] = READ;
}

static uint32_t add_ranges(
	const struct buf *uses, char wanted, struct hot_range *ranges, uint32_t count)
{
	uint32_t first = count;

	for (uint32_t page = 0; page < uses->len; page++) {
		if (uses->data[page] != wanted)
			continue;
		if (count > first && page - ranges[count - 1].end <= NEAR)
			ranges[count - 1].end = page + 1;
		else if (count < HOT_RANGES_MAX)
			ranges[count++] = (struct hot_range){ page, page + 1 };
	}
	return count;
}

int hot_learn(const struct mem *m, uint64_t image_size, struct hot_range *ret,
	uint32_t *ret_written, uint32_t *ret_count, struct err *e)
{
	auto_buf struct buf uses = { 0 };
	const struct dirty_range *dirty;
	int count = dirty_find(m->host, image_size, &dirty, e);

	if (count < 0)
		return -1;
	buf_reserve(&uses, image_size / PAGE);
	uses.len = image_size / PAGE;
	memset(uses.data, NOT_USED, uses.len);
	for (int i = 0; i < count; i++)
		memset(uses.data + dirty[i].start / PAGE, WRITTEN,
			(dirty[i].end - dirty[i].start) / PAGE);
	tables_each_used(m, note_read, &uses);
	*ret_written = add_ranges(&uses, WRITTEN, ret, 0);
	*ret_count = add_ranges(&uses, READ, ret, *ret_written);
	return 0;
}

void hot_join(const struct mem *m, int fd, uint64_t image_at, uint64_t image_size)
{
	large_join(fd, m->host, image_at, image_size);
}

void hot_fetch(const struct mem *m, const struct hot_range *ranges, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		madvise(m->host + (uint64_t)ranges[i].start * PAGE,
			(uint64_t)(ranges[i].end - ranges[i].start) * PAGE, MADV_POPULATE_WRITE);
}
