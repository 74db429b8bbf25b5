/* timer: any number of them on one descriptor of the engine.
 *
 * Almost every run ends long before its time does. So the descriptor is only ever set to an earlier
 * moment: it may go off when nobody waits for that any more, and is then set to the next one. A run
 * that starts behind another costs no system call here. */
#ifndef HOTCELL_ENGINE_TIMER_H
#define HOTCELL_ENGINE_TIMER_H

#include <stdint.h>

struct hotcell;

struct timer {
	void (*on_time)(struct timer *timer);
	int64_t due_us;
	struct timer *next;
	struct timer **link; /* what points to it; NULL: it is not running */
};

int timers_open(struct hotcell *h);
/* Once, in `ms`; if it is running already, then instead of that. */
void timer_start(struct hotcell *h, struct timer *timer, uint64_t ms);
void timer_stop(struct hotcell *h, struct timer *timer);

#endif
