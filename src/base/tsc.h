/* tsc: how fast the processor's time stamp counter runs, from two looks at it and at the clock. */
#ifndef HOTCELL_BASE_TSC_H
#define HOTCELL_BASE_TSC_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t tsc_read(void)
{
	return __rdtsc();
}
#else
static inline uint64_t tsc_read(void)
{
	return 0; /* there are no machines of ours on others */
}
#endif

struct tsc_mark {
	uint64_t ns;
	uint64_t tsc;
};

/* Both at the same moment: of a few tries the one that took least, since any may be interrupted. */
static inline void tsc_mark(struct tsc_mark *ret)
{
	uint64_t best = UINT64_MAX;

	*ret = (struct tsc_mark){ 0 };
	for (int i = 0; i < 4; i++) {
		uint64_t before = tsc_read();
		struct timespec now;
		uint64_t took;

		clock_gettime(CLOCK_MONOTONIC, &now);
		took = tsc_read() - before;
		if (took >= best)
			continue;
		best = took;
		ret->ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
		ret->tsc = before + took / 2;
	}
}

/* Nanoseconds for each step of the counter, times 2^32; 0 if `from` is less than `least_ns` ago. */
static inline uint64_t tsc_rate_32(const struct tsc_mark *from, uint64_t least_ns)
{
	struct tsc_mark now;

	tsc_mark(&now);
	if (now.ns - from->ns < least_ns || now.tsc <= from->tsc)
		return 0;
	return (uint64_t)(((unsigned __int128)(now.ns - from->ns) << 32) / (now.tsc - from->tsc));
}

#endif
