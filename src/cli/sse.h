/* sse: server-sent events, from bytes as they come. */
#ifndef HOTCELL_CLI_SSE_H
#define HOTCELL_CLI_SSE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

enum { SSE_EVENT_MAX = 32 << 20, SSE_NAME_MAX = 31 };

struct sse {
	/* Returns 0, or -1 with *e: no more is read. `data` has a NUL behind it. */
	int (*on_event)(
		void *context, const char *name, const char *data, size_t len, struct err *e);
	void *context;
	struct buf line;
	struct buf data;
	char name[SSE_NAME_MAX + 1];
	bool has_data;
	bool after_return; /* the last byte was "\r": a "\n" behind it ends no line */
};

/* 0, or -1 with *e: an event of more than SSE_EVENT_MAX bytes, or what on_event said. */
int sse_feed(struct sse *s, const char *bytes, size_t len, struct err *e);
void sse_free(struct sse *s);

#endif
