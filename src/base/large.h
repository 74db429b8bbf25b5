/* large: files in memory (memfd) in large pages. Whoever maps such a file meets 2 MiB of it with one fault, and the
 * processor needs one entry for them. */
#ifndef HOTCELL_BASE_LARGE_H
#define HOTCELL_BASE_LARGE_H

#include <stdint.h>

#define LARGE_PAGE (2UL << 20)

/* Makes large pages of a file from its beginning, or from the boundary of one: of `size` bytes that are mapped at `map`.
 * But for those that are mostly holes in `fd` from `at` on, which would cost memory: that is the file itself, or
 * what will be copied to it, which is quicker. It takes up to a millisecond for each, and is no harm if it cannot. */
void large_join(int fd, const uint8_t *map, uint64_t at, uint64_t size);

#endif
