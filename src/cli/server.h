/* server: where the service is, and which key is for it. */
#ifndef HOTCELL_CLI_SERVER_H
#define HOTCELL_CLI_SERVER_H

#include "base/err.h"
#include "cli/server_options.h"

#include <stdbool.h>

struct server {
	char *name;        /* as people know it: "http://localhost:8000", "unix:/run/…" */
	char *base;        /* in front of every path of a URL; no '/' at its end */
	char *socket_path; /* or NULL */
	bool is_default; /* nobody named it: that it is the user's own, or root's, is for us to see */
	char *key;       /* or NULL */
};

/* --server, else $HOTCELL_SERVER, else the socket where a service would be; --key, else $HOTCELL_API_KEY,
 * else what is in ~/.config/hotcell/key, if nobody else can read it; but that is for addresses, not for sockets. -1 with *e. */
int server_find(const struct server_options *options, struct server *ret, struct err *e);
void server_free(struct server *s);

#endif
