/* query: what comes behind a target's question mark, and escapes. */
#include "http/inner.h"

#include "base/hex.h"
#include "base/own.h"

#include <string.h>

bool http_decode(const char *text, size_t len, struct buf *ret)
{
	size_t start = ret->len;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '%') {
			int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
			int low = high < 0 ? -1 : hex_digit(text[i + 2]);

			c = low < 0 ? '\0' : (char)(high * 16 + low);
			i += 2;
		}
		if (c == '\0') {
			ret->len = start;
			return false;
		}
		buf_add(ret, &c, 1);
	}
	buf_add(ret, "", 0);
	return true;
}

/* One of `name=value&…`, with + for spaces, which are made such before escapes give other ones. */
static char *decode_field(const char *text, size_t len)
{
	auto_buf struct buf plain = { 0 };
	struct buf decoded = { 0 };

	buf_add(&plain, text, len);
	for (size_t i = 0; i < len; i++) {
		if (plain.data[i] == '+')
			plain.data[i] = ' ';
	}
	http_decode(plain.data, len, &decoded); /* cannot fail: head_parse() has tried */
	return buf_take(&decoded);
}

static const char *keep_decoded(struct http_exchange *x, char *value)
{
	x->decoded = xgrow(x->decoded, (x->decoded_count + 1) * sizeof(*x->decoded));
	x->decoded[x->decoded_count++] = value;
	return value;
}

const char *http_query(struct http_exchange *x, const char *name)
{
	const char *at = x->query;

	while (at && *at) {
		size_t len = strcspn(at, "&");
		size_t name_len = strcspn(at, "=&");
		auto_free char *field = decode_field(at, name_len);
		size_t value_at = name_len < len ? name_len + 1 : len;

		if (strcmp(field, name) == 0)
			return keep_decoded(x, decode_field(at + value_at, len - value_at));
		at += len + (at[len] == '&');
	}
	return NULL;
}
