/* large: files in memory (memfd) in large pages. Whoever maps such a file meets 2 MiB of it with one fault, and the
 * processor needs one entry for them. */
#ifndef HOTCELL_BASE_LARGE_H
#define HOTCELL_BASE_LARGE_H

#include <stdint.h>

#define LARGE_PAGE (2UL << 20)

/* The file's first `size` bytes, shared, at an address that is the boundary of a large page. NULL with errno. */
uint8_t *large_map(int fd, uint64_t size, int protection);
/* Makes large pages of [at, at + size) of the file, which is mapped at `map`; both begin at the boundary of one. But
 * for those that are mostly holes, which would cost memory. It takes up to a millisecond for each, and is no harm if
 * it cannot. */
void large_join(int fd, const uint8_t *map, uint64_t at, uint64_t size);
/* Likewise, of all of an empty file to which `model` will be copied: that is quicker than the other way round. */
void large_prepare(int fd, const uint8_t *map, int model, uint64_t size);
/* Likewise, of a file to be written in which there is nothing yet, and all of it. */
void large_make(uint8_t *map, uint64_t size);

#endif
