#include "engine/doctor.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

int doctor_ask(struct hotcell *h, void (*on_row)(void *context, const struct msg_checked *row),
	void *context, struct err *e)
{
	struct link *link = &h->links[ISOLATION_CONTAINER];

	/* What it is to look at must be looked at before it gives up its view: a new one. */
	link_close(h, link, true);
	if (link_start(h, link, true, e) || link_seal(h, link, e))
		return -1;
	put_nothing(&h->out, WARDEN_CHECK);
	if (link_send(h, link, -1, e))
		return -1;
	for (;;) {
		struct frame_in in;
		struct msg_checked row;
		uint8_t type;
		int got = frame_recv(link->socket_fd, h->in_buffer, 0, &type, &in, NULL);

		if (got <= 0)
			return err_set(e, ERR_GONE, "hotcell-warden ended unexpectedly");
		if (type == WARDEN_CHECK_END)
			return 0;
		if (type == WARDEN_CHECKED && get_checked(&in, &row))
			on_row(context, &row);
	}
}
