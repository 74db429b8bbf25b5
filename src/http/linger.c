/* linger: closing with patience.
 *
 * If bytes that were sent to us lie unread when a socket is closed, the kernel resets the connection, and the client may
 * never see the answer that explains why: typically 413. So after such an answer our side says that it has ended, what
 * still comes is thrown away for a short while, up to LINGER_BYTES, and only then it is closed. */
#include "http/inner.h"

#include "base/clock.h"
#include "base/own.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { LINGER_US = 2000000 };

void linger_start(struct http *h, int *fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct leaving *l;

	if (h->linger_count == LINGERS_MAX || h->is_closing || shutdown(*fd, SHUT_WR) < 0)
		return;
	l = xalloc(sizeof(*l));
	event.data.ptr = l;
	if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, *fd, &event) < 0) {
		free(l);
		return;
	}
	*l = (struct leaving){ .watched = WATCHED_LINGER,
		.fd = take_fd(fd),
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
	epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
	close(l->fd);
	free(l);
}

void linger_event(struct http *h, struct leaving *l)
{
	ssize_t got = recv(l->fd, h->block, sizeof(h->block), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0 || (size_t)got >= l->left)
		linger_end(h, l);
	else
		l->left -= (size_t)got;
}
