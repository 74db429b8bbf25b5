/* inner: what the files of http share.
 *
 *	server.c     the descriptor for the loop, accepting, deadlines, opening and closing
 *	exchange.c   a request's way through libmicrohttpd's callbacks, up to its answer
 *	head.c       the request line and the headers: what is refused, and what handlers ask for
 *	form.c       multipart/form-data
 *	reply.c      answers, whole and in streams
 *	watch.c      clients that go away while nobody reads from them or writes to them; closing with patience
 *
 * A connection's `conn` lives as long as its socket, an exchange from its request line to its on_end. */
#ifndef HOTCELL_HTTP_INNER_H
#define HOTCELL_HTTP_INNER_H

#include "http/form.h"
#include "http/http.h"

#include <microhttpd.h>

enum {
	/* Of each connection, for the request line, the headers and what libmicrohttpd notes about them (431 and 414
	 * if they do not fit), and for what is being sent. It clears all of it after each request: so much memory is
	 * what an idle connection takes. */
	POOL_BYTES = 20 * 1024,
	TRIM_AFTER = 1000,          /* so many connections closed, what they took is given back */
	FORM_EXTRA_MAX = 64 * 1024, /* of a form, besides the wanted part */
	BODY_RATE_MIN = 4 * 1024,   /* bytes a second, below which a slow body is too slow */
	LINGERS_MAX = 256,
	LINGER_BYTES = 1024 * 1024,
};

/* What an event of our epoll set is about; the first member of what it points to. */
enum watched { WATCHED_LIBRARY, WATCHED_LISTENER, WATCHED_CONN, WATCHED_LINGER };

/* Connections in the order in which they came in, all with the same time to go. */
struct clocked {
	struct conn *oldest;
	struct conn *newest;
	int64_t period_us;
};

struct conn {
	enum watched watched;
	struct http *http;
	struct http_exchange *x; /* NULL between requests */
	struct conn *next;
	struct conn *prev;
	struct clocked *clock; /* that it stands in, or NULL */
	struct conn *newer;
	struct conn *older;
	int64_t since_us;
	uint64_t size_then; /* of the body */
	int fd;             /* libmicrohttpd's */
	uid_t uid;
	bool is_watched;
	bool is_half_closed;
	bool is_gone;
	bool lingers; /* closed with bytes unread: not so fast that the answer is lost */
};

struct leaving {
	enum watched watched;
	int fd;
	int64_t until_us;
	size_t left;
	struct leaving *next; /* the one that began after it */
	struct leaving *prev;
};

struct http {
	struct http_options options;
	struct MHD_Daemon *daemon;
	enum watched library;
	enum watched listener;
	int epoll_fd; /* libmicrohttpd's own, the listener, and the watched */
	int listen_fd;
	int spare_fd; /* given up to be able to refuse a connection when there are no descriptors */
	int64_t accept_again_us; /* 0: the listener is in the set */
	struct conn *conns;
	unsigned conn_count;
	unsigned conn_peak; /* since memory was given back */
	unsigned exchange_count;
	struct clocked heads;
	struct clocked bodies;
	struct leaving *leaving; /* oldest first */
	struct leaving *newest_leaving;
	unsigned linger_count;
	size_t body_bytes;
	struct http_exchange *rooms; /* to be told that there is room */
	bool must_run;
	bool is_stopping;
	bool is_closing;
	uid_t uid; /* of the connection that is being added */
};

/*	HEAD ──headers──▶ HEADERS ──▶ BODY ──all of it──▶ REQUEST ──http_reply or http_stream──▶ ANSWERED
 *	                     └──── no body ────▶ HERE ──────▶┘
 * exchange.c sets it, and reply.c to ANSWERED. */
enum phase {
	PHASE_HEAD,     /* being read: no handler knows of it */
	PHASE_HEADERS,  /* in on_headers, or on_refused before it */
	PHASE_BODY,     /* being read */
	PHASE_REQUEST,  /* in on_request, or after it: waits for its answer */
	PHASE_ANSWERED, /* being sent */
};

struct http_exchange {
	struct conn *conn;
	struct MHD_Connection *mhd;
	enum phase phase;
	void *data;

	char *target; /* a copy: the path, NUL, the query */
	const char *query;
	const char *method;
	bool is_head;
	bool is_1_0;
	bool has_body;
	bool is_chunked;
	bool must_close;
	bool is_told; /* handlers have seen it: they will see its end */

	struct buf body;
	uint64_t body_size;
	uint64_t body_max;
	int body_fd; /* -1: memory */
	struct form *form;
	bool wants_form;
	uint64_t part_size;
	uint64_t part_max;
	int write_errno;
	char **decoded; /* what http_query has given out */
	size_t decoded_count;

	struct buf headers; /* of the answer: name, NUL, value, NUL, … */
	struct MHD_Response *response;
	unsigned status;
	bool in_handler; /* libmicrohttpd waits for us: it takes the answer from here */
	bool is_suspended;
	bool is_broken; /* no more to be done for it: it ends as soon as libmicrohttpd runs */
	bool was_probed;

	bool is_stream;
	bool has_ended;
	bool was_full;
	bool in_rooms;
	const char *neutral; /* what may be sent in a stream without a meaning */
	struct buf out;
	size_t out_at;
	struct http_exchange *next_room;
};

/* ---- server.c ---- */
/* Takes the descriptor. */
int server_add(struct http *h, int fd);
void clocked_add(struct clocked *queue, struct conn *conn);
void clocked_remove(struct conn *conn);

/* ---- exchange.c: callbacks for libmicrohttpd ---- */
void *exchange_on_target(void *cls, const char *target, struct MHD_Connection *mhd);
enum MHD_Result exchange_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *data_len,
	void **context);
void exchange_on_completed(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_RequestTerminationCode code);
/* Has it answered, by on_refused or in plain words. */
void exchange_refuse(struct http_exchange *x, unsigned status, const char *why);
void exchange_suspend(struct http_exchange *x);
void exchange_resume(struct http_exchange *x);
/* Nobody is there to be answered, or nothing can be: it ends. */
void exchange_break(struct http_exchange *x);

/* ---- head.c ---- */
/* 0 if it may be served; else the status, and why. Finds out whether there is a body. */
unsigned head_check(
	struct http_exchange *x, const char *method, const char *version, const char **ret_why);

/* False if its size leaves no room for the headers of an answer. */
bool head_leaves_room(const struct http_exchange *x);

/* ---- watch.c ---- */
void watch_start(struct conn *conn);
void watch_event(struct conn *conn, uint32_t events);
void linger_start(struct conn *conn);
void linger_event(struct http *h, struct leaving *l);
void linger_end(struct http *h, struct leaving *l);

#endif
