/* reply: answers, whole and in streams. They are made here, and sent in the connection's next turn. */
#include "http/inner.h"

#include "base/own.h"

#include <string.h>
#include <strings.h>
#include <time.h>

static const int64_t LENGTH_UNKNOWN = -1;

/* ---- the head ---- */

static void add_line(struct buf *b, const char *name, const char *value)
{
	buf_add_str(b, name);
	buf_add(b, ": ", 2);
	buf_add_str(b, value);
	buf_add(b, "\r\n", 2);
}

bool http_set_header(struct http_exchange *x, const char *name, const char *value)
{
	if (!head_is_token(name) || !head_is_value(value))
		return false;
	add_line(&x->set_headers, name, value);
	return true;
}

bool http_is_answered(const struct http_exchange *x)
{
	return x->phase == PHASE_ANSWERED;
}

static const char *phrase_of(unsigned status)
{
	static const struct {
		unsigned status;
		const char *phrase;
	} known[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 411, "Length Required" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 423, "Locked" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < COUNT(known); i++) {
		if (known[i].status == status)
			return known[i].phrase;
	}
	return "Unknown";
}

static const char *date_now(struct http *h)
{
	time_t now = time(NULL);
	struct tm parts;

	if (now != h->date_of) {
		gmtime_r(&now, &parts);
		strftime(h->date, sizeof(h->date), "%a, %d %b %Y %H:%M:%S GMT", &parts);
		h->date_of = now;
	}
	return h->date;
}

static bool is_without_body(unsigned status)
{
	return status == 204 || status == 304;
}

/* How the client learns where the body ends. */
static void add_framing(struct http_exchange *x, unsigned status, int64_t length)
{
	struct buf *b = &x->answer_head;

	if (x->must_close || x->conn->http->is_stopping)
		add_line(b, "Connection", "close");
	else if (x->is_1_0)
		add_line(b, "Connection", "keep-alive");
	if (is_without_body(status))
		return;
	if (length != LENGTH_UNKNOWN)
		buf_addf(b, "Content-Length: %lld\r\n", (long long)length);
	else if (!x->is_1_0)
		add_line(b, "Transfer-Encoding", "chunked");
}

/* False if it cannot be answered any more. */
static bool begin(struct http_exchange *x, unsigned status, const char *type, int64_t length)
{
	struct buf *b = &x->answer_head;

	if (http_is_answered(x))
		return false;
	if (x->has_body && !body_is_complete(x)) {
		x->must_close = true;
		x->conn->lingers = true;
	}
	if (length == LENGTH_UNKNOWN && x->is_1_0)
		x->must_close = true;
	x->phase = PHASE_ANSWERED;
	x->has_no_body = x->is_head || is_without_body(status);
	buf_addf(b, "HTTP/1.1 %u %s\r\nDate: %s\r\n", status, phrase_of(status),
		date_now(x->conn->http));
	if (type)
		add_line(b, "Content-Type", type);
	if (x->set_headers.len)
		buf_add(b, x->set_headers.data, x->set_headers.len);
	add_framing(x, status, length);
	buf_add(b, "\r\n", 2);
	conn_due(x->conn);
	return true;
}

/* ---- whole ---- */

void http_reply(
	struct http_exchange *x, unsigned status, const char *type, const void *data, size_t len)
{
	if (begin(x, status, type, (int64_t)len) && !x->has_no_body)
		buf_add(&x->answer_head, data, len);
}

void http_reply_taken(
	struct http_exchange *x, unsigned status, const char *type, void *data, size_t len)
{
	struct buf owned = { .data = data, .len = len, .cap = len };

	if (begin(x, status, type, (int64_t)len))
		x->sending = owned;
	else
		buf_free(&owned);
}

void http_reply_file(
	struct http_exchange *x, unsigned status, const char *type, int fd, uint64_t size)
{
	auto_close int owned = fd;

	if (!begin(x, status, type, (int64_t)size))
		return;
	x->file_fd = take_fd(&owned);
	x->file_left = size;
}

/* ---- in pieces ---- */

size_t http_queued(const struct http_exchange *x)
{
	return x->queue.len + x->pieces_bytes;
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
	if (!begin(x, status, type, LENGTH_UNKNOWN))
		return;
	x->is_stream = true;
	x->neutral = neutral_of(type);
}

void http_send(struct http_exchange *x, const void *data, size_t len)
{
	if (!x->is_stream || x->has_ended || x->is_broken || x->has_no_body)
		return;
	if (http_queued(x) + len > HTTP_QUEUE_END) {
		exchange_break(x);
		return;
	}
	buf_add(&x->queue, data, len);
	if (http_queued(x) > HTTP_QUEUE_MAX)
		x->was_full = true;
	conn_due(x->conn);
}

void http_end(struct http_exchange *x)
{
	if (!x->is_stream)
		return;
	x->has_ended = true;
	conn_due(x->conn);
}

void http_abort(struct http_exchange *x)
{
	exchange_break(x);
}
