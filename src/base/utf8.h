/* utf8: program output is not UTF-8. */
#ifndef HOTCELL_BASE_UTF8_H
#define HOTCELL_BASE_UTF8_H

#include "base/buf.h"

#include <stdbool.h>

bool utf8_valid(const char *data, size_t len);

/* Adds `data` to *ret with U+FFFD in place of each maximal invalid part (overlong forms, surrogates
 * and values over 10FFFF are invalid). */
void utf8_add_replaced(struct buf *ret, const char *data, size_t len);

#endif
