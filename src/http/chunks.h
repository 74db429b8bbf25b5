/* chunks: a body in chunks (RFC 9112, 7.1), taken apart as it comes, in pieces of any size.
 *
 * Strictly: lines end in CRLF, sizes are hexadecimal digits and nothing else. Extensions and trailers mean nothing to us
 * and are passed over, but they too must be text, and short. */
#ifndef HOTCELL_HTTP_CHUNKS_H
#define HOTCELL_HTTP_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chunks {
	int state; /* see chunks.c; 0 at the beginning */
	unsigned digits;
	unsigned extra;
	uint64_t left; /* of the chunk at hand */
};

/* Takes up to `len` bytes and returns how many it took. What of them is data, if anything: *ret_data. To be called until
 * all are taken, or it has ended one way or the other. */
size_t chunks_feed(
	struct chunks *c, const char *data, size_t len, const char **ret_data, size_t *ret_len);
bool chunks_are_complete(const struct chunks *c);
bool chunks_are_malformed(const struct chunks *c);

#endif
