/* watch: clients that go away while libmicrohttpd looks elsewhere, and closing with patience.
 *
 * A suspended connection is in none of libmicrohttpd's lists, so its socket is in our own epoll set: once added it stays
 * there, edge-triggered and only for its end, which costs nothing per request. See http.h for what is done about a
 * half-closed one.
 *
 * Lingering: if bytes that were sent to us lie unread when a socket is closed, the kernel resets the connection, and the
 * client may never see the answer that explains why: typically 413. So after such an answer our side says that it has
 * ended, what still comes is thrown away for a short while, up to LINGER_BYTES, and only then it is closed. */
#include "http/inner.h"

#include "base/clock.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { LINGER_US = 2000000 };

/* Sends something that changes nothing: whoever is gone answers with a reset, which is an event here. */
static void probe(struct http_exchange *x)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct conn *conn = x->conn;

	if (conn->http->options.is_local || x->was_probed)
		return;
	x->was_probed = true;
	if (x->is_stream) {
		if (x->neutral)
			http_send(x, x->neutral, strlen(x->neutral));
		return;
	}
	if (x->is_1_0 || http_is_answered(x))
		return;
	if (send(conn->fd, interim, sizeof(interim) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) !=
		(ssize_t)sizeof(interim) - 1)
		exchange_break(x);
}

void watch_start(struct conn *conn)
{
	struct epoll_event event = { .events = EPOLLRDHUP | EPOLLET, .data.ptr = conn };

	if (conn->is_watched) { /* and what there was to be seen may have been seen before */
		if (conn->is_gone)
			exchange_break(conn->x);
		else if (conn->is_half_closed)
			probe(conn->x);
		return;
	}
	/* Without it a client that goes is noticed when it is answered. */
	if (epoll_ctl(conn->http->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) == 0)
		conn->is_watched = true;
}

void watch_event(struct conn *conn, uint32_t events)
{
	struct http_exchange *x = conn->x;

	conn->is_half_closed = true;
	conn->is_gone = conn->is_gone || (events & (EPOLLHUP | EPOLLERR));
	if (!x || !x->is_suspended)
		return; /* libmicrohttpd is looking */
	if (conn->is_gone)
		exchange_break(x);
	else
		probe(x);
}

/* Called while the connection's own descriptor is still open. */
void linger_start(struct conn *conn)
{
	struct http *h = conn->http;
	struct epoll_event event = { .events = EPOLLIN };
	auto_close int fd = -1;
	struct leaving *l;

	if (h->linger_count == LINGERS_MAX || h->is_closing)
		return;
	fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || shutdown(fd, SHUT_WR) < 0)
		return;
	l = xalloc(sizeof(*l));
	event.data.ptr = l;
	if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		free(l);
		return;
	}
	*l = (struct leaving){ .watched = WATCHED_LINGER,
		.fd = take_fd(&fd),
		.until_us = clock_now_us() + LINGER_US,
		.left = LINGER_BYTES,
		.prev = h->newest_leaving };
	*(l->prev ? &l->prev->next : &h->leaving) = l;
	h->newest_leaving = l;
	h->linger_count++;
}

void linger_end(struct http *h, struct leaving *l)
{
	*(l->prev ? &l->prev->next : &h->leaving) = l->next;
	*(l->next ? &l->next->prev : &h->newest_leaving) = l->prev;
	h->linger_count--;
	close(l->fd);
	free(l);
}

void linger_event(struct http *h, struct leaving *l)
{
	static char nowhere[64 * 1024];
	ssize_t got = recv(l->fd, nowhere, sizeof(nowhere), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0 || (size_t)got >= l->left)
		linger_end(h, l);
	else
		l->left -= (size_t)got;
}
