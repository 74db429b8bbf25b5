/* hot: the pages of a snapshot that nearly every run writes.
 *
 * A new machine meets each page with a fault, which on some hosts takes 7 µs, and more if it must be copied then;
 * several hundred make most of what a machine costs that is used once. So those that will be written are learnt from a
 * rehearsal when the snapshot is made, and a machine that starts from it has its own copies of them before it begins: KVM
 * then finds up to eight with one fault. Copies of those that are only read would cost more than they save. */
#ifndef HOTCELL_VMM_HOT_H
#define HOTCELL_VMM_HOT_H

#include "vmm/mem.h"

#include <stddef.h>

/* Pages, by their number in the image. */
struct hot_range {
	uint32_t start;
	uint32_t end;
};

enum { HOT_RANGES_MAX = 7680, HOT_SIZE = HOT_RANGES_MAX * sizeof(struct hot_range) };

/* What was written since the image was mapped. Returns 0 or -1. */
int hot_learn(const struct mem *m, uint64_t image_size, struct hot_range *ret, uint32_t *ret_count,
	struct err *e);

/* Large pages (base/large.h) where the image's pages are memory and nothing else. */
void hot_join(const struct mem *m, int fd, uint64_t image_at, uint64_t image_size);

/* Makes own copies. It is no harm if it cannot. */
void hot_fetch(const struct mem *m, const struct hot_range *ranges, uint32_t count);

#endif
