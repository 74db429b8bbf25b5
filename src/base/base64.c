#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(const char *text, size_t len, struct buf *ret)
{
	char *out = buf_reserve(ret, len / 4 * 3 + 4);
	uint32_t bits = 0;
	unsigned letters = 0;
	size_t at = 0;
	size_t i = 0;

	for (; i < len && text[i] != '='; i++) {
		int value = value_of(text[i]);

		if (text[i] && strchr(" \t\r\n", text[i]))
			continue;
		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		if (++letters % 4 == 0) {
			out[at++] = (char)(bits >> 16);
			out[at++] = (char)(bits >> 8);
			out[at++] = (char)bits;
		}
	}
	for (; i < len; i++)
		if (!text[i] || !strchr("= \t\r\n", text[i]))
			return false;
	if (letters % 4 == 1)
		return false;
	if (letters % 4 == 2)
		out[at++] = (char)(bits >> 4);
	if (letters % 4 == 3) {
		out[at++] = (char)(bits >> 10);
		out[at++] = (char)(bits >> 2);
	}
	ret->len += at;
	return true;
}

void base64_encode(const void *data, size_t len, struct buf *ret)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *in = data;
	char *out = buf_reserve(ret, len / 3 * 4 + 5);
	size_t at = 0;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = (uint32_t)in[i] << 16;

		bits |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
		bits |= i + 2 < len ? in[i + 2] : 0;
		out[at++] = letters[bits >> 18];
		out[at++] = letters[bits >> 12 & 63];
		out[at++] = i + 1 < len ? letters[bits >> 6 & 63] : '=';
		out[at++] = i + 2 < len ? letters[bits & 63] : '=';
	}
	out[at] = '\0';
	ret->len += at;
}
