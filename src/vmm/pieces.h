/* pieces: buffers of the program, as the host can use them. */
#ifndef HOTCELL_VMM_PIECES_H
#define HOTCELL_VMM_PIECES_H

#include "vmm/guest.h"

enum { PIECES_MAX = 1024 };
/* The most that Linux moves in one call. */
#define PIECES_BYTES_MAX 0x7ffff000UL

struct pieces {
	struct iovec *at; /* the first one that is not done yet */
	int count;
	uint64_t size;
	struct iovec room[PIECES_MAX];
};

/* One buffer, or all of an iovec array. `to_write`: we shall write there. They hold fewer bytes
 * than asked for if there are too many pieces, or if only the beginning is the program's. Return 0
 * or a negative errno. */
int pieces_one(struct guest *g, struct pieces *p, uint64_t address, uint64_t size, bool to_write);
int pieces_vector(struct guest *g, struct pieces *p, uint64_t array, uint64_t count, bool to_write);

/* Forgets the first `size` bytes. */
void pieces_skip(struct pieces *p, uint64_t size);

/* At most `size` bytes between them and a buffer of ours; returns how many. */
size_t pieces_copy_out(const struct pieces *p, const void *from, size_t size);
size_t pieces_copy_in(const struct pieces *p, void *to, size_t size);

#endif
