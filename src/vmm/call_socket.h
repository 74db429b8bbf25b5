/* call_socket: sockets. They are the host's; a cell has no network, so what they reach is the cell. */
#ifndef HOTCELL_VMM_CALL_SOCKET_H
#define HOTCELL_VMM_CALL_SOCKET_H

#include "vmm/guest.h"

int64_t call_socket(struct guest *g, const uint64_t a[6]);
int64_t call_socketpair(struct guest *g, const uint64_t a[6]);
int64_t call_bind(struct guest *g, const uint64_t a[6]);
int64_t call_listen(struct guest *g, const uint64_t a[6]);
int64_t call_accept(struct guest *g, const uint64_t a[6]);
int64_t call_accept4(struct guest *g, const uint64_t a[6]);
int64_t call_connect(struct guest *g, const uint64_t a[6]);
int64_t call_getsockname(struct guest *g, const uint64_t a[6]);
int64_t call_getpeername(struct guest *g, const uint64_t a[6]);
int64_t call_shutdown(struct guest *g, const uint64_t a[6]);
int64_t call_setsockopt(struct guest *g, const uint64_t a[6]);
int64_t call_getsockopt(struct guest *g, const uint64_t a[6]);

/* call_message.c */
int64_t call_sendto(struct guest *g, const uint64_t a[6]);
int64_t call_recvfrom(struct guest *g, const uint64_t a[6]);
int64_t call_sendmsg(struct guest *g, const uint64_t a[6]);
int64_t call_recvmsg(struct guest *g, const uint64_t a[6]);
int64_t call_sendmmsg(struct guest *g, const uint64_t a[6]);
int64_t call_recvmmsg(struct guest *g, const uint64_t a[6]);

/* The options that a program may ask for; filter.c lets no others through. */
struct socket_option {
	int level;
	int name;
	bool may_set;
};

extern const struct socket_option socket_options[];
extern const unsigned socket_options_count;

#endif
