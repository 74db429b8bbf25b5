/* plain: text from outside on its way to a terminal. Nothing in it may move the cursor, change colours or
 * answer for the person who reads it. */
#ifndef HOTCELL_CLI_PLAIN_H
#define HOTCELL_CLI_PLAIN_H

#include "base/buf.h"

#include <stddef.h>

/* Adds it with '?' in place of each control character (line ends and those that turn the direction of
 * writing included) and U+FFFD in place of what is not UTF-8. */
void plain_add(struct buf *ret, const char *text, size_t len);
/* The same as a string, to be freed. */
char *plain_text(const char *text);

/* How many columns it takes, if it is plain. */
unsigned plain_width(const char *text);
/* Adds plain text, cut or filled with spaces to `width` columns. */
void plain_add_padded(struct buf *ret, const char *text, unsigned width);

#endif
