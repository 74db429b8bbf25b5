#include "base/utf8.h"

#include <string.h>

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

/* How many bytes at the end begin a letter and do not finish it. */
static size_t unfinished(const char *data, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = (unsigned char)data[len - back];
		size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) == 0x80)
			continue;
		return whole > back && c < 0xf8 ? back : 0;
	}
	return 0;
}

void utf8_join(struct utf8_tail *tail, const char *data, size_t len, struct buf *ret)
{
	size_t rest;

	buf_add(ret, tail->bytes, tail->len);
	buf_add(ret, data, len);
	rest = unfinished(ret->data, ret->len);
	ret->len -= rest;
	memcpy(tail->bytes, ret->data + ret->len, rest);
	tail->len = rest;
}
