/* pool: cells that wait, made ahead of need. One pool for each (language, isolation, profile, limits).
 *
 * A pool keeps as many spare cells as were in use at one time lately, and one more each time that somebody found none:
 * at least pool_min for those that the config lists, and at most pool_max. They are made in the background: a few at a
 * time while nobody has run anything for a moment, else one after another, and each after some patience.
 *
 * A warm machine of a vm goes back after a run and serves the same owner again (reuse); for another owner it is
 * replaced. Every other cell serves once. Where none is ready, a machine that is being made is waited for, since
 * that takes less than a start without one; but a program in a container starts cold then, in a cell of its own: to warm
 * a driver takes longer, and who is being warmed is left to it. */
#ifndef HOTCELL_SERVICE_POOL_H
#define HOTCELL_SERVICE_POOL_H

#include "base/list.h"
#include "base/map.h"
#include "hotcell.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct service;
struct engine;

struct pool_wish {
	const char *language; /* its id */
	enum hotcell_isolation isolation;
	const char *profile; /* NULL: nothing warm */
	enum hotcell_network network;
	struct hotcell_limits limits;
	bool once; /* its machine serves one run only */
};

struct pool {
	char *key;
	struct engine *engine;
	struct pool_wish wish; /* owns its strings */
	struct list idle;      /* the one that was used last is first */
	unsigned idle_count;
	unsigned busy;
	unsigned busy_peak; /* in this window */
	unsigned misses;    /* in this window: nothing was ready */
	unsigned spare;     /* how many are to wait */
	bool is_listed;     /* the config wants it warm */
	bool is_dropped;    /* its engine is on its way out */
	unsigned deaths;    /* sweeps in a row that found dead ones, and none that was ready */
	bool is_broken;     /* they cannot be made, or die: not tried again in this window */
	bool was_warm;      /* once at least */
	int64_t last_used_us;
	int64_t refilled_us; /* when it was its turn */
};

struct pool_cell {
	struct list link;
	struct pool *pool;
	struct engine *engine;
	struct hotcell_cell *cell;
	char *owner; /* whose runs it has served; NULL: nobody's */
	unsigned runs;
	bool is_cold; /* though its pool's are not */
	int64_t begun_us;
};

struct pools {
	struct service *service;
	struct map by_key;
	uv_timer_t refill;
	bool is_refilling;
	struct list used; /* cells whose end can wait until the answers of their runs are sent */
	uv_timer_t end_used;
	int64_t last_taken_us;
	int64_t refill_due_us; /* when patience ends; 0: nothing is lacking */
	bool is_closed;
	int64_t window_us; /* when the window began */
};

void pools_open(struct pools *p, struct service *s);
void pools_close(struct pools *p);
/* A cell for it: one that waits, else a new one. NULL with *e if none can be made. */
struct pool_cell *pool_take(struct pools *p, struct engine *n, const struct pool_wish *wish,
	const char *owner, struct hotcell_error *e);
/* Back after a run; `again` if it may serve another one. */
void pool_give(struct pool_cell *cell, bool again);
/* Keeps some of these from now on. */
void pool_list(struct pools *p, struct engine *n, const struct pool_wish *wish);
/* Every second. */
void pools_tick(struct pools *p);
/* How many wait, without those that are dead and not swept away yet. */
unsigned pool_count_idle(const struct pool *pool);
/* Whether every listed pool has had a cell that waits. */
bool pools_are_warm(struct pools *p);
/* Ends all cells of an engine. */
void pools_drop(struct pools *p, const struct engine *n);

#endif
