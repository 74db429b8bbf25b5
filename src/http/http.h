/* http: HTTP/1.1 for the loop, as a server.
 *
 *	request line and headers   ──▶  on_headers: may refuse, or say how large a body may be and where it goes
 *	body                       ──▶  on_request, when all of it is there
 *	http_reply…                ◀──  at once or later, from the loop; exactly once
 *	or http_stream, http_send…, http_end
 *	                           ──▶  on_end, always, exactly once: after it the exchange is no more
 *
 * Nothing here blocks but on the disk, and nothing grows without bound: a body has its limit before it is read, all
 * bodies together have one, all answers that wait to be read have one, and whoever streams asks http_queued() before it
 * makes more.
 *
 * A client that goes away while it is waited for (no answer yet, or a stream with nothing to send) is noticed at once:
 * on_end, not complete. One that only says that it will send no more (a half-closed socket) still gets its answer,
 * which is 400 if its request was not complete.
 * On a unix socket the kernel tells the two apart. With TCP both look alike until something is sent to it: so it is
 * sent a line that changes nothing, "100 Continue" before an answer, an empty comment in an event stream, an empty
 * line in NDJSON, and whoever is gone refuses it. With HTTP/1.0, or in a stream of another type, only the next
 * http_send() tells.
 *
 * What is malformed or could be read in two ways is refused here, with 400 or what is right, and the connection is
 * closed: two Content-Length, Host, Authorization, X-API-Key, Origin or Content-Type, Content-Length beside
 * Transfer-Encoding, another encoding than chunked, lines that end in LF alone, folded headers, control characters,
 * bytes in a target that belong escaped. Every refusal is one answer like any other. After a body in chunks a connection is always closed: no byte behind it can become another
 * request. */
#ifndef HOTCELL_HTTP_HTTP_H
#define HOTCELL_HTTP_HTTP_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http;          /* a server: one listening socket */
struct http_exchange; /* a request and its answer */

enum {
	/* So much may wait in a stream before its producer should pause; on_room tells when to go on. */
	HTTP_QUEUE_MAX = 256 * 1024,
	/* And with so much the stream is broken off: one that does not pause must not fill the memory. */
	HTTP_QUEUE_END = 32 * 1024 * 1024,
};

struct http_handlers {
	/* The headers are there, the body is not. An answer now refuses the body unread. */
	void (*on_headers)(void *context, struct http_exchange *x);
	/* All of it is there, unless on_headers has answered. */
	void (*on_request)(void *context, struct http_exchange *x);
	/* The request cannot be served, whatever it asks for: malformed, too large, too slow. To be answered at once
	 * with http_reply() and that status, in the words of the API; or left (NULL), then it is
	 * {"detail":"WHY"}. May come before on_headers, or after it in place of on_request. */
	void (*on_refused)(
		void *context, struct http_exchange *x, unsigned status, const char *why);
	/* For each exchange that one of the three above has seen: all of the answer has been handed to the kernel,
	 * or not (`complete` says which). */
	void (*on_end)(void *context, struct http_exchange *x, bool complete);
	/* There is room in a stream again: it was over HTTP_QUEUE_MAX and is below half of it. May be NULL. */
	void (*on_room)(void *context, struct http_exchange *x);
	void *context;
};

struct http_options {
	int listen_fd;            /* listening; taken, but by a failing http_open(). -1: none */
	bool is_local;            /* a unix socket: http_peer_uid() tells who it is */
	unsigned connections_max; /* further ones get 503. 0: 1,000 */
	/* Without a request, or with an answer of which less than 1 KiB is taken each second, before a connection is
	 * closed. 0: 60 */
	unsigned idle_s;
	/* For the headers, and for a body unless 4 KiB come each second; over it 408. 0: 30. */
	unsigned request_s;
	size_t body_max;   /* in memory, unless on_headers says otherwise. 0: 1 MiB */
	size_t bodies_max; /* of all exchanges together; over it 503. 0: 256 MiB */
	/* Of all answers that wait for their readers. Over it the slowest reader is closed, but never the last one: who
	 * reads at a good pace is not made to wait for those who do not, whoever they are. 0: 256 MiB */
	size_t answers_max;
	struct http_handlers handlers;
};

int http_open(const struct http_options *options, struct http **ret, struct err *e);
/* No new connections; what has begun goes on, and each connection is closed after its answer. */
void http_stop_listening(struct http *h);
/* Ends everything; on_end is called for all that goes on. Not from within a handler. Accepts NULL. */
void http_close(struct http *h);

/* For the loop: http_run() when the descriptor is readable, or so many milliseconds have passed (-1: never). To be
 * asked each time before the loop waits: 0 says that there are replies to be sent, which http_flush() does, or that a
 * time is up. */
int http_fd(const struct http *h);
int http_timeout_ms(const struct http *h);
void http_run(struct http *h);
void http_flush(struct http *h);
unsigned http_connections(const struct http *h);
/* How many requests are being read, served or answered. */
unsigned http_exchanges(const struct http *h);

/* ---- the request ---- */

/* "GET" for HEAD too: its answer is sent without a body. */
const char *http_method(const struct http_exchange *x);
bool http_is_head(const struct http_exchange *x);
const char *http_path(const struct http_exchange
		*x); /* as it was sent, without the query; begins with / or is * */
/* Strictly: false for a bad escape, or one that gives a NUL. Adds to *ret. */
bool http_decode(const char *text, size_t len, struct buf *ret);
/* The first of that name, decoded (+ is a space); NULL if there is none. Good as long as the exchange. */
const char *http_query(struct http_exchange *x, const char *name);
/* The first of that name, in whatever case; NULL if there is none. */
const char *http_header(const struct http_exchange *x, const char *name);
/* How often a header was sent. */
unsigned http_header_count(const struct http_exchange *x, const char *name);
bool http_is_local(const struct http_exchange *x);
uid_t http_peer_uid(const struct http_exchange *x); /* (uid_t)-1 unless it is local */
/* Whatever the handlers want to remember with it. */
void http_set_data(struct http_exchange *x, void *data);
void *http_data(const struct http_exchange *x);

/* Where the body goes, in on_headers only. With nothing said: into memory, up to body_max. What is larger gets 413
 * and is not read any further; a disk that is full 507. */
void http_limit_body(struct http_exchange *x, size_t max);
/* Into a file, which stays the caller's and must live as long as the exchange. */
void http_want_body_in(struct http_exchange *x, int fd, uint64_t max);
/* A form (multipart/form-data): its first part of that name goes into a file. What else is in it is passed over, up
 * to 64 KiB. Another kind of body is as if the part were missing. */
void http_want_part(struct http_exchange *x, const char *name, int fd, uint64_t max);

/* What came into memory, with a NUL behind it. */
const char *http_body(const struct http_exchange *x, size_t *ret_len);
/* How many bytes of it came, wherever they went. */
uint64_t http_body_size(const struct http_exchange *x);
/* False if the form has no such part. The file name is as it was sent: any bytes but NUL; NULL if there is none. */
bool http_part(const struct http_exchange *x, const char **ret_filename, uint64_t *ret_size);

/* ---- the answer ---- */

/* For the answer to come. False if it cannot be one: control characters, which would fake others. */
bool http_set_header(struct http_exchange *x, const char *name, const char *value);
bool http_is_answered(const struct http_exchange *x);
/* `type` may be NULL. Copies the data. */
void http_reply(
	struct http_exchange *x, unsigned status, const char *type, const void *data, size_t len);
/* Takes the data, which must be malloc'ed. */
void http_reply_taken(
	struct http_exchange *x, unsigned status, const char *type, void *data, size_t len);
/* Takes the descriptor, of a regular file. */
void http_reply_file(
	struct http_exchange *x, unsigned status, const char *type, int fd, uint64_t size);

/* In pieces, as they come. After http_end() all that waits still goes out; http_abort() breaks off, so that the client
 * sees that something is missing. */
void http_stream(struct http_exchange *x, unsigned status, const char *type);
void http_send(struct http_exchange *x, const void *data, size_t len);
size_t http_queued(const struct http_exchange *x);
void http_end(struct http_exchange *x);
void http_abort(struct http_exchange *x);

#endif
