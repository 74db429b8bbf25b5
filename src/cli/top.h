/* top: what a service is doing. cmd_top.c has the terminal, top_look.c asks, top_view.c draws. */
#ifndef HOTCELL_CLI_TOP_H
#define HOTCELL_CLI_TOP_H

#include "cli/client.h"

enum { TOP_POOLS_MAX = 64, TOP_NAME_MAX = 63 };

struct top_pool {
	char language[TOP_NAME_MAX + 1];
	char profile[TOP_NAME_MAX + 1];
	char isolation[TOP_NAME_MAX + 1];
	double idle;
	double busy;
};

/* What was seen at one moment. */
struct top_look {
	double running;
	double running_max;
	double queued;
	double ended; /* from here on: since the service started */
	double warm;
	double cold;
	double refused;
	double failed;
	double cached;
	double sessions;
	double memory_bytes;
	struct top_pool pools[TOP_POOLS_MAX];
	unsigned pools_count;
	json_t *metrics; /* as a list */
	json_t *runs;    /* lists of what the API tells; NULL if it does not */
	json_t *open_sessions;
	int64_t when_us;
	double when_s; /* by the calendar */
};

/* -1 with *e; *ret is empty then. */
int top_look(struct client *c, struct top_look *ret, struct err *e);
void top_look_free(struct top_look *look);

struct top_screen {
	const char *server;
	const char *problem; /* why what is shown is old; NULL: it is not */
	unsigned columns;    /* 0: as many as it takes */
	unsigned rows;       /* likewise */
};

/* Lines with "\n" at their ends, no control character otherwise. `before`, which may be NULL, tells how fast
 * things go. */
void top_view(const struct top_look *now, const struct top_look *before,
	const struct top_screen *screen, struct buf *ret);

#endif
