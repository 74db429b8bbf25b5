/* What a server sends to the command line: events, metrics, and text for a terminal. However the bytes are cut into
 * pieces, the same events come; and nothing that is plain has a control character. */
#include "fuzz.h"

#include "cli/metrics_text.h"
#include "cli/plain.h"
#include "cli/sse.h"

#include <stdbool.h>
#include <string.h>

static int on_event(void *context, const char *name, const char *data, size_t len, struct err *e)
{
	struct buf *seen = context;

	(void)e;
	CLAIM(strlen(name) <= SSE_NAME_MAX && data[len] == '\0');
	buf_addf(seen, "%s=", name);
	buf_add(seen, data, len);
	buf_add(seen, "|", 1);
	return 0;
}

static void read_events(const char *text, size_t size, size_t piece, struct buf *ret)
{
	struct sse s = { .on_event = on_event, .context = ret };
	struct err e;

	for (size_t at = 0; at < size; at += piece)
		CLAIM(sse_feed(&s, text + at, size - at < piece ? size - at : piece, &e) == 0);
	sse_free(&s);
}

static void try_events(const char *text, size_t size)
{
	struct buf whole = { 0 };
	struct buf pieces = { 0 };

	read_events(text, size, size + 1, &whole);
	read_events(text, size, 1, &pieces);
	CLAIM(whole.len == pieces.len);
	CLAIM(!whole.len || memcmp(whole.data, pieces.data, whole.len) == 0);
	buf_free(&whole);
	buf_free(&pieces);
}

static void try_plain(const char *text, size_t size)
{
	struct buf b = { 0 };
	struct buf cut = { 0 };

	plain_add(&b, text, size);
	for (size_t i = 0; i < b.len; i++)
		CLAIM((unsigned char)b.data[i] >= ' ' && b.data[i] != 0x7f);
	plain_add_padded(&cut, b.data, 20);
	CLAIM(plain_width(cut.data) == 20);
	buf_free(&b);
	buf_free(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct metric m;

	if (metrics_text_read(text, size, &m))
		CLAIM(*m.name && strlen(m.name) <= size && m.labels_count <= METRIC_LABELS_MAX);
	try_events(text, size);
	try_plain(text, size);
	return 0;
}
