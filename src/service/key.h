/* key: what a client shows to be let in. "hc_" and 43 letters of base64url, which are 32 random bytes; kept as its
 * SHA-256 only. */
#ifndef HOTCELL_SERVICE_KEY_H
#define HOTCELL_SERVICE_KEY_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { KEY_LEN = 46, KEY_HASH_SIZE = 32 };

int key_make(char ret[KEY_LEN + 1], struct err *e);

/* -1 if the text has not the form of a key: then there is nothing to look for. */
int key_hash(const char *text, size_t len, uint8_t ret[KEY_HASH_SIZE]);

#endif
