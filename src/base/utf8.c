#include "base/utf8.h"

#include <stdint.h>

/* How many bytes of `p` form one valid character; 0 if none, with *ret_bad set to the length of
 * the maximal invalid part, as Unicode recommends replacing it (chapter 3.9). */
static size_t character(const unsigned char *p, size_t len, size_t *ret_bad)
{
	unsigned char low = 0x80;
	unsigned char high = 0xbf;
	size_t want;

	*ret_bad = 1;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		want = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		want = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		want = 4;
	else
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	if (p[0] == 0xed)
		high = 0x9f;
	if (p[0] == 0xf0)
		low = 0x90;
	if (p[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < want; i++) {
		if (i >= len || p[i] < low || p[i] > high) {
			*ret_bad = i;
			return 0;
		}
		low = 0x80;
		high = 0xbf;
	}
	return want;
}

bool utf8_valid(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t bad;

	for (size_t at = 0; at < len;) {
		size_t n = character(p + at, len - at, &bad);

		if (n == 0)
			return false;
		at += n;
	}
	return true;
}

void utf8_add_replaced(struct buf *ret, const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t from = 0;
	size_t at = 0;

	while (at < len) {
		size_t bad;
		size_t n = character(p + at, len - at, &bad);

		if (n) {
			at += n;
			continue;
		}
		buf_add(ret, data + from, at - from);
		buf_add(ret, "\xef\xbf\xbd", 3);
		at += bad;
		from = at;
	}
	buf_add(ret, data + from, at - from);
}
