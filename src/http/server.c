/* server: the descriptor for the loop, accepting, whose turn it is, opening and closing.
 *
 *	http_fd() ── epoll ┬ the listening socket
 *	                   ├ connections (conn.c): told of changes only
 *	                   └ connections that are being closed with patience (linger.c) */
#include "http/inner.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	ACCEPTS_MAX = 64, /* in one turn */
	EVENTS_MAX = 64,
	ROUNDS_MAX = 8, /* of turns */
	QUICK_BYTES = 64 * 1024,
	ACCEPT_PAUSE_US = 100000, /* when there is no room in the kernel for another connection */
};

/* ---- deadlines ---- */

static void end_slow_bodies(struct http *h, int64_t now_us)
{
	uint64_t enough = (uint64_t)h->options.request_s * BODY_RATE_MIN;
	struct conn *conn;

	while ((conn = clocked_due(&h->bodies, now_us))) {
		struct http_exchange *x = conn->x;

		if (x->body_size - conn->size_then >= enough) {
			conn->size_then = x->body_size;
			clocked_add(&h->bodies, conn);
		} else {
			clocked_remove(conn);
			exchange_refuse(x, 408, "The request's body comes too slowly.");
		}
	}
}

/* An answer that is hardly taken holds memory for as long. */
static void end_slow_readers(struct http *h, int64_t now_us)
{
	uint64_t enough = (uint64_t)h->options.idle_s * ANSWER_RATE_MIN;
	struct conn *conn;

	while ((conn = clocked_due(&h->writers, now_us))) {
		uint64_t size = conn->x->sent_bytes;

		clocked_remove(conn);
		if (size - conn->size_then < enough) {
			exchange_break(conn->x);
			continue;
		}
		conn->size_then = size;
		clocked_add(&h->writers, conn);
	}
}

/* How long it would take for the rest, at the pace so far. Who has just begun is taken for quick. */
static double time_left(const struct conn *conn, int64_t now_us)
{
	uint64_t taken = conn->x->sent_bytes - conn->size_then + QUICK_BYTES;

	return (double)http_queued(conn->x) * (double)(now_us - conn->since_us) / (double)taken;
}

/* NULL if there is no other. */
static struct conn *find_slowest_reader(const struct http *h)
{
	int64_t now_us = clock_now_us();
	struct conn *slowest = NULL;
	unsigned count = 0;

	for (struct conn *conn = h->writers.oldest; conn; conn = conn->newer) {
		if (conn->x->is_broken)
			continue;
		count++;
		if (!slowest || time_left(conn, now_us) > time_left(slowest, now_us))
			slowest = conn;
	}
	return count > 1 ? slowest : NULL;
}

/* In a minute many who hardly read can be sent more than there is memory. */
static void bound_answers(struct http *h)
{
	struct conn *slowest;

	while (h->answer_bytes > h->options.answers_max && (slowest = find_slowest_reader(h))) {
		exchange_set_waiting(slowest->x, 0);
		exchange_break(slowest->x);
	}
}

static void end_overdue(struct http *h)
{
	int64_t now_us = clock_now_us();
	struct conn *conn;

	while ((conn = clocked_due(&h->idle, now_us))) {
		if (conn->is_due) /* just now something came */
			clocked_add(&h->idle, conn);
		else
			conn_close(conn);
	}
	while ((conn = clocked_due(&h->heads, now_us)))
		conn_refuse_slow_head(conn);
	end_slow_bodies(h, now_us);
	end_slow_readers(h, now_us);
	while (h->leaving && h->leaving->until_us <= now_us)
		linger_end(h, h->leaving);
}

/* ---- accepting ---- */

int server_add(struct http *h, int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (h->options.is_local && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		close(fd);
		return -1;
	}
	return conn_open(h, fd, peer.uid);
}

static int accept_now(const struct http *h)
{
	/* cppcheck-suppress nullPointer ; it may be: nobody asks for the address */
	return accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void turn_away(int fd)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
				   "Connection: close\r\n"
				   "Retry-After: 1\r\n"
				   "Content-Type: application/json\r\n"
				   "Content-Length: 48\r\n"
				   "\r\n"
				   "{\"detail\":\"Too many connections.\",\"code\":\"busy\"}";

	send(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	close(fd);
}

/* Where there is no room for a connection there may be none for this either: then it is tried again. */
static void set_listening(struct http *h, bool on)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &h->listener };
	int failed =
		epoll_ctl(h->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, h->listen_fd, &event);

	h->accept_again_us = on && !failed ? 0 : clock_now_us() + ACCEPT_PAUSE_US;
}

/* Without a descriptor for it, a connection would stay in the listener's queue and wake us for ever. */
static bool turn_away_with_spare(struct http *h)
{
	int fd;

	if (h->spare_fd < 0)
		return false;
	close(take_fd(&h->spare_fd));
	fd = accept_now(h);
	if (fd >= 0)
		turn_away(fd);
	h->spare_fd = fcntl(h->epoll_fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0;
}

/* Returns whether to go on accepting. */
static bool accept_one(struct http *h)
{
	int fd = accept_now(h);

	if (fd >= 0) {
		if (h->conn_count >= h->options.connections_max)
			turn_away(fd);
		else
			server_add(h, fd);
		return true;
	}
	switch (errno) {
	case EAGAIN:
		return false;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		if (turn_away_with_spare(h))
			return true;
		break;
	case EBADF:
	case EINVAL:
	case ENOTSOCK:
		break;
	default: /* that connection is gone already */
		return true;
	}
	set_listening(h, false);
	return false;
}

static void accept_some(struct http *h)
{
	for (int i = 0; i < ACCEPTS_MAX && accept_one(h); i++)
		;
}

/* ---- the loop ---- */

static void take_events(struct http *h)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(h->epoll_fd, events, EVENTS_MAX, 0);

	for (int i = 0; i < count; i++) {
		enum watched *watched = events[i].data.ptr;

		switch (*watched) {
		case WATCHED_LISTENER:
			accept_some(h);
			break;
		case WATCHED_CONN:
			conn_event((struct conn *)watched, events[i].events);
			break;
		case WATCHED_LINGER:
			linger_event(h, (struct leaving *)watched);
			break;
		}
	}
}

/* Those that become due meanwhile have theirs in the next round. */
static void take_turns(struct http *h)
{
	struct conn *conn = take_ptr(&h->due);

	while (conn) {
		struct conn *next = conn->next_due;

		conn->is_due = false;
		conn_turn(conn);
		conn = next;
	}
}

static void tell_rooms(struct http *h)
{
	struct http_exchange *x;

	while ((x = h->rooms)) {
		h->rooms = x->next_room;
		x->in_rooms = false;
		h->options.handlers.on_room(h->options.handlers.context, x);
	}
}

/* The C library keeps what lies below anything that is still in use; after a crowd that is a lot. */
static void give_back_memory(struct http *h)
{
	if (h->conn_peak < h->conn_count + TRIM_AFTER)
		return;
	malloc_trim(0);
	h->conn_peak = h->conn_count;
}

void http_flush(struct http *h)
{
	for (int i = 0; i < ROUNDS_MAX && (h->due || h->rooms); i++) {
		take_turns(h);
		bound_answers(h);
		tell_rooms(h);
	}
}

void http_run(struct http *h)
{
	if (h->accept_again_us && h->accept_again_us <= clock_now_us() && !h->is_stopping)
		set_listening(h, true);
	take_events(h);
	end_overdue(h);
	http_flush(h);
	give_back_memory(h);
}

int http_fd(const struct http *h)
{
	return h->epoll_fd;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int http_timeout_ms(const struct http *h)
{
	const struct clocked *queues[] = { &h->idle, &h->heads, &h->bodies, &h->writers };
	int64_t until_us = INT64_MAX;

	if (h->due || h->rooms)
		return 0;
	for (size_t i = 0; i < COUNT(queues); i++)
		until_us = sooner(until_us, clocked_until(queues[i]));
	if (h->leaving)
		until_us = sooner(until_us, h->leaving->until_us);
	if (h->accept_again_us && !h->is_stopping)
		until_us = sooner(until_us, h->accept_again_us);
	return until_us == INT64_MAX ? -1 : clock_ms_until(until_us);
}

unsigned http_connections(const struct http *h)
{
	return h->conn_count;
}

unsigned http_exchanges(const struct http *h)
{
	return h->exchange_count;
}

/* ---- opening and closing ---- */

static void set_defaults(struct http_options *o)
{
	o->connections_max = o->connections_max ? o->connections_max : 1000;
	o->idle_s = o->idle_s ? o->idle_s : 60;
	o->request_s = o->request_s ? o->request_s : 30;
	o->body_max = o->body_max ? o->body_max : (size_t)1024 * 1024;
	o->bodies_max = o->bodies_max ? o->bodies_max : (size_t)256 * 1024 * 1024;
	o->answers_max = o->answers_max ? o->answers_max : (size_t)256 * 1024 * 1024;
}

/* Accepted sockets inherit these: no calls for each of them. Clients that vanish without a word are found after some
 * minutes even while they are waited for. */
static void set_tcp_options(int listen_fd)
{
	static const struct {
		int level;
		int name;
		int value;
	} wanted[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 20 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 3 },
	};

	for (size_t i = 0; i < COUNT(wanted); i++)
		setsockopt(listen_fd, wanted[i].level, wanted[i].name, &wanted[i].value,
			sizeof(wanted[i].value));
}

static int start_listening(struct http *h, struct err *e)
{
	int fd = h->options.listen_fd;

	if (fd < 0)
		return 0;
	if (fd_set_nonblock(fd, true) < 0)
		return err_sys(e, "listening socket");
	if (!h->options.is_local)
		set_tcp_options(fd);
	h->listen_fd = fd;
	set_listening(h, true);
	return 0;
}

int http_open(const struct http_options *options, struct http **ret, struct err *e)
{
	struct http *h = xalloc(sizeof(*h));

	h->options = *options;
	set_defaults(&h->options);
	h->listener = WATCHED_LISTENER;
	h->listen_fd = -1;
	h->spare_fd = -1;
	h->idle.period_us = h->writers.period_us = (int64_t)h->options.idle_s * 1000000;
	h->heads.period_us = h->bodies.period_us = (int64_t)h->options.request_s * 1000000;
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0) {
		free(h);
		return err_sys(e, "epoll_create1");
	}
	h->spare_fd = fcntl(h->epoll_fd, F_DUPFD_CLOEXEC, 0);
	if (start_listening(h, e) < 0) {
		http_close(h);
		return -1;
	}
	*ret = h;
	return 0;
}

void http_stop_listening(struct http *h)
{
	h->is_stopping = true;
	if (h->listen_fd < 0)
		return;
	set_listening(h, false); /* somebody else may have it too: closing would not take it out */
	close(take_fd(&h->listen_fd));
}

void http_close(struct http *h)
{
	if (!h)
		return;
	h->is_closing = true;
	http_stop_listening(h);
	while (h->conns)
		conn_close(h->conns);
	while (h->leaving)
		linger_end(h, h->leaving);
	if (h->spare_fd >= 0)
		close(h->spare_fd);
	close(h->epoll_fd);
	free(h);
}

bool http_is_local(const struct http_exchange *x)
{
	return x->conn->http->options.is_local;
}

uid_t http_peer_uid(const struct http_exchange *x)
{
	return x->conn->uid;
}

void http_set_data(struct http_exchange *x, void *data)
{
	x->data = data;
}

void *http_data(const struct http_exchange *x)
{
	return x->data;
}
