#include "vmm/snapshot.h"

#include "base/own.h"
#include "vmm/dirty.h"
#include "vmm/snapshot_inner.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int tell_page(uint64_t at, struct err *e)
{
	return err_set(e, ERR_SYSTEM,
		"after a reset the page at %#llx of guest memory is not as in the snapshot",
		(unsigned long long)at);
}

/* Where the file has data: whatever is mapped there must show them. */
static int verify_data(const struct guest *g, struct err *e)
{
	off_t from = (off_t)IMAGE;

	while ((from = lseek(snapshot_fd(), from, SEEK_DATA)) >= 0) {
		off_t to = lseek(snapshot_fd(), from, SEEK_HOLE);

		for (; from < to; from += PAGE) {
			uint64_t at = (uint64_t)from - IMAGE;

			if (memcmp(g->mem.host + at, snapshot_image() + at, PAGE) != 0)
				return tell_page(at, e);
		}
	}
	return errno == ENXIO ? 0 : err_sys(e, "read the snapshot");
}

/* What was written at any time, all over the guest's memory: nothing of it may be left. Holes of the
 * file are not touched, which would fill them. */
static int verify_written(const struct guest *g, struct err *e)
{
	static uint8_t page[PAGE];
	const struct dirty_range *written;
	int count = dirty_find(g->mem.host, g->mem.size, &written, e);

	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++)
		for (uint64_t at = written[i].start; at < written[i].end; at += PAGE) {
			bool is_in_image = at < snapshot_image_size();

			if (is_in_image &&
				pread(snapshot_fd(), page, PAGE, (off_t)(IMAGE + at)) != PAGE)
				return err_sys(e, "read the snapshot");
			if (is_in_image ? memcmp(g->mem.host + at, page, PAGE) != 0 :
					  !mem_is_zero(g->mem.host + at))
				return tell_page(at, e);
		}
	return 0;
}

/* Written again, they must be what they were read from. */
static int verify_books(struct guest *g, struct err *e)
{
	auto_buf struct buf books = { 0 };
	struct recipes r = snapshot_recipes();
	/* New ones were made by these. */
	const struct snapshot_taken taken = {
		.recipes = { .data = (char *)(uintptr_t)r.at, .len = r.count * sizeof(*r.at) },
		.recipes_count = r.count,
		.watches = { .data = (char *)(uintptr_t)r.watches,
			.len = r.watches_count * sizeof(*r.watches) },
		.watches_count = r.watches_count,
	};
	const uint8_t *file = (const uint8_t *)snapshot_header();
	struct header *h;

	snapshot_add_books(g, snapshot_header()->names_count, &taken, true, &books);
	h = (struct header *)(void *)books.data;
	h->memory_size = snapshot_header()->memory_size; /* a larger limit makes more room */
	h->hot_count = snapshot_header()->hot_count;
	for (size_t at = 0; at < books.len; at++)
		if ((uint8_t)books.data[at] != file[at])
			return err_set(e, ERR_SYSTEM,
				"after a reset the VMM's books are not as in the snapshot, from byte "
				"%zu of %zu on",
				at, books.len);
	return 0;
}

int snapshot_verify(struct guest *g, struct err *e)
{
	return verify_books(g, e) || verify_data(g, e) || verify_written(g, e) ? -1 : 0;
}
