/* tick: a timer that makes the processor leave the program now and then, so that other threads get
 * their turn and output gets out; and the rate of the time stamp counter. */
#ifndef HOTCELL_VMM_TICK_H
#define HOTCELL_VMM_TICK_H

#include <stdbool.h>
#include <stdint.h>

/* In every process anew: timers are not inherited. The signal is the handler's that signal_open()
 * has set; it calls tick_note(). */
void tick_open(void);
void tick_start(void);
void tick_stop(void);
void tick_note(void);
bool tick_happened(void); /* since the last time it was asked */

/* Nanoseconds of one count, as a fraction of 2^32. */
uint64_t tick_ns_per_tsc_32(void);
void tick_set_ns_per_tsc_32(uint64_t given);

enum { TICK_SIGNAL = 64, TICK_MAGIC = 0x7469636b };

#endif
