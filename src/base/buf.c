#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_memory(void)
{
	static const char text[] = "hotcell: out of memory\n";

	fwrite(text, 1, sizeof(text) - 1, stderr);
	abort();
}

void *xalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xgrow(void *old, size_t size)
{
	void *p = realloc(old, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

char *xstrdup(const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(xalloc(size), text, size);
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		out_of_memory();
	return text;
}

char *buf_reserve(struct buf *b, size_t len)
{
	if (b->len + len + 1 > b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 256;

		while (cap < b->len + len + 1)
			cap *= 2;
		b->data = xgrow(b->data, cap);
		b->cap = cap;
	}
	return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	char *end = buf_reserve(b, len);

	if (len)
		memcpy(end, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_addf(struct buf *b, const char *format, ...)
{
	size_t room = b->cap - b->len;
	va_list args;
	int len;

	/* Mostly there is room: it is written at once, and measured by the way. */
	va_start(args, format);
	len = vsnprintf(room ? b->data + b->len : NULL, room, format, args);
	va_end(args);
	if (len > 0 && (size_t)len >= room) {
		char *end = buf_reserve(b, (size_t)len);

		va_start(args, format);
		vsnprintf(end, (size_t)len + 1, format, args);
		va_end(args);
	}
	if (len > 0)
		b->len += (size_t)len;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

char *buf_take(struct buf *b)
{
	char *data;

	buf_add(b, "", 0);
	data = b->data;
	*b = (struct buf){ 0 };
	return data;
}
