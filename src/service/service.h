/* service: what lives between HTTP and the engine: who asks, what may run now, in which cell, and what became
 * of it.
 *
 *	api ──▶ job ──▶ check ──▶ admission ──▶ a cell: pool's or session's ──▶ engine ──▶ store ──▶ api
 *	        who     a program  a place       one that waits                 runs it   its files  answers
 *	        asks    may refuse
 *
 * All of it belongs to the loop's thread. */
#ifndef HOTCELL_SERVICE_SERVICE_H
#define HOTCELL_SERVICE_SERVICE_H

#include "config/config.h"
#include "hotcell.h"
#include "service/admission.h"
#include "service/cache.h"
#include "service/check.h"
#include "service/engine.h"
#include "service/metrics.h"
#include "service/pool.h"
#include "service/runs.h"
#include "service/sessions.h"
#include "store/store.h"

#include <uv.h>

struct service {
	uv_loop_t *loop;
	const struct config *config;
	struct config *own_config; /* the same, if it was set later */
	struct store *store;
	struct engines engines;
	struct hotcell_limits limits; /* what a run has that asks for none */
	struct admission admission;
	struct pools pools;
	struct sessions sessions;
	struct runs runs;
	struct cache cache;
	struct checks checks;
	struct metrics metrics;
	uv_poll_t store_poll;
	uv_timer_t second; /* what is done every second */
	uint64_t seconds;  /* that it has run */
	bool is_draining;  /* nothing new is taken */
	int (*start_warden)(
		void *context, const char *isolation, int *ret_socket, struct hotcell_error *e);
	bool has_kvm;
	char *share_dir;
	void *context; /* of start_warden */
};

struct service_options {
	uv_loop_t *loop;
	const struct config *config; /* stays the caller's */
	int (*start_warden)(
		void *context, const char *isolation, int *ret_socket, struct hotcell_error *e);
	bool has_kvm;
	const char *share_dir; /* has languages/ */
	void *context;
};

/* Opens store and engine, and begins to warm up. */
int service_open(const struct service_options *options, struct service *s, struct err *e);
/* Other settings from now on (takes them): what is not fixed once it listens. */
void service_set_config(struct service *s, struct config *config);
/* Refuses what is new from now on. service_is_idle() tells when all is done. */
void service_drain(struct service *s);
bool service_is_idle(const struct service *s);
/* Cancels what still runs; whoever waits for it gets its answer. */
void service_break_off(struct service *s);
/* Abandons what still runs, ends sessions, writes what waits. */
void service_close(struct service *s);
/* Whether it can serve as it should: "" or why not. */
const char *service_not_ready(struct service *s);
/* What a run has that asks for nothing. */
void service_default_limits(const struct config *c, struct hotcell_limits *ret);
/* What of these is more or less than that; 0 for what is not. (A session has them all, asked for or not.) */
struct hotcell_limits service_limits_beyond(
	const struct service *s, const struct hotcell_limits *l);
double service_now_s(void); /* since 1970 */

#endif
