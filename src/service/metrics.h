/* metrics: what is counted, and how it is told to Prometheus. */
#ifndef HOTCELL_SERVICE_METRICS_H
#define HOTCELL_SERVICE_METRICS_H

#include "base/buf.h"
#include "base/map.h"

#include <stdint.h>

struct service;
struct job;

enum { METRICS_BUCKETS = 16 };

struct histogram {
	uint64_t buckets[METRICS_BUCKETS + 1]; /* the last one: more than all */
	uint64_t count;
	uint64_t sum_us;
};

struct metrics {
	struct map runs;    /* by language, isolation and reason */
	struct map latency; /* by language and isolation */
	struct histogram queue;
	uint64_t refused;
	uint64_t failed;
	uint64_t cached;
	uint64_t requests; /* HTTP's */
	uint64_t cold;
	uint64_t warm;
};

void metrics_count_run(struct metrics *m, const struct job *job);
void metrics_write(const struct service *s, struct buf *ret);
void metrics_close(struct metrics *m);

#endif
