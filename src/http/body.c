/* body: where the body ends and where it goes. */
#include "http/inner.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>

void body_refuse_too_large(struct http_exchange *x)
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
		body_refuse_too_large(x);
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
		body_refuse_too_large(x);
	} else if (x->wants_form) {
		take_form(x, data, len);
	} else if (x->body_fd < 0) {
		take_into_memory(x, data, len);
	} else if (fd_write_all(x->body_fd, data, len) < 0) {
		x->write_errno = errno;
		refuse_unwritable(x);
	}
}

/* A chunk is refused when it tells its size, before any of it has come. */
static size_t feed_chunks(struct http_exchange *x, const char *data, size_t len)
{
	size_t taken = 0;

	while (taken < len && !chunks_are_complete(&x->chunks) && !http_is_answered(x)) {
		const char *part;
		size_t part_len;

		taken += chunks_feed(&x->chunks, data + taken, len - taken, &part, &part_len);
		if (chunks_are_malformed(&x->chunks))
			exchange_refuse(x, 400, "The request's chunks are malformed.");
		else if (x->chunks.left + part_len > x->body_max - x->body_size)
			body_refuse_too_large(x);
		else if (part_len)
			take_body(x, part, part_len);
	}
	return taken;
}

size_t body_feed(struct http_exchange *x, const char *data, size_t len)
{
	if (x->is_chunked)
		return feed_chunks(x, data, len);
	if (len > x->body_left)
		len = (size_t)x->body_left;
	x->body_left -= len;
	take_body(x, data, len);
	return len;
}

bool body_is_complete(const struct http_exchange *x)
{
	return x->is_chunked ? chunks_are_complete(&x->chunks) : x->body_left == 0;
}

/* ---- what handlers say and ask ---- */

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
