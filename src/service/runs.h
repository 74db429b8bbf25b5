/* runs: those that are going on, and those that ended a moment ago, with what they printed. Older ones are in
 * the store's history, without. */
#ifndef HOTCELL_SERVICE_RUNS_H
#define HOTCELL_SERVICE_RUNS_H

#include "base/list.h"
#include "base/map.h"

#include <stddef.h>

struct service;
struct job;

struct runs {
	struct service *service;
	struct map by_id;
	struct list ended; /* the oldest first */
	size_t ended_count;
	size_t ended_bytes;
};

void runs_open(struct runs *r, struct service *s);
void runs_close(struct runs *r);
void runs_add(struct runs *r, struct job *job);
/* It is done: remembered for a while, and in the history. */
void runs_end(struct runs *r, struct job *job);
/* Of this owner; NULL if there is none. */
struct job *runs_find(const struct runs *r, const char *id, const char *owner);
/* The service is to end: all of them are cancelled, and whoever waits for one gets its answer. */
void runs_cancel_all(struct runs *r);
/* It ends: none of them goes on, and nobody is told but the log and the history. */
void runs_abandon_all(struct runs *r);
/* Every second. */
void runs_tick(struct runs *r);

#endif
