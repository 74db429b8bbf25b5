/* frame: how bytes go between engine, warden and cells.
 *
 * All sockets are SOCK_SEQPACKET: a frame is one packet, so there is no half frame and nothing to
 * resynchronise. A frame is a type byte and fields. Integers are little-endian; a string is its
 * length, its bytes and a NUL that the length counts, so that a decoder can point into the frame.
 *
 * Whoever decodes treats the bytes as hostile: every getter checks bounds and sets `bad` instead
 * of reading further, and frame_in_done() demands that nothing is left over. */
#ifndef HOTCELL_WIRE_FRAME_H
#define HOTCELL_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_MAX = 64 * 1024,
	FRAME_DATA_MAX = FRAME_MAX - 8192, /* payload beside a path and a few numbers */
};

struct frame_out {
	size_t len;
	bool overflow; /* something did not fit: the frame must not be sent */
	uint8_t bytes[FRAME_MAX];
};

struct frame_in {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

void frame_begin(struct frame_out *f, uint8_t type);
void frame_put_u8(struct frame_out *f, uint8_t value);
void frame_put_u32(struct frame_out *f, uint32_t value);
void frame_put_u64(struct frame_out *f, uint64_t value);
void frame_put_string(struct frame_out *f, const char *text);
void frame_put_bytes(struct frame_out *f, const void *data, size_t len);

uint8_t frame_get_u8(struct frame_in *f);
uint32_t frame_get_u32(struct frame_in *f);
uint64_t frame_get_u64(struct frame_in *f);
/* Points into the frame; "" when bad, so that callers need not check each one. */
const char *frame_get_string(struct frame_in *f);
const uint8_t *frame_get_bytes(struct frame_in *f, size_t *ret_len);
/* True if every field was there and nothing is left. */
bool frame_in_done(const struct frame_in *f);

/* Sends the frame, with `fd` if it is not -1. 0, or -1 with errno (EAGAIN on a full non-blocking
 * socket, EMSGSIZE on overflow). Never raises SIGPIPE. */
int frame_send(int sock, const struct frame_out *f, int fd);

/* Receives one frame into `buffer` (FRAME_MAX bytes). Returns 1 with *ret_type and *ret_in set; 0
 * at the end of the connection; -1 with errno (EBADMSG for a packet that is too large, empty or
 * carries an fd that was not asked for). With ret_fd an fd may come along; it is -1 if none did. */
int frame_recv(int sock, uint8_t *buffer, int flags, uint8_t *ret_type, struct frame_in *ret_in,
	int *ret_fd);

#endif
