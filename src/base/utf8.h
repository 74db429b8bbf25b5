/* utf8: program output is not UTF-8. */
#ifndef HOTCELL_BASE_UTF8_H
#define HOTCELL_BASE_UTF8_H

#include "base/buf.h"

#include <stdbool.h>

bool utf8_valid(const char *data, size_t len);

/* Adds `data` to *ret with U+FFFD in place of each maximal invalid part (overlong forms, surrogates
 * and values over 10FFFF are invalid). */
void utf8_add_replaced(struct buf *ret, const char *data, size_t len);

/* Text that comes in pieces: the beginning of a letter whose end is still to come. */
struct utf8_tail {
	char bytes[3];
	size_t len;
};

/* Adds to *ret what was held back and `data`, but for an unfinished letter at its end. */
void utf8_join(struct utf8_tail *tail, const char *data, size_t len, struct buf *ret);

#endif
