#include "base/json_text.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

const char *json_text_escape(char c, char ret[8])
{
	if (c == '"' || c == '\\')
		snprintf(ret, 8, "\\%c", c);
	else if ((unsigned char)c < ' ' || c == 0x7f)
		snprintf(ret, 8, "\\u%04x", (unsigned char)c);
	else
		return NULL;
	return ret;
}

static void add_escaped(struct buf *b, const char *text)
{
	const char *from = text;
	char unit[8];

	for (; *text; text++) {
		const char *escaped = json_text_escape(*text, unit);

		if (!escaped)
			continue;
		buf_add(b, from, (size_t)(text - from));
		buf_add_str(b, escaped);
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
