/* base64: bytes as letters. */
#ifndef HOTCELL_BASE_BASE64_H
#define HOTCELL_BASE_BASE64_H

#include "base/buf.h"

#include <stdbool.h>

/* Adds the bytes to *ret. Line ends and spaces are passed over, as are missing '='; both alphabets will do. False if it is
 * anything else. */
bool base64_decode(const char *text, size_t len, struct buf *ret);
void base64_encode(const void *data, size_t len, struct buf *ret);

#endif
