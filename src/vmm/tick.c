#include "vmm/tick.h"

#include "base/tsc.h"

#include <signal.h>
#include <time.h>

enum { TICK_NS = 10000000, MEASURE_NS = 2000000 };

static volatile sig_atomic_t happened;
static timer_t timer;
static uint64_t rate;

void tick_open(void)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = TICK_SIGNAL,
		.sigev_value.sival_int = TICK_MAGIC,
	};

	timer_create(CLOCK_MONOTONIC, &event, &timer);
}

void tick_start(void)
{
	const struct itimerspec every = {
		.it_interval.tv_nsec = TICK_NS,
		.it_value.tv_nsec = TICK_NS,
	};

	timer_settime(timer, 0, &every, NULL);
}

void tick_stop(void)
{
	const struct itimerspec never = { 0 };

	timer_settime(timer, 0, &never, NULL);
}

void tick_note(void)
{
	happened = 1;
}

bool tick_happened(void)
{
	bool did = happened;

	happened = 0;
	return did;
}

/* Whoever has had the time for it tells us. Else it is watched for a while. */
static uint64_t measure(void)
{
	struct tsc_mark start;
	uint64_t measured;

	tsc_mark(&start);
	do
		measured = tsc_rate_32(&start, MEASURE_NS);
	while (!measured);
	return measured;
}

uint64_t tick_ns_per_tsc_32(void)
{
	if (!rate)
		rate = measure();
	return rate;
}

void tick_set_ns_per_tsc_32(uint64_t given)
{
	rate = given;
}
