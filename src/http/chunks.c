/* chunks: see chunks.h.
 *
 *	SIZE ──digits──▶ SIZE ──CR──▶ SIZE_LF ──▶ DATA ──▶ DATA_CR ──▶ DATA_LF ──▶ SIZE
 *	  └─;─▶ EXTENSION ─CR─▶┘          └─ 0 ─▶ LINE ──CR──▶ LAST_LF ──▶ COMPLETE
 *	                                           └──▶ TRAILER ──CR──▶ TRAILER_LF ──▶ LINE */
#include "http/chunks.h"

#include "base/hex.h"

enum {
	DIGITS_MAX = 15,      /* fits into 64 bits, with room for sums */
	EXTRA_MAX = 8 * 1024, /* of extensions and trailers together */
};

enum state {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	LINE,
	TRAILER,
	TRAILER_LF,
	LAST_LF,
	COMPLETE,
	MALFORMED,
};

static enum state after_size(struct chunks *c, char byte)
{
	int digit = hex_digit(byte);

	if (digit >= 0) {
		c->left = c->left * 16 + (uint64_t)digit;
		return ++c->digits > DIGITS_MAX ? MALFORMED : SIZE;
	}
	if (c->digits == 0)
		return MALFORMED;
	if (byte == ';')
		return EXTENSION;
	return byte == '\r' ? SIZE_LF : MALFORMED;
}

/* Of text that means nothing to us: its end, or on. */
static enum state after_text(struct chunks *c, char byte, enum state end)
{
	if (byte == '\r')
		return end;
	if ((byte != '\t' && (unsigned char)byte < 0x20) || byte == 0x7f)
		return MALFORMED;
	return ++c->extra > EXTRA_MAX ? MALFORMED : (enum state)c->state;
}

static enum state after(struct chunks *c, char byte)
{
	switch ((enum state)c->state) {
	case SIZE:
		return after_size(c, byte);
	case EXTENSION:
		return after_text(c, byte, SIZE_LF);
	case SIZE_LF:
		if (byte != '\n')
			return MALFORMED;
		return c->left ? DATA : LINE;
	case DATA_CR:
		return byte == '\r' ? DATA_LF : MALFORMED;
	case DATA_LF:
		c->digits = 0;
		return byte == '\n' ? SIZE : MALFORMED;
	case LINE:
		c->state = TRAILER;
		return after_text(c, byte, LAST_LF);
	case TRAILER:
		return after_text(c, byte, TRAILER_LF);
	case TRAILER_LF:
		return byte == '\n' ? LINE : MALFORMED;
	case LAST_LF:
		return byte == '\n' ? COMPLETE : MALFORMED;
	case DATA:
	case COMPLETE:
	case MALFORMED:
		break;
	}
	return MALFORMED;
}

size_t chunks_feed(
	struct chunks *c, const char *data, size_t len, const char **ret_data, size_t *ret_len)
{
	size_t at = 0;

	*ret_data = data;
	*ret_len = 0;
	while (at < len && c->state != DATA && c->state != COMPLETE && c->state != MALFORMED)
		c->state = (int)after(c, data[at++]);
	if (c->state != DATA || at == len)
		return at;
	*ret_data = data + at;
	*ret_len = len - at < c->left ? len - at : (size_t)c->left;
	c->left -= *ret_len;
	if (c->left == 0)
		c->state = DATA_CR;
	return at + *ret_len;
}

bool chunks_are_complete(const struct chunks *c)
{
	return c->state == COMPLETE;
}

bool chunks_are_malformed(const struct chunks *c)
{
	return c->state == MALFORMED;
}
