/* exchange: a request and its answer, from the end of its head to its on_end. */
#include "http/inner.h"

#include "base/own.h"

#include <stdlib.h>

struct http_exchange *exchange_new(struct conn *conn)
{
	struct http_exchange *x = xalloc(sizeof(*x));
	struct http *h = conn->http;

	x->conn = conn;
	x->phase = PHASE_HEADERS;
	x->method = "";
	x->target = "";
	x->body_fd = -1;
	x->file_fd = -1;
	x->body_max = h->options.body_max;
	conn->x = x;
	h->exchange_count++;
	return x;
}

static void leave_rooms(struct http_exchange *x)
{
	struct http_exchange **at = &x->conn->http->rooms;

	if (!x->in_rooms)
		return;
	while (*at != x)
		at = &(*at)->next_room;
	*at = x->next_room;
}

void exchange_end(struct conn *conn, bool complete)
{
	struct http_exchange *x = take_ptr(&conn->x);
	struct http *h = conn->http;

	leave_rooms(x);
	if (x->is_told)
		h->options.handlers.on_end(h->options.handlers.context, x, complete);
	exchange_set_waiting(x, 0);
	h->exchange_count--;
	h->body_bytes -= x->body.len;
	own_close(&x->file_fd);
	for (size_t i = 0; i < x->decoded_count; i++)
		free(x->decoded[i]);
	free(x->decoded);
	form_free(x->form);
	buf_free(&x->body);
	buf_free(&x->set_headers);
	buf_free(&x->answer_head);
	buf_free(&x->sending);
	buf_free(&x->queue);
	free(x->headers);
	free(x->head);
	free(x);
}

void exchange_refuse(struct http_exchange *x, unsigned status, const char *why)
{
	const struct http_handlers *handlers = &x->conn->http->options.handlers;
	auto_buf struct buf text = { 0 };

	x->must_close = true;
	x->is_told = true;
	x->conn->lingers = true;
	if (handlers->on_refused)
		handlers->on_refused(handlers->context, x, status, why);
	if (http_is_answered(x))
		return;
	buf_addf(&text, "{\"detail\":\"%s\"}",
		why); /* our own words: nothing in them needs escapes */
	http_reply(x, status, "application/json", text.data, text.len);
}

void exchange_set_waiting(struct http_exchange *x, size_t bytes)
{
	x->conn->http->answer_bytes += bytes - x->waiting_bytes;
	x->waiting_bytes = bytes;
}

void exchange_break(struct http_exchange *x)
{
	x->is_broken = true;
	conn_due(x->conn);
}
