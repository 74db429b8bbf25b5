/* conn: a connection, which serves one request after the other.
 *
 *	read a head ──▶ on_headers ──▶ read the body ──▶ on_request ──▶ wait for the answer ──▶ send it ──▶ on_end ─┐
 *	     ▲                                                                                                       │
 *	     └───────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A turn takes it as far as it goes: until bytes, an answer or room in the socket are missing. While a request waits
 * for its answer nothing is read: what a client sends ahead stays in the kernel, which makes it wait, but for what came
 * with the same read. */
#include "http/inner.h"

#include "base/own.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum next { GO_ON, WAIT, AGAIN, ENDED, CLOSE };

/* ---- reading ---- */

static enum next read_block(struct conn *conn, size_t *ret_len)
{
	struct http *h = conn->http;
	ssize_t got;

	if (!conn->may_read)
		return WAIT;
	if (conn->reads++ == READS_MAX)
		return AGAIN;
	got = recv(conn->fd, h->block, sizeof(h->block), MSG_DONTWAIT);
	if (got > 0) {
		/* Less than asked for: there was no more, and epoll tells of what comes. But of an end it has told already. */
		conn->may_read = (size_t)got == sizeof(h->block) || conn->is_half_closed;
		*ret_len = (size_t)got;
		return GO_ON;
	}
	if (got < 0 && errno == EINTR)
		return AGAIN;
	if (got < 0 && errno == EAGAIN) {
		conn->may_read = false;
		return WAIT;
	}
	return got == 0 ? ENDED : CLOSE;
}

static void forget_taken(struct conn *conn)
{
	if (conn->in_at < conn->in.len)
		return;
	conn->in_at = 0;
	if (conn->in.cap > IDLE_BYTES)
		buf_free(&conn->in);
	else
		buf_clear(&conn->in);
}

/* Before more is read behind the beginning of a head: all that was served before it would add up, for ever if there is
 * always such a beginning. What is left is shorter than a head may be; a buffer that was larger is not kept for it. */
static void forget_served(struct conn *conn)
{
	struct buf rest = { 0 };

	forget_taken(conn);
	if (conn->in_at == 0)
		return;
	buf_add(&rest, conn->in.data + conn->in_at, conn->in.len - conn->in_at);
	buf_free(&conn->in);
	conn->in = rest;
	conn->in_at = 0;
}

/* ---- the head ---- */

static void refuse_head(struct conn *conn, unsigned status, const char *why)
{
	clocked_remove(conn);
	exchange_refuse(exchange_new(conn), status, why);
}

void conn_refuse_slow_head(struct conn *conn)
{
	refuse_head(conn, 408, "The request's headers come too slowly.");
}

static void send_interim(struct http_exchange *x)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	ssize_t sent = send(x->conn->fd, interim, sizeof(interim) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);

	/* No room, if answers to requests before it have not been read: then it goes without saying. */
	if (sent < 0 && errno == EAGAIN)
		return;
	if (sent != (ssize_t)sizeof(interim) - 1)
		exchange_break(x);
}

static void begin_body(struct http_exchange *x)
{
	struct conn *conn = x->conn;

	x->phase = PHASE_BODY;
	if (!x->has_body)
		return;
	conn->size_then = 0;
	clocked_add(&conn->http->bodies, conn);
	if (!x->is_1_0 && http_header(x, "Expect") && conn->in_at == conn->in.len)
		send_interim(x);
}

static void begin_exchange(struct conn *conn, size_t len)
{
	const struct http_handlers *handlers = &conn->http->options.handlers;
	struct http_exchange *x = exchange_new(conn);
	const char *why = NULL;
	unsigned status = head_parse(x, conn->in.data + conn->in_at, len, &why);

	clocked_remove(conn);
	conn->in_at += len;
	forget_taken(conn);
	conn->scanned = conn->line_at = conn->lines = 0;
	if (status) {
		exchange_refuse(x, status, why);
		return;
	}
	x->is_told = true;
	handlers->on_headers(handlers->context, x);
	if (http_is_answered(x))
		return;
	if (x->body_left > x->body_max)
		body_refuse_too_large(x);
	else
		begin_body(x);
}

static void stand_in(struct conn *conn, struct clocked *queue)
{
	if (conn->clock != queue)
		clocked_add(queue, conn);
}

static enum next read_head(struct conn *conn)
{
	enum next next;
	size_t len;

	switch (head_scan(conn, &len)) {
	case HEAD_WHOLE:
		begin_exchange(conn, len);
		return GO_ON;
	case HEAD_MALFORMED:
		refuse_head(conn, 400, "The request is malformed.");
		return GO_ON;
	case HEAD_LONG_TARGET:
		refuse_head(conn, 414, "The request's target is too long.");
		return GO_ON;
	case HEAD_LONG:
		refuse_head(conn, 431, "The request's headers are too large.");
		return GO_ON;
	case HEAD_PARTIAL:
		break;
	}
	forget_served(conn);
	stand_in(conn, head_has_begun(conn) ? &conn->http->heads : &conn->http->idle);
	next = read_block(conn, &len);
	if (next == GO_ON)
		buf_add(&conn->in, conn->http->block, len);
	return next;
}

/* ---- the body ---- */

static void call_request(struct http_exchange *x)
{
	const struct http_handlers *handlers = &x->conn->http->options.handlers;

	clocked_remove(x->conn);
	x->phase = PHASE_REQUEST;
	if (x->form && !form_is_complete(x->form))
		exchange_refuse(x, 400, "The form ends early.");
	else
		handlers->on_request(handlers->context, x);
}

static enum next read_body(struct conn *conn)
{
	struct http_exchange *x = conn->x;
	enum next next;
	size_t taken;
	size_t len;

	if (!x->has_body || body_is_complete(x)) {
		call_request(x);
		return GO_ON;
	}
	if (conn->in_at < conn->in.len) {
		conn->in_at +=
			body_feed(x, conn->in.data + conn->in_at, conn->in.len - conn->in_at);
		forget_taken(conn);
		return GO_ON;
	}
	next = read_block(conn, &len);
	if (next != GO_ON)
		return next;
	taken = body_feed(x, conn->http->block, len);
	if (taken < len)
		buf_add(&conn->in, conn->http->block + taken, len - taken);
	return GO_ON;
}

/* ---- the answer ---- */

/* Sends something that changes nothing: whoever is gone answers with a reset, which is an event here. */
static void probe(struct http_exchange *x)
{
	if (x->conn->http->options.is_local || x->was_probed)
		return;
	x->was_probed = true;
	if (x->neutral)
		http_send(x, x->neutral, strlen(x->neutral));
	else if (!x->is_stream && !x->is_1_0)
		send_interim(x);
}

/* For an answer, or for more of it. */
static enum next await(struct conn *conn)
{
	struct http_exchange *x = conn->x;
	bool was_probed = x->was_probed;

	if (conn->is_gone)
		return CLOSE;
	if (conn->is_half_closed)
		probe(x);
	return was_probed == x->was_probed ? WAIT : GO_ON;
}

static void want_room(struct conn *conn, bool wants)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = conn };

	if (conn->wants_room == wants)
		return;
	conn->wants_room = wants;
	event.events |= wants ? EPOLLOUT : 0;
	epoll_ctl(conn->http->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

static enum next after_answer(struct conn *conn)
{
	bool closes = conn->x->must_close || conn->http->is_stopping;

	exchange_end(conn, true);
	if (!closes)
		return ++conn->answers < ANSWERS_MAX ? GO_ON : AGAIN;
	conn->lingers = conn->lingers || conn->may_read || conn->in_at < conn->in.len;
	return CLOSE;
}

static size_t answer_bytes(const struct http_exchange *x)
{
	return x->answer_head.cap + x->sending.cap + x->queue.cap;
}

static enum next send_answer(struct conn *conn)
{
	enum sending sending = sending_go_on(conn->x);

	want_room(conn, sending == SENDING_FULL);
	exchange_set_waiting(conn->x, sending == SENDING_FULL ? answer_bytes(conn->x) : 0);
	if (sending != SENDING_FULL)
		clocked_remove(conn);
	switch (sending) {
	case SENDING_ALL:
		return after_answer(conn);
	case SENDING_WAITS:
		return await(conn);
	case SENDING_MORE:
		return AGAIN;
	case SENDING_FULL:
		if (conn->clock != &conn->http->writers) {
			conn->size_then = conn->x->sent_bytes;
			clocked_add(&conn->http->writers, conn);
		}
		return WAIT;
	case SENDING_FAILED:
		break;
	}
	return CLOSE;
}

/* Nothing more will come. Who has only said so may still read that it was not enough. */
static enum next end_early(struct conn *conn)
{
	static const char why[] = "The request ends early.";

	if (conn->is_gone || (!conn->x && !head_has_begun(conn)))
		return CLOSE;
	if (conn->x)
		exchange_refuse(conn->x, 400, why);
	else
		refuse_head(conn, 400, why);
	return GO_ON;
}

/* ---- its turn ---- */

static enum next go_on(struct conn *conn)
{
	if (!conn->x)
		return read_head(conn);
	if (conn->x->is_broken)
		return CLOSE;
	switch (conn->x->phase) {
	case PHASE_BODY:
		return read_body(conn);
	case PHASE_ANSWERED:
		return send_answer(conn);
	case PHASE_HEADERS:
	case PHASE_REQUEST:
		break;
	}
	return await(conn);
}

void conn_turn(struct conn *conn)
{
	enum next next = GO_ON;

	conn->in_turn = true;
	conn->reads = conn->answers = 0;
	while (next == GO_ON) {
		next = go_on(conn);
		if (next == ENDED)
			next = end_early(conn);
	}
	if (next == CLOSE) {
		conn_close(conn); /* still in its turn: on_end must not make it due once more */
		return;
	}
	conn->in_turn = false;
	if (next == AGAIN)
		conn_due(conn);
}

void conn_due(struct conn *conn)
{
	struct http *h = conn->http;

	if (conn->is_due || conn->in_turn || h->is_closing)
		return;
	conn->is_due = true;
	conn->next_due = NULL;
	*(h->due ? &h->last_due->next_due : &h->due) = conn;
	h->last_due = conn;
}

void conn_event(struct conn *conn, uint32_t events)
{
	conn->may_read = conn->may_read || (events & ~(uint32_t)EPOLLOUT);
	conn->is_half_closed = conn->is_half_closed || (events & EPOLLRDHUP);
	conn->is_gone = conn->is_gone || (events & (EPOLLHUP | EPOLLERR));
	conn_due(conn);
}

/* ---- its beginning and end ---- */

int conn_open(struct http *h, int fd, uid_t uid)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	struct conn *conn = xalloc(sizeof(*conn));

	event.data.ptr = conn;
	if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		free(conn);
		close(fd);
		return -1;
	}
	*conn = (struct conn){ .watched = WATCHED_CONN,
		.http = h,
		.next = h->conns,
		.fd = fd,
		.uid = uid,
		.may_read = true }; /* often the request comes with the connection */
	if (conn->next)
		conn->next->prev = conn;
	h->conns = conn;
	h->conn_count++;
	if (h->conn_count > h->conn_peak)
		h->conn_peak = h->conn_count;
	clocked_add(&h->idle, conn);
	conn_due(conn);
	return 0;
}

void conn_close(struct conn *conn)
{
	struct http *h = conn->http;

	if (conn->x)
		exchange_end(conn, false);
	clocked_remove(conn);
	/* Closing is not enough: a child that is being started may have it too for a moment. */
	epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	if (conn->lingers)
		linger_start(h, &conn->fd);
	own_close(&conn->fd);
	*(conn->prev ? &conn->prev->next : &h->conns) = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	h->conn_count--;
	buf_free(&conn->in);
	free(conn);
}
