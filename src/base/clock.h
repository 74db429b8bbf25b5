/* clock: monotonic time in microseconds. */
#ifndef HOTCELL_BASE_CLOCK_H
#define HOTCELL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* For poll(): milliseconds until `deadline_us`, rounded up, never negative. */
static inline int clock_ms_until(int64_t deadline_us)
{
	int64_t left = deadline_us - clock_now_us();

	if (left <= 0)
		return 0;
	left = (left + 999) / 1000;
	return left > 1000000000 ? 1000000000 : (int)left;
}

#endif
