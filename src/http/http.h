/* http: HTTP/1.1 for the loop. libmicrohttpd reads and writes it; this header is all that others see of that.
 *
 *	request line and headers   ──▶  on_headers: may refuse, or say how large a body may be
 *	body                       ──▶  on_request, when all of it is there
 *	http_reply…                ◀──  at once or later, from the loop; exactly once
 *	or http_stream, http_send…, http_end
 *
 * Nothing here blocks, and nothing grows without bound: a body has its limit before it is read, and whoever
 * streams asks http_queued() before it makes more. */
#ifndef HOTCELL_HTTP_HTTP_H
#define HOTCELL_HTTP_HTTP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http;          /* a server: one listening socket */
struct http_exchange; /* a request and its answer */

struct http_handlers {
	/* The headers are there, the body is not. An answer now refuses the body unread. */
	void (*on_headers)(void *context, struct http_exchange *x);
	void (*on_request)(void *context, struct http_exchange *x);
	/* The client has taken all of the answer, or is gone (`complete` says which); after it the
	 * exchange is no more. */
	void (*on_end)(void *context, struct http_exchange *x, bool complete);
	/* What was queued has gone out, so far that there is room again. */
	void (*on_room)(void *context, struct http_exchange *x);
	void *context;
};

struct http_options {
	int listen_fd; /* taken */
	bool is_local; /* a unix socket: http_peer_uid() tells who it is */
	unsigned connections_max;
	unsigned idle_s;  /* of silence, before a connection is closed */
	size_t body_max;  /* unless on_headers says otherwise */
	struct http_handlers handlers;
};

int http_open(const struct http_options *options, struct http **ret, struct err *e);
/* No new connections; those that are there go on. */
void http_stop_listening(struct http *h);
void http_close(struct http *h);

/* For the loop: when this is readable, or so many milliseconds have passed (-1: never), http_run(). */
int http_fd(const struct http *h);
int http_timeout_ms(const struct http *h);
void http_run(struct http *h);
unsigned http_connections(const struct http *h);

/* ---- the request ---- */
const char *http_method(const struct http_exchange *x);
const char *http_path(const struct http_exchange *x); /* as it was sent, without the query */
/* Decoded; NULL if there is none. */
const char *http_query(const struct http_exchange *x, const char *name);
const char *http_header(const struct http_exchange *x, const char *name);
/* How often a header was sent. */
unsigned http_header_count(const struct http_exchange *x, const char *name);
const char *http_body(const struct http_exchange *x, size_t *ret_len);
void http_limit_body(struct http_exchange *x, size_t max);
bool http_is_local(const struct http_exchange *x);
uid_t http_peer_uid(const struct http_exchange *x);
/* Whatever the handlers want to remember with it. */
void http_set_data(struct http_exchange *x, void *data);
void *http_data(const struct http_exchange *x);

/* A form (multipart/form-data): its first part of that name goes to a file without a name, as it comes. To be
 * asked for in on_headers. -1 in *ret_fd until it has come. */
void http_want_part(struct http_exchange *x, const char *name, uint64_t max);
bool http_part(struct http_exchange *x, int *ret_fd, const char **ret_filename, uint64_t *ret_size,
	bool *ret_too_large);

/* ---- the answer ---- */
void http_set_header(struct http_exchange *x, const char *name, const char *value);
bool http_is_answered(const struct http_exchange *x);
/* Copies the data. */
void http_reply(struct http_exchange *x, unsigned status, const char *type, const void *data, size_t len);
/* Takes the descriptor. */
void http_reply_file(struct http_exchange *x, unsigned status, const char *type, int fd, uint64_t size);

void http_stream(struct http_exchange *x, unsigned status, const char *type);
void http_send(struct http_exchange *x, const void *data, size_t len);
size_t http_queued(const struct http_exchange *x);
void http_end(struct http_exchange *x);

#endif
