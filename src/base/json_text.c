#include "base/json_text.h"

#include "base/utf8.h"

#include <string.h>

static bool must_be_escaped(char c)
{
	return (unsigned char)c < ' ' || c == '"' || c == '\\' || c == 0x7f;
}

static void add_escaped(struct buf *b, const char *text)
{
	const char *from = text;

	for (; *text; text++) {
		if (!must_be_escaped(*text))
			continue;
		buf_add(b, from, (size_t)(text - from));
		if (*text == '"' || *text == '\\')
			buf_addf(b, "\\%c", *text);
		else
			buf_addf(b, "\\u%04x", (unsigned char)*text);
		from = text + 1;
	}
	buf_add(b, from, (size_t)(text - from));
}

void json_text_add(struct buf *b, const char *text)
{
	auto_buf struct buf valid = { 0 };

	if (!text) {
		buf_add_str(b, "null");
		return;
	}
	if (!utf8_valid(text, strlen(text))) {
		utf8_add_replaced(&valid, text, strlen(text));
		text = valid.data;
	}
	buf_add(b, "\"", 1);
	add_escaped(b, text);
	buf_add(b, "\"", 1);
}
