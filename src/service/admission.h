/* admission: how many may run, who is next, and who is sent away.
 *
 * At most `running_max` at a time. The others wait in a queue for each owner; owners take turns, so that one who
 * asks for a thousand runs does not keep the others waiting. */
#ifndef HOTCELL_SERVICE_ADMISSION_H
#define HOTCELL_SERVICE_ADMISSION_H

#include "base/list.h"
#include "base/map.h"

#include <stdbool.h>
#include <stdint.h>

struct service;
struct job;
struct caller;

struct admission {
	struct service *service;
	unsigned running_max;
	unsigned running;
	unsigned queued;
	unsigned queue_max;
	struct map owners;   /* who has anything queued, or has run something this minute */
	struct list waiting; /* owners with a queue, in turn */
};

void admission_open(struct admission *a, struct service *s);
/* As the config says. */
void admission_set_limits(struct admission *a);
void admission_close(struct admission *a);
/* Starts it, or queues it. False: it is refused, and job_fail() was called. */
void admission_enter(struct admission *a, struct job *job);
/* One that was started has ended: the next one's turn. */
void admission_leave(struct admission *a);
/* One that waits will not be started. */
void admission_forget(struct admission *a, struct job *job);
/* Whether this caller may have another run this minute, counting it; *ret_wait_s: else after so long. */
bool admission_count_run(
	struct admission *a, const struct caller *caller, unsigned runs, unsigned *ret_wait_s);
/* Every second: those that have waited too long, owners that are gone. */
void admission_tick(struct admission *a);
/* How long one who is sent away should stay away. */
unsigned admission_retry_after_s(const struct admission *a);

#endif
