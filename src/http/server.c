/* server: the descriptor for the loop, accepting, deadlines, opening and closing.
 *
 *	http_fd() ── epoll ┬ libmicrohttpd's own epoll: all connections that are not suspended
 *	                   ├ the listening socket: we accept ourselves, so that want of descriptors or places is ours
 *	                   ├ connections that have been suspended once (watch.c)
 *	                   └ connections that are being closed with patience (watch.c)
 *
 * Deadlines: libmicrohttpd closes what is silent for idle_s. Two queues of ours take care of what is slow instead:
 * `heads` has the connections from which a head is to come, `bodies` those that send a body. Both have one period for
 * all, so the oldest is always the first that is due. */
#include "http/inner.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	ACCEPTS_MAX = 64, /* in one turn */
	EVENTS_MAX = 64,
	ROUNDS_MAX = 8,           /* of libmicrohttpd in one turn */
	ACCEPT_PAUSE_US = 100000, /* when there is no room in the kernel for another connection */
};

/* ---- deadlines ---- */

void clocked_add(struct clocked *queue, struct conn *conn)
{
	conn->clock = queue;
	conn->since_us = clock_now_us();
	conn->newer = NULL;
	conn->older = queue->newest;
	*(conn->older ? &conn->older->newer : &queue->oldest) = conn;
	queue->newest = conn;
}

void clocked_remove(struct conn *conn)
{
	struct clocked *queue = conn->clock;

	if (!queue)
		return;
	*(conn->older ? &conn->older->newer : &queue->oldest) = conn->newer;
	*(conn->newer ? &conn->newer->older : &queue->newest) = conn->older;
	conn->clock = NULL;
}

static struct conn *clocked_due(const struct clocked *queue, int64_t now_us)
{
	struct conn *conn = queue->oldest;

	return conn && conn->since_us + queue->period_us <= now_us ? conn : NULL;
}

static void end_slow_bodies(struct http *h, int64_t now_us)
{
	uint64_t enough = (uint64_t)h->options.request_s * BODY_RATE_MIN;
	struct conn *conn;

	while ((conn = clocked_due(&h->bodies, now_us))) {
		struct http_exchange *x = conn->x;

		clocked_remove(conn);
		if (x->body_size - conn->size_then >= enough) {
			conn->size_then = x->body_size;
			clocked_add(&h->bodies, conn);
		} else {
			exchange_refuse(x, 408, "The request's body comes too slowly.");
		}
	}
}

static void end_overdue(struct http *h)
{
	int64_t now_us = clock_now_us();
	struct conn *conn;

	while ((conn = clocked_due(&h->heads, now_us))) {
		clocked_remove(conn);
		shutdown(conn->fd, SHUT_RDWR); /* which libmicrohttpd sees */
	}
	end_slow_bodies(h, now_us);
	while (h->leaving && h->leaving->until_us <= now_us)
		linger_end(h, h->leaving);
}

/* ---- connections ---- */

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http *h = cls;
	struct conn *conn = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		conn = xalloc(sizeof(*conn));
		*conn = (struct conn){ .watched = WATCHED_CONN,
			.http = h,
			.next = h->conns,
			.fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)
				      ->connect_fd,
			.uid = h->uid };
		if (conn->next)
			conn->next->prev = conn;
		h->conns = conn;
		h->conn_count++;
		if (h->conn_count > h->conn_peak)
			h->conn_peak = h->conn_count;
		clocked_add(&h->heads, conn);
		*context = conn;
		return;
	}
	clocked_remove(conn);
	if (conn->is_watched)
		epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
	if (conn->lingers)
		linger_start(conn);
	*(conn->prev ? &conn->prev->next : &h->conns) = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	h->conn_count--;
	free(conn);
}

int server_add(struct http *h, int fd)
{
	/* libmicrohttpd copies an address, and has no use for it. */
	static const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (h->options.is_local && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		close(fd);
		return -1;
	}
	h->uid = peer.uid;
	h->must_run = true;
	return MHD_add_connection(h->daemon, fd, &nobody, sizeof(nobody)) == MHD_YES ? 0 : -1;
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
				   "Content-Length: 36\r\n"
				   "\r\n"
				   "{\"detail\":\"Too many connections.\"}\r\n";

	send(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	close(fd);
}

static void set_listening(struct http *h, bool on)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &h->listener };

	epoll_ctl(h->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, h->listen_fd, &event);
	h->accept_again_us = on ? 0 : clock_now_us() + ACCEPT_PAUSE_US;
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

/* Accepting comes last: it may free connections that other events are about. */
static void take_events(struct http *h)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(h->epoll_fd, events, EVENTS_MAX, 0);
	bool may_accept = false;

	for (int i = 0; i < count; i++) {
		enum watched *watched = events[i].data.ptr;

		switch (*watched) {
		case WATCHED_LIBRARY:
			break; /* it is run in any case */
		case WATCHED_LISTENER:
			may_accept = true;
			break;
		case WATCHED_CONN:
			watch_event((struct conn *)watched, events[i].events);
			break;
		case WATCHED_LINGER:
			linger_event(h, (struct leaving *)watched);
			break;
		}
	}
	if (may_accept)
		accept_some(h);
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

static bool library_is_busy(const struct http *h)
{
	MHD_UNSIGNED_LONG_LONG left;

	return h->must_run || (MHD_get_timeout(h->daemon, &left) == MHD_YES && left == 0);
}

void http_run(struct http *h)
{
	if (h->accept_again_us && h->accept_again_us <= clock_now_us() && !h->is_stopping)
		set_listening(h, true);
	take_events(h);
	end_overdue(h);
	/* An answer that was waited for takes it a few rounds: resuming, writing, reading again. */
	for (int i = 0; i < ROUNDS_MAX; i++) {
		h->must_run = false;
		MHD_run(h->daemon);
		tell_rooms(h);
		if (!library_is_busy(h))
			break;
	}
	give_back_memory(h);
}

int http_fd(const struct http *h)
{
	return h->epoll_fd;
}

static void sooner(int *ms, int64_t at_us)
{
	int left = clock_ms_until(at_us);

	if (*ms < 0 || left < *ms)
		*ms = left;
}

int http_timeout_ms(const struct http *h)
{
	MHD_UNSIGNED_LONG_LONG left;
	int ms = -1;

	if (h->must_run)
		return 0;
	if (MHD_get_timeout(h->daemon, &left) == MHD_YES)
		ms = left > 1000000 ? 1000000 : (int)left;
	if (h->heads.oldest)
		sooner(&ms, h->heads.oldest->since_us + h->heads.period_us);
	if (h->bodies.oldest)
		sooner(&ms, h->bodies.oldest->since_us + h->bodies.period_us);
	if (h->leaving)
		sooner(&ms, h->leaving->until_us);
	if (h->accept_again_us && !h->is_stopping)
		sooner(&ms, h->accept_again_us);
	return ms;
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

static size_t leave_escaped(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls, (void)mhd;
	return strlen(text); /* handlers get the path as it was sent */
}

/* sendfile() cannot be told to spare us the signal, so it is used only where the program ignores it anyway. */
static bool ignores_sigpipe(void)
{
	struct sigaction action;

	return sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static struct MHD_Daemon *start_library(struct http *h)
{
	const struct MHD_OptionItem more[] = {
#if MHD_VERSION >= 0x01000000
		{ MHD_OPTION_CLIENT_DISCIPLINE_LVL, 2, NULL },
#endif
		{ ignores_sigpipe() ? MHD_OPTION_SIGPIPE_HANDLED_BY_APP : MHD_OPTION_END, 1, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};

	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_TURBO | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET,
		0, NULL, NULL, exchange_on_access, h, MHD_OPTION_URI_LOG_CALLBACK,
		exchange_on_target, h, MHD_OPTION_NOTIFY_COMPLETED, exchange_on_completed, h,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_UNESCAPE_CALLBACK,
		leave_escaped, h, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
		MHD_OPTION_CONNECTION_LIMIT, h->options.connections_max + 1,
		MHD_OPTION_CONNECTION_TIMEOUT, h->options.idle_s, MHD_OPTION_ARRAY, more,
		MHD_OPTION_END);
}

static void set_defaults(struct http_options *o)
{
	o->connections_max = o->connections_max ? o->connections_max : 1000;
	o->idle_s = o->idle_s ? o->idle_s : 60;
	o->request_s = o->request_s ? o->request_s : 30;
	o->body_max = o->body_max ? o->body_max : (size_t)1024 * 1024;
	o->bodies_max = o->bodies_max ? o->bodies_max : (size_t)256 * 1024 * 1024;
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

static int watch_library(struct http *h, struct err *e)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &h->library };
	const union MHD_DaemonInfo *info;

	h->daemon = start_library(h);
	if (!h->daemon)
		return err_set(e, ERR_SYSTEM, "the HTTP server could not be started");
	info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) < 0)
		return err_sys(e, "epoll_ctl");
	return 0;
}

int http_open(const struct http_options *options, struct http **ret, struct err *e)
{
	struct http *h = xalloc(sizeof(*h));

	h->options = *options;
	set_defaults(&h->options);
	h->library = WATCHED_LIBRARY;
	h->listener = WATCHED_LISTENER;
	h->listen_fd = -1;
	h->spare_fd = -1;
	h->bodies.period_us = (int64_t)h->options.request_s * 1000000;
	h->heads.period_us = h->bodies.period_us + (int64_t)h->options.idle_s * 1000000;
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll_fd < 0) {
		free(h);
		return err_sys(e, "epoll_create1");
	}
	h->spare_fd = fcntl(h->epoll_fd, F_DUPFD_CLOEXEC, 0);
	if (watch_library(h, e) < 0 || start_listening(h, e) < 0) {
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
	for (struct conn *conn = h->conns; conn; conn = conn->next) {
		if (conn->x)
			exchange_resume(
				conn->x); /* the library wants none suspended when it stops */
	}
	if (h->daemon)
		MHD_stop_daemon(h->daemon);
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
