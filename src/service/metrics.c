#include "service/service.h"

#include "base/own.h"
#include "service/job.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Upper bounds, from a tenth of a millisecond to a minute. */
static const uint64_t bounds_us[METRICS_BUCKETS] = { 100, 250, 500, 1000, 2500, 5000, 10000, 25000,
	50000, 100000, 250000, 500000, 1000000, 5000000, 15000000, 60000000 };

struct counter {
	char *language;
	char *isolation;
	const char *reason;
	uint64_t count;
	struct histogram latency;
};

static void observe(struct histogram *h, uint64_t us)
{
	int i = 0;

	while (i < METRICS_BUCKETS && us > bounds_us[i])
		i++;
	h->buckets[i]++;
	h->count++;
	h->sum_us += us;
}

static struct counter *find(
	struct map *map, const char *language, const char *isolation, const char *reason)
{
	auto_free char *key = xasprintf("%s\n%s\n%s", language, isolation, reason);
	struct counter *c = map_get(map, key);

	if (c)
		return c;
	c = xalloc(sizeof(*c));
	c->language = xstrdup(language);
	c->isolation = xstrdup(isolation);
	c->reason = reason;
	map_put(map, key, c);
	return c;
}

static void free_all(struct map *map)
{
	size_t at = 0;
	struct counter *c;

	while ((c = map_next(map, &at))) {
		free(c->language);
		free(c->isolation);
		free(c);
	}
	map_free(map);
}

void metrics_count_run(struct metrics *m, const struct job *job)
{
	const struct hotcell_result *r = job->result;

	if (job->started_us)
		observe(&m->queue, (uint64_t)(job->started_us - job->submitted_us));
	if (!r) {
		m->failed++;
		return;
	}
	find(&m->runs, r->language, r->isolation, hotcell_reason_name(r->reason))->count++;
	observe(&find(&m->latency, r->language, r->isolation, "")->latency,
		(uint64_t)(job->ended_us - job->submitted_us));
	m->warm += r->warm != 0;
	m->cold += r->warm == 0;
}

/* ---- as text ---- */

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_addf(b, "# HELP hotcell_%s %s\n# TYPE hotcell_%s %s\n", name, help, name, type);
}

static void number(
	struct buf *b, const char *name, const char *type, const char *help, uint64_t value)
{
	head(b, name, type, help);
	buf_addf(b, "hotcell_%s %llu\n", name, (unsigned long long)value);
}

static void write_histogram(
	struct buf *b, const char *name, const char *labels, const struct histogram *h)
{
	uint64_t sum = 0;
	const char *comma = *labels ? "," : "";

	for (int i = 0; i < METRICS_BUCKETS; i++) {
		sum += h->buckets[i];
		buf_addf(b, "hotcell_%s_bucket{%s%sle=\"%g\"} %llu\n", name, labels, comma,
			(double)bounds_us[i] / 1e6, (unsigned long long)sum);
	}
	buf_addf(b, "hotcell_%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
		(unsigned long long)h->count);
	buf_addf(b, "hotcell_%s_sum%s%s%s %.6f\n", name, *labels ? "{" : "", labels,
		*labels ? "}" : "", (double)h->sum_us / 1e6);
	buf_addf(b, "hotcell_%s_count%s%s%s %llu\n", name, *labels ? "{" : "", labels,
		*labels ? "}" : "", (unsigned long long)h->count);
}

static int compare(const void *one, const void *other)
{
	const struct counter *a = *(const struct counter *const *)one;
	const struct counter *b = *(const struct counter *const *)other;
	int order = strcmp(a->language, b->language);

	if (!order)
		order = strcmp(a->isolation, b->isolation);
	return order ? order : strcmp(a->reason, b->reason);
}

/* A map has another order each time, and people would see lines jump. To be freed. */
static struct counter **sort(const struct map *map)
{
	struct counter **sorted = xalloc((map->count + 1) * sizeof(struct counter *));
	struct counter *c;
	size_t count = 0;
	size_t at = 0;

	while ((c = map_next(map, &at)))
		sorted[count++] = c;
	qsort(sorted, count, sizeof(struct counter *), compare);
	return sorted;
}

/* `label` is what a counter's reason is called. */
static void write_counters(
	struct buf *b, const char *name, const char *label, const struct map *counters)
{
	auto_free struct counter **sorted = sort(counters);

	for (struct counter **c = sorted; *c; c++)
		buf_addf(b, "hotcell_%s{language=\"%s\",isolation=\"%s\",%s=\"%s\"} %llu\n", name,
			(*c)->language, (*c)->isolation, label, (*c)->reason,
			(unsigned long long)(*c)->count);
}

static void write_runs(const struct metrics *m, struct buf *b)
{
	auto_free struct counter **latencies = sort(&m->latency);

	head(b, "runs_total", "counter", "Runs that have ended.");
	write_counters(b, "runs_total", "reason", &m->runs);
	head(b, "run_seconds", "histogram", "From request to result.");
	for (struct counter **c = latencies; *c; c++) {
		auto_free char *labels = xasprintf(
			"language=\"%s\",isolation=\"%s\"", (*c)->language, (*c)->isolation);

		write_histogram(b, "run_seconds", labels, &(*c)->latency);
	}
	head(b, "queue_seconds", "histogram", "That runs waited for a place.");
	write_histogram(b, "queue_seconds", "", &m->queue);
}

static const char *isolation_name(enum hotcell_isolation isolation)
{
	static const char *const names[] = { "auto", "process", "container", "vm" };

	return names[isolation];
}

static void add_pool(struct map *sums, const struct pool *pool)
{
	const char *isolation = isolation_name(pool->wish.isolation);
	auto_free char *name = xasprintf("%s\",profile=\"%s", pool->wish.language,
		pool->wish.profile ? pool->wish.profile : "");

	find(sums, name, isolation, "idle")->count += pool_count_idle(pool);
	find(sums, name, isolation, "busy")->count += pool->busy;
}

static void write_pools(const struct service *s, struct buf *b)
{
	struct map sums = { 0 };
	size_t at = 0;
	const struct pool *pool;

	head(b, "pool_cells", "gauge", "Cells of pools.");
	/* Pools that differ in limits only are one here. */
	while ((pool = map_next(&s->pools.by_key, &at)))
		add_pool(&sums, pool);
	write_counters(b, "pool_cells", "state", &sums);
	free_all(&sums);
}

static size_t count_cells(const struct engines *engines, enum hotcell_isolation isolation)
{
	size_t count = hotcell_cells_count(engines->current->hotcell, isolation);

	if (engines->next)
		count += hotcell_cells_count(engines->next->hotcell, isolation);
	list_each(at, next, &engines->old)
	{
		count += hotcell_cells_count(
			container_of(at, struct engine, link)->hotcell, isolation);
	}
	return count;
}

static void write_cells(const struct service *s, struct buf *b)
{
	head(b, "cells", "gauge", "Cells that there are: of pools, sessions and runs.");
	for (int i = HOTCELL_ISOLATION_PROCESS; i <= HOTCELL_ISOLATION_VM; i++)
		buf_addf(b, "hotcell_cells{isolation=\"%s\"} %zu\n", isolation_name(i),
			count_cells(&s->engines, i));
}

static uint64_t own_memory(void)
{
	auto_fclose FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file || fscanf(file, "%*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void metrics_write(const struct service *s, struct buf *ret)
{
	const struct metrics *m = &s->metrics;
	struct buf *b = ret;

	write_runs(m, b);
	write_pools(s, b);
	write_cells(s, b);
	number(b, "runs_running", "gauge", "Runs that are going on.", s->admission.running);
	number(b, "runs_queued", "gauge", "Runs that wait for a place.", s->admission.queued);
	number(b, "runs_running_max", "gauge", "How many may run at one time.",
		s->admission.running_max);
	number(b, "runs_refused_total", "counter", "Runs that were refused for want of a place.",
		m->refused);
	number(b, "runs_failed_total", "counter", "Runs without a result.", m->failed);
	number(b, "runs_warm_total", "counter", "Runs that a warm cell has served.", m->warm);
	number(b, "runs_cold_total", "counter", "Runs that started cold.", m->cold);
	number(b, "runs_cached_total", "counter", "Requests that were answered from the cache.",
		m->cached);
	number(b, "sessions", "gauge", "Sessions that are open.", s->sessions.by_id.count);
	number(b, "http_requests_total", "counter", "Requests.", m->requests);
	number(b, "store_writes_queued", "gauge", "Writes that wait for the disk.",
		store_queued(s->store));
	number(b, "memory_bytes", "gauge", "Resident memory of the daemon.", own_memory());
}

void metrics_close(struct metrics *m)
{
	free_all(&m->runs);
	free_all(&m->latency);
}
