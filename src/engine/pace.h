/* pace: whether machines are made so fast that there is no time to spare.
 *
 * A machine for one run takes some milliseconds of a processor, and its rehearsal as much again. Where many are made, the
 * rehearsals of those that wait would take the processors from those that are waited for. */
#ifndef HOTCELL_ENGINE_PACE_H
#define HOTCELL_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PACE_STRETCH_US = 250000,
	PACE_MANY = 12, /* in that time, for each processor: a third of it, or more */
};

struct pace {
	int64_t since_us; /* this stretch of time */
	unsigned count;   /* in it */
	bool were_many;   /* in the one before */
};

/* Counts one more. Returns whether they are many. */
bool pace_count(struct pace *p, int64_t now_us, unsigned processors);

#endif
