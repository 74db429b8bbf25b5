/* notify: what a service manager and a service tell each other, by the protocol of systemd. Without a manager all of it
 * does nothing. Why by hand: docs/decisions/0020. */
#ifndef HOTCELL_BASE_NOTIFY_H
#define HOTCELL_BASE_NOTIFY_H

#include "base/err.h"

/* "READY=1", "STOPPING=1", "STATUS=words", or several of them in lines. Must come from the process that was started,
 * or the manager does not listen. 0 also if nobody wants to know. */
int notify_send(const char *state, struct err *e);

enum { NOTIFY_SOCKETS_MAX = 16 };

struct notify_sockets {
	struct {
		int fd;     /* listens; close-on-exec */
		int family; /* AF_INET, AF_INET6 or AF_UNIX */
	} at[NOTIFY_SOCKETS_MAX];
	unsigned count; /* 0: none were handed over */
};

/* The sockets that the manager opened for us. Once: afterwards the environment does not speak of them any more, so
 * that no child takes its descriptors for them. -1 with *e and nothing taken if what was handed over is not a stream
 * socket that listens. */
int notify_take_sockets(struct notify_sockets *ret, struct err *e);

#endif
