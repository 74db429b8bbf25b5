/* reply: answers, whole and in streams. */
#include "http/inner.h"

#include "base/own.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STREAM_BLOCK = 4096 }; /* for clients that know no chunks */

static bool is_text(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	}
	return true;
}

bool http_set_header(struct http_exchange *x, const char *name, const char *value)
{
	if (!*name || strpbrk(name, " :") || !is_text(name) || !is_text(value))
		return false;
	buf_add(&x->headers, name, strlen(name) + 1);
	buf_add(&x->headers, value, strlen(value) + 1);
	return true;
}

bool http_is_answered(const struct http_exchange *x)
{
	return x->phase == PHASE_ANSWERED;
}

/* For each header of the answer: `each(context, name, value)`. */
static void for_headers(const struct http_exchange *x,
	void (*each)(void *context, const char *name, const char *value), void *context)
{
	const char *at = x->headers.data;
	const char *end = at ? at + x->headers.len : NULL;

	while (at < end) {
		const char *value = at + strlen(at) + 1;

		each(context, at, value);
		at = value + strlen(value) + 1;
	}
}

/* ---- in the middle of a body ---- */

static void add_line(void *context, const char *name, const char *value)
{
	buf_addf(context, "%s: %s\r\n", name, value);
}

static const char *phrase_of(unsigned status)
{
	const char *phrase = MHD_get_reason_phrase_for(status);

	return phrase ? phrase : "Unknown";
}

/* Past libmicrohttpd, which would not take it now. Its own buffer is empty: it has sent all that came before. What does
 * not fit into the socket's is lost, and the connection closed behind it as it is anyway. */
static void write_past(struct http_exchange *x, const char *type, const void *data, size_t len)
{
	auto_buf struct buf text = { 0 };

	buf_addf(&text, "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Length: %zu\r\n", x->status,
		phrase_of(x->status), len);
	if (type)
		add_line(&text, "Content-Type", type);
	for_headers(x, add_line, &text);
	buf_add_str(&text, "\r\n");
	if (!x->is_head)
		buf_add(&text, data, len);
	send(x->conn->fd, text.data, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	x->is_broken = true;
	if (!x->in_handler)
		exchange_break(x);
}

/* ---- whole ---- */

static void add_header(void *context, const char *name, const char *value)
{
	MHD_add_response_header(context, name, value);
}

/* Gives it to libmicrohttpd; or leaves it for exchange.c, if that was called by it. */
static void answer(struct http_exchange *x, const char *type, struct MHD_Response *response)
{
	bool in_body = x->phase == PHASE_BODY;

	x->phase = PHASE_ANSWERED;
	x->response = response;
	if (!response || in_body) {
		exchange_break(x);
		return;
	}
	if (type)
		MHD_add_response_header(response, "Content-Type", type);
	for_headers(x, add_header, response);
	if (x->must_close || x->conn->http->is_stopping)
		MHD_add_response_header(response, "Connection", "close");
	if (x->in_handler)
		return;
	if (!x->is_broken && MHD_queue_response(x->mhd, x->status, response) != MHD_YES)
		x->is_broken = true;
	exchange_resume(x);
}

/* Whether it may be answered at all; remembers the status. */
static bool begin(struct http_exchange *x, unsigned status)
{
	if (http_is_answered(x))
		return false;
	x->status = status;
	return true;
}

void http_reply(
	struct http_exchange *x, unsigned status, const char *type, const void *data, size_t len)
{
	if (!begin(x, status))
		return;
	if (x->phase == PHASE_BODY) {
		x->phase = PHASE_ANSWERED;
		write_past(x, type, data, len);
		return;
	}
	answer(x, type,
		MHD_create_response_from_buffer(
			len, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY));
}

void http_reply_taken(
	struct http_exchange *x, unsigned status, const char *type, void *data, size_t len)
{
	auto_free char *owned = data;

	if (http_is_answered(x))
		return;
	if (x->phase == PHASE_BODY || len == 0) {
		http_reply(x, status, type, data, len);
		return;
	}
	x->status = status;
	answer(x, type, MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE));
	if (x->response)
		(void)take_ptr(&owned);
}

void http_reply_file(
	struct http_exchange *x, unsigned status, const char *type, int fd, uint64_t size)
{
	auto_close int owned = fd;

	if (!begin(x, status))
		return;
	if (size == 0) { /* libmicrohttpd knows no empty ones */
		http_reply(x, status, type, "", 0);
		return;
	}
	answer(x, type, MHD_create_response_from_fd64(size, fd));
	if (x->response)
		take_fd(&owned);
}

/* ---- in pieces ---- */

size_t http_queued(const struct http_exchange *x)
{
	return x->out.len - x->out_at;
}

static void want_room(struct http_exchange *x)
{
	struct http *h = x->conn->http;

	x->was_full = false;
	if (x->in_rooms || !h->options.handlers.on_room)
		return;
	x->in_rooms = true;
	x->next_room = h->rooms;
	h->rooms = x;
	h->must_run = true;
}

static void take_out(struct http_exchange *x, char *into, size_t len)
{
	memcpy(into, x->out.data + x->out_at, len);
	x->out_at += len;
	if (http_queued(x) == 0) {
		x->out_at = 0;
		if (x->out.cap > HTTP_QUEUE_MAX)
			buf_free(&x->out);
		else
			buf_clear(&x->out);
	} else if (x->out_at > x->out.len / 2) {
		x->out.len -= x->out_at;
		memmove(x->out.data, x->out.data + x->out_at, x->out.len);
		x->out_at = 0;
	}
	if (x->was_full && http_queued(x) < HTTP_QUEUE_MAX / 2)
		want_room(x);
}

/* libmicrohttpd asks for more, when the client has taken what there was. */
static ssize_t on_pull(void *cls, uint64_t at, char *into, size_t max)
{
	struct http_exchange *x = cls;
	size_t len = http_queued(x);

	(void)at;
	if (x->is_broken)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (len) {
		len = len < max ? len : max;
		take_out(x, into, len);
		return (ssize_t)len;
	}
	if (x->has_ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	exchange_suspend(x);
	return 0;
}

/* What a reader of that type passes over: to find out whether there is one. */
static const char *neutral_of(const char *type)
{
	static const struct {
		const char *type;
		const char *text;
	} known[] = {
		{ "text/event-stream", ":\n\n" },
		{ "application/x-ndjson", "\n" },
		{ "application/ndjson", "\n" },
		{ "application/jsonl", "\n" },
	};

	for (size_t i = 0; type && i < COUNT(known); i++) {
		if (strncasecmp(type, known[i].type, strlen(known[i].type)) == 0)
			return known[i].text;
	}
	return NULL;
}

void http_stream(struct http_exchange *x, unsigned status, const char *type)
{
	if (!begin(x, status))
		return;
	x->is_stream = true;
	x->neutral = neutral_of(type);
	answer(x, type,
		MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, STREAM_BLOCK, on_pull, x, NULL));
}

void http_send(struct http_exchange *x, const void *data, size_t len)
{
	if (!x->is_stream || x->has_ended || x->is_broken || x->is_head)
		return;
	if (http_queued(x) + len > HTTP_QUEUE_END) {
		exchange_break(x);
		return;
	}
	buf_add(&x->out, data, len);
	if (http_queued(x) > HTTP_QUEUE_MAX)
		x->was_full = true;
	exchange_resume(x);
}

void http_end(struct http_exchange *x)
{
	if (!x->is_stream)
		return;
	x->has_ended = true;
	exchange_resume(x);
}

void http_abort(struct http_exchange *x)
{
	if (!x->is_broken)
		exchange_break(x);
}
