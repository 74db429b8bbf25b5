/* exchange: a request's way through libmicrohttpd's callbacks.
 *
 *	exchange_on_target      the request line is there
 *	exchange_on_access      first with the headers, then with each piece of the body, then once more
 *	exchange_on_completed   however it ended
 *
 * An answer that is there when on_access returns is sent right away. Without one the connection is suspended:
 * libmicrohttpd neither reads from it nor counts its time until it is answered, and only watch.c sees a client go.
 *
 * libmicrohttpd takes an answer with the headers (and then closes the connection, since the body was not read) or when
 * the request is complete, but not in between. So one in the middle of a body is written by reply.c, past it. */
#include "http/inner.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void call_refused(struct http_exchange *x, unsigned status, const char *why)
{
	const struct http_handlers *handlers = &x->conn->http->options.handlers;

	x->is_told = true;
	if (handlers->on_refused)
		handlers->on_refused(handlers->context, x, status, why);
}

void exchange_refuse(struct http_exchange *x, unsigned status, const char *why)
{
	auto_buf struct buf text = { 0 };

	x->must_close = true;
	call_refused(x, status, why);
	if (http_is_answered(x))
		return;
	buf_addf(&text, "{\"detail\":\"%s\"}",
		why); /* our own words: nothing in them needs escapes */
	http_reply(x, status, "application/json", text.data, text.len);
}

void exchange_suspend(struct http_exchange *x)
{
	MHD_suspend_connection(x->mhd);
	x->is_suspended = true;
	watch_start(x->conn);
}

void exchange_resume(struct http_exchange *x)
{
	if (!x->is_suspended)
		return;
	x->is_suspended = false;
	MHD_resume_connection(x->mhd);
	x->conn->http->must_run = true;
}

void exchange_break(struct http_exchange *x)
{
	x->is_broken = true;
	if (x->is_suspended)
		exchange_resume(x);
	else
		shutdown(x->conn->fd, SHUT_RDWR); /* which libmicrohttpd sees */
}

/* libmicrohttpd 0.9.75 would now make a record for each field of the query, and when its pool is full it answers, forgets
 * that it did, and the connection hangs. It parses in place, so what it will not see it cannot take apart; we have a
 * copy. */
static void hide_query(const char *target)
{
#if MHD_VERSION < 0x01000000
	char *mark = target ? strchr(target, '?') : NULL;

	if (mark)
		mark[1] = '\0';
#else
	(void)target;
#endif
}

void *exchange_on_target(void *cls, const char *target, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_exchange *x = xalloc(sizeof(*x));
	struct http *h = cls;
	char *mark;

	x->conn = info->socket_context;
	x->conn->x = x;
	x->mhd = mhd;
	x->target = xstrdup(target ? target : "");
	mark = strchr(x->target, '?');
	if (mark) {
		*mark = '\0';
		x->query = mark + 1;
	}
	hide_query(target);
	x->body_fd = -1;
	x->body_max = h->options.body_max;
	h->exchange_count++;
	return x;
}

/* ---- the body ---- */

/* As its Content-Length tells before any of it has come; one in chunks shows while it comes. */
static bool is_too_large(struct http_exchange *x)
{
	const char *text = http_header(x, "Content-Length");
	unsigned long long length;

	if (!text)
		return false;
	errno = 0;
	length = strtoull(text, NULL, 10);
	return errno != 0 || length > x->body_max;
}

static void refuse_too_large(struct http_exchange *x)
{
	exchange_refuse(x, 413, "The request's body is too large.");
}

static void refuse_unwritable(struct http_exchange *x)
{
	if (x->write_errno == ENOSPC || x->write_errno == EDQUOT)
		exchange_refuse(x, 507, "The disk is full.");
	else
		exchange_refuse(x, 500, "The request's body could not be stored.");
}

static int write_part(void *context, const char *data, size_t len)
{
	struct http_exchange *x = context;

	x->part_size += len;
	if (x->part_size > x->part_max)
		return -1;
	if (fd_write_all(x->body_fd, data, len) < 0) {
		x->write_errno = errno;
		return -1;
	}
	return 0;
}

static void take_form(struct http_exchange *x, const char *data, size_t len)
{
	if (!x->form || form_feed(x->form, data, len, write_part, x) == 0)
		return;
	if (x->write_errno)
		refuse_unwritable(x);
	else if (x->part_size > x->part_max)
		refuse_too_large(x);
	else
		exchange_refuse(x, 400, "The form is malformed.");
}

static void take_into_memory(struct http_exchange *x, const char *data, size_t len)
{
	struct http *h = x->conn->http;

	if (h->body_bytes + len > h->options.bodies_max) {
		exchange_refuse(x, 503, "Too many large requests at once.");
		return;
	}
	h->body_bytes += len;
	buf_add(&x->body, data, len);
}

static void take_body(struct http_exchange *x, const char *data, size_t len)
{
	x->body_size += len;
	if (x->body_size > x->body_max) {
		refuse_too_large(x);
	} else if (x->wants_form) {
		take_form(x, data, len);
	} else if (x->body_fd < 0) {
		take_into_memory(x, data, len);
	} else if (fd_write_all(x->body_fd, data, len) < 0) {
		x->write_errno = errno;
		refuse_unwritable(x);
	}
}

void http_limit_body(struct http_exchange *x, size_t max)
{
	x->body_max = max;
}

void http_want_body_in(struct http_exchange *x, int fd, uint64_t max)
{
	x->body_fd = fd;
	x->body_max = max;
}

void http_want_part(struct http_exchange *x, const char *name, int fd, uint64_t max)
{
	form_free(x->form);
	x->form = form_new(http_header(x, "Content-Type"), name);
	x->wants_form = true;
	x->body_fd = fd;
	x->part_max = max;
	/* Without a form nothing of the body is of use; a little is read, for the connection to go on. */
	x->body_max = (x->form ? max : 0) + FORM_EXTRA_MAX;
}

const char *http_body(const struct http_exchange *x, size_t *ret_len)
{
	*ret_len = x->body.len;
	return x->body.data ? x->body.data : "";
}

uint64_t http_body_size(const struct http_exchange *x)
{
	return x->body_size;
}

bool http_part(const struct http_exchange *x, const char **ret_filename, uint64_t *ret_size)
{
	if (!x->form || !form_is_complete(x->form) || !form_has_part(x->form))
		return false;
	*ret_filename = form_filename(x->form);
	*ret_size = x->part_size;
	return true;
}

/* ---- libmicrohttpd's callbacks ---- */

static enum MHD_Result queue_answer(struct http_exchange *x)
{
	if (x->is_broken)
		return MHD_NO;
	return MHD_queue_response(x->mhd, x->status, x->response);
}

static void check_head(struct http_exchange *x, const char *method, const char *version)
{
	const struct http_handlers *handlers = &x->conn->http->options.handlers;
	const char *why = NULL;
	unsigned status;

	x->method = method;
	if (!head_leaves_room(x)) {
		x->phase = PHASE_BODY; /* to be answered past libmicrohttpd */
		exchange_refuse(x, 431, "The request's headers are too large.");
		return;
	}
	x->is_head = strcmp(method, "HEAD") == 0;
	status = head_check(x, method, version, &why);
	if (status) {
		exchange_refuse(x, status, why);
		return;
	}
	x->must_close = x->is_chunked;
	x->is_told = true;
	handlers->on_headers(handlers->context, x);
	if (!http_is_answered(x) && is_too_large(x))
		refuse_too_large(x);
}

static enum MHD_Result on_head(struct http_exchange *x, const char *method, const char *version)
{
	struct conn *conn = x->conn;

	clocked_remove(conn);
	x->phase = PHASE_HEADERS;
	x->in_handler = true;
	check_head(x, method, version);
	x->in_handler = false;
	if (x->is_broken) {
		conn->lingers = true;
		return MHD_NO;
	}
	if (http_is_answered(x)) {
		/* With no body to leave unread, libmicrohttpd gets it in the last call, and keeps
		 * the connection. */
		if (!x->has_body)
			return MHD_YES;
		conn->lingers = true;
		return queue_answer(x);
	}
	x->phase = PHASE_BODY;
	if (x->has_body) {
		conn->size_then = 0;
		clocked_add(&conn->http->bodies, conn);
	}
	return MHD_YES;
}

static enum MHD_Result on_body(struct http_exchange *x, const char *data, size_t *len)
{
	x->in_handler = true;
	take_body(x, data, *len);
	x->in_handler = false;
	*len = 0;
	if (!x->is_broken)
		return MHD_YES;
	x->conn->lingers = true;
	return MHD_NO;
}

static void call_request(struct http_exchange *x)
{
	const struct http_handlers *handlers = &x->conn->http->options.handlers;

	x->phase = PHASE_REQUEST;
	x->in_handler = true;
	if (x->form && !form_is_complete(x->form))
		exchange_refuse(x, 400, "The form ends early.");
	else
		handlers->on_request(handlers->context, x);
	x->in_handler = false;
}

static enum MHD_Result on_complete(struct http_exchange *x)
{
	if (x->phase == PHASE_BODY && !x->is_broken) {
		clocked_remove(x->conn);
		call_request(x);
	}
	if (x->is_broken)
		return MHD_NO;
	if (http_is_answered(x))
		return queue_answer(x);
	exchange_suspend(x);
	return MHD_YES;
}

enum MHD_Result exchange_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *data_len, void **context)
{
	struct http_exchange *x = *context;

	(void)cls, (void)mhd, (void)url;
	if (x->phase == PHASE_HEAD)
		return on_head(x, method, version);
	if (*data_len)
		return on_body(x, data, data_len);
	return on_complete(x);
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

static void free_exchange(struct http_exchange *x)
{
	if (x->response)
		MHD_destroy_response(x->response);
	for (size_t i = 0; i < x->decoded_count; i++)
		free(x->decoded[i]);
	free(x->decoded);
	form_free(x->form);
	buf_free(&x->body);
	buf_free(&x->headers);
	buf_free(&x->out);
	free(x->target);
	free(x);
}

void exchange_on_completed(
	void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
	struct http_exchange *x = *context;
	struct http *h = cls;
	struct conn *conn;
	bool complete;

	(void)mhd;
	if (!x)
		return;
	*context = NULL;
	conn = x->conn;
	complete = code == MHD_REQUEST_TERMINATED_COMPLETED_OK && x->phase == PHASE_ANSWERED &&
		   !x->is_broken;
	leave_rooms(x);
	if (x->is_told)
		h->options.handlers.on_end(h->options.handlers.context, x, complete);
	h->exchange_count--;
	h->body_bytes -= x->body.len;
	free_exchange(x);
	conn->x = NULL;
	clocked_remove(conn);
	clocked_add(&h->heads, conn);
}
