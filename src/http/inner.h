/* inner: what the files of http share.
 *
 *	server.c    the descriptor for the loop, accepting, whose turn it is, opening and closing
 *	clocked.c   deadlines
 *	conn.c      a connection: reads requests, calls handlers, has them answered, one after the other
 *	exchange.c  a request and its answer
 *	head.c      the request line and the headers: what is refused, and what handlers ask for
 *	query.c     what comes behind a target's question mark, and escapes
 *	body.c      where the body ends and where it goes
 *	chunks.c    a body in chunks
 *	form.c      multipart/form-data
 *	reply.c     answers, whole and in streams
 *	sending.c   answers on their way to the socket
 *	linger.c    closing with patience
 *
 * A connection's `conn` lives as long as its socket, an exchange from the end of its head to its on_end. Both end in the
 * connection's own turn only: whatever else happens to them is noted, and the turn made due (conn_due). Two exceptions:
 * a connection without an exchange, and not due, is closed when it was idle for too long; http_close() ends all. */
#ifndef HOTCELL_HTTP_INNER_H
#define HOTCELL_HTTP_INNER_H

#include "http/chunks.h"
#include "http/form.h"
#include "http/http.h"

#include <sys/uio.h>
#include <time.h>

enum {
	HEAD_MAX = 16 * 1024, /* the request line and the headers: over it 431, or 414 */
	HEADERS_MAX = 128,
	BLOCK_BYTES = 64 * 1024,    /* read at once */
	READS_MAX = 8,              /* in one turn: then others have theirs */
	ANSWERS_MAX = 16,           /* likewise: many requests may come with one read */
	IDLE_BYTES = 2 * 1024,      /* of its buffer an idle connection may keep */
	FILE_BLOCK = 32 * 1024,     /* of a file, sent at once */
	TRIM_AFTER = 1000,          /* so many connections closed, what they took is given back */
	FORM_EXTRA_MAX = 64 * 1024, /* of a form, besides the wanted part */
	BODY_RATE_MIN = 4 * 1024,   /* bytes a second, below which a slow body is too slow */
	ANSWER_RATE_MIN = 1024,     /* likewise, of an answer that waits for room in the socket */
	LINGERS_MAX = 256,
	LINGER_BYTES = 1024 * 1024,
	DATE_SIZE = 32,
};

/* What an event of our epoll set is about; the first member of what it points to. */
enum watched { WATCHED_LISTENER, WATCHED_CONN, WATCHED_LINGER };

/* Connections in the order in which they came in, all with the same time to go: the oldest is the first that is due. */
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
	struct conn *next_due;
	bool is_due;
	bool in_turn;
	struct clocked *clock; /* that it stands in, or NULL */
	struct conn *newer;
	struct conn *older;
	int64_t since_us;
	uint64_t size_then; /* of the body, or of what was sent of the answer */
	int fd;
	uid_t uid;
	struct buf
		in; /* what was read before it was its turn: a head that is not complete, the next request */
	size_t in_at;
	size_t scanned; /* so many bytes of the head were looked at, */
	size_t line_at; /* and its last line begins here */
	unsigned lines;
	unsigned reads;   /* in this turn */
	unsigned answers; /* likewise */
	/* What epoll has told. It tells of changes only, so that no call is needed to be told or not. */
	bool may_read;
	bool is_half_closed;
	bool is_gone;
	bool wants_room; /* the socket was full: epoll is to tell when it is not */
	bool lingers;    /* closed with bytes unread: not so fast that the answer is lost */
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
	enum watched listener;
	int epoll_fd;
	int listen_fd;
	int spare_fd; /* given up to be able to refuse a connection when there are no descriptors */
	int64_t accept_again_us; /* 0: the listener is in the set */
	struct conn *conns;
	unsigned conn_count;
	unsigned conn_peak; /* since memory was given back */
	unsigned exchange_count;
	struct conn *due; /* whose turn it is, in order */
	struct conn *last_due;
	struct clocked idle;     /* nothing has come */
	struct clocked heads;    /* a head has begun */
	struct clocked bodies;   /* a body is being read */
	struct clocked writers;  /* the client takes less than there is */
	struct leaving *leaving; /* oldest first */
	struct leaving *newest_leaving;
	unsigned linger_count;
	size_t body_bytes;
	size_t answer_bytes;         /* of answers that wait for room in their sockets */
	struct http_exchange *rooms; /* to be told that there is room */
	bool is_stopping;
	bool is_closing;
	time_t date_of;
	char date[DATE_SIZE];
	char block[BLOCK_BYTES]; /* what is being read, of whichever connection */
};

/*	HEADERS ──▶ BODY ──all of it──▶ REQUEST ──http_reply or http_stream──▶ ANSWERED
 * conn.c sets it, and reply.c to ANSWERED, which may be the next one of any. */
enum phase {
	PHASE_HEADERS,  /* in on_headers, or on_refused before it */
	PHASE_BODY,     /* being read */
	PHASE_REQUEST,  /* in on_request, or after it: waits for its answer */
	PHASE_ANSWERED, /* being sent */
};

struct header {
	const char *name;
	const char *value;
};

struct http_exchange {
	struct conn *conn;
	enum phase phase;
	void *data;

	char *head; /* a copy, which what follows points into */
	const char *method;
	const char *target; /* the path */
	const char *query;  /* or NULL */
	struct header *headers;
	unsigned header_count;
	bool is_head;
	bool is_1_0;
	bool has_body;
	bool is_chunked;
	bool keeps_alive; /* says a client of HTTP/1.0 */
	bool must_close;
	bool is_told; /* handlers have seen it: they will see its end */

	uint64_t body_left; /* of its Content-Length */
	struct chunks chunks;
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

	struct buf set_headers; /* of the answer, as lines */
	struct buf answer_head; /* and for small answers all of it */
	struct buf sending;     /* behind the head: the answer's body, or the piece of it at hand */
	struct iovec pieces[4]; /* of both, what is not sent yet */
	unsigned piece;
	unsigned pieces_count;
	size_t pieces_bytes;
	uint64_t sent_bytes;
	size_t waiting_bytes; /* what it has in answer_bytes */
	char chunk_line[24];
	int file_fd; /* -1: none */
	uint64_t file_at;
	uint64_t file_left;
	bool has_no_body;
	bool has_begun;
	bool is_sent;   /* all of it is in pieces */
	bool is_broken; /* no more to be done for it: it ends in the connection's next turn */
	bool was_probed;

	bool is_stream;
	bool has_ended;
	bool was_full;
	bool in_rooms;
	const char *neutral; /* what may be sent in a stream without a meaning */
	struct buf queue;    /* of a stream: what is to be sent next */
	struct http_exchange *next_room;
};

/* ---- server.c ---- */
/* Takes the descriptor. */
int server_add(struct http *h, int fd);

/* ---- clocked.c ---- */
/* In that queue since now, and in no other. */
void clocked_add(struct clocked *queue, struct conn *conn);
void clocked_remove(struct conn *conn);
/* The oldest, if its time is up. */
struct conn *clocked_due(const struct clocked *queue, int64_t now_us);
/* When it will be; INT64_MAX if there is none. */
int64_t clocked_until(const struct clocked *queue);

/* ---- conn.c ---- */
/* Takes the descriptor. */
int conn_open(struct http *h, int fd, uid_t uid);
void conn_close(struct conn *conn);
/* To be called from anywhere: it has its turn in this or the next http_run(). */
void conn_due(struct conn *conn);
void conn_turn(struct conn *conn);
void conn_event(struct conn *conn, uint32_t events);
/* The head does not come. */
void conn_refuse_slow_head(struct conn *conn);

/* ---- exchange.c ---- */
struct http_exchange *exchange_new(struct conn *conn);
/* Ends and frees the one that the connection has. */
void exchange_end(struct conn *conn, bool complete);
/* Has it answered, by on_refused or in plain words; afterwards the connection is closed. */
void exchange_refuse(struct http_exchange *x, unsigned status, const char *why);
/* So much memory is held by its answer, while that waits for its reader. */
void exchange_set_waiting(struct http_exchange *x, size_t bytes);
/* Nobody is there to be answered, or nothing can be: it ends. */
void exchange_break(struct http_exchange *x);

/* ---- head.c ---- */
enum head { HEAD_PARTIAL, HEAD_WHOLE, HEAD_MALFORMED, HEAD_LONG_TARGET, HEAD_LONG };

/* How much of a head has been read, and how long it is, once it is whole. */
enum head head_scan(struct conn *conn, size_t *ret_len);
/* Something is there that is not an empty line. */
bool head_has_begun(const struct conn *conn);
/* Whether it may stand in one: as a method or the name of a header, and as the value of one. */
bool head_is_token(const char *text);
bool head_is_value(const char *text);
/* Takes it apart. 0 if it may be served; else the status, and why. Finds out whether there is a body. */
unsigned head_parse(struct http_exchange *x, const char *text, size_t len, const char **ret_why);

/* ---- body.c ---- */
/* Takes what belongs to it, and tells how much that is; the rest comes behind it. May answer, to refuse it. */
size_t body_feed(struct http_exchange *x, const char *data, size_t len);
bool body_is_complete(const struct http_exchange *x);
void body_refuse_too_large(struct http_exchange *x);

/* ---- sending.c ---- */
enum sending {
	SENDING_ALL,   /* it is complete */
	SENDING_WAITS, /* a stream, which has nothing more for now */
	SENDING_MORE,  /* there is more, but others have their turn */
	SENDING_FULL,  /* the socket takes no more */
	SENDING_FAILED,
};

enum sending sending_go_on(struct http_exchange *x);

/* ---- linger.c ---- */
/* Takes the descriptor, if it can; else it is left to be closed. */
void linger_start(struct http *h, int *fd);
void linger_event(struct http *h, struct leaving *l);
void linger_end(struct http *h, struct leaving *l);

#endif
