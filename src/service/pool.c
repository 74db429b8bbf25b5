#include "service/service.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"

#include <string.h>

enum {
	REFILL_MS = 5,
	REFILL_LATER_MS = 25,
	END_MS = 2,
	QUIET_US = 100000,
	PATIENCE_US = 1000000,
	MAKING_US = 10000000,
	DEATHS_MAX = 3,
	KEY_SIZE = 512
};

static void make_key(char *ret, const struct engine *n, const struct pool_wish *w)
{
	const struct hotcell_limits *l = &w->limits;

	snprintf(ret, KEY_SIZE, "%p %s %d %s %d %d %llu %llu %llu %llu %llu %llu", (const void *)n,
		w->language, w->isolation, w->profile ? w->profile : "-", w->once, w->network,
		(unsigned long long)l->memory_bytes, (unsigned long long)l->processes,
		(unsigned long long)l->disk_bytes, (unsigned long long)l->file_bytes,
		(unsigned long long)l->open_files, (unsigned long long)l->cpus_milli);
}

static struct pool *find(struct pools *p, struct engine *n, const struct pool_wish *wish)
{
	char key[KEY_SIZE];
	struct pool *pool;

	make_key(key, n, wish);
	pool = map_get(&p->by_key, key);
	if (pool)
		return pool;
	pool = xalloc(sizeof(*pool));
	pool->key = xstrdup(key);
	pool->engine = n;
	pool->wish = *wish;
	pool->wish.language = xstrdup(wish->language);
	pool->wish.profile = wish->profile ? xstrdup(wish->profile) : NULL;
	list_init(&pool->idle);
	map_put(&p->by_key, key, pool);
	return pool;
}

/* Whether its machines can serve more than one run. */
static bool is_reusable(const struct pool *pool)
{
	return pool->wish.isolation == HOTCELL_ISOLATION_VM && pool->wish.profile;
}

static unsigned pool_max(const struct pools *p)
{
	unsigned most = (unsigned)p->service->config->pool_max;

	return most ? most : p->service->admission.running_max * 2;
}

/* Whether it is a program that waits, not a machine. */
static bool has_drivers(const struct pool *pool)
{
	return pool->wish.isolation != HOTCELL_ISOLATION_VM && pool->wish.profile;
}

static struct pool_cell *make(struct pool *pool, bool is_cold, struct hotcell_error *e)
{
	struct hotcell_request q = {
		.language = pool->wish.language,
		.code = "",
		.isolation = pool->wish.isolation,
		.network = pool->wish.network,
		.limits = pool->wish.limits,
		.limits_default = &pool->engine->service->limits,
		.profile = is_cold ? NULL : pool->wish.profile,
		.cold = is_cold || !pool->wish.profile,
		.machine_ends = is_reusable(pool) && pool->wish.once,
	};
	struct pool_cell *cell = xalloc(sizeof(*cell));

	if (hotcell_cell_make(pool->engine->hotcell, &q, &cell->cell, e)) {
		free(cell);
		return NULL;
	}
	cell->pool = pool;
	cell->engine = pool->engine;
	cell->is_cold = is_cold;
	cell->begun_us = clock_now_us();
	list_init(&cell->link);
	engine_hold(pool->engine);
	return cell;
}

static void end(struct pool_cell *cell)
{
	struct engine *n = cell->engine;

	hotcell_cell_free(cell->cell);
	free(cell->owner);
	free(cell);
	engine_release(n);
}

static void end_used(struct pools *p)
{
	list_each(at, next, &p->used)
	{
		list_remove(at);
		end(container_of(at, struct pool_cell, link));
	}
}

static void on_end_used(uv_timer_t *timer)
{
	end_used(timer->data);
}

static void end_soon(struct pools *p, struct pool_cell *cell)
{
	if (p->is_closed) {
		end(cell);
		return;
	}
	if (list_is_empty(&p->used))
		uv_timer_start(&p->end_used, on_end_used, END_MS, 0);
	list_add_last(&p->used, &cell->link);
}

static void take_out(struct pool_cell *cell)
{
	list_remove(&cell->link);
	cell->pool->idle_count--;
}

static void put_in(struct pool_cell *cell)
{
	struct pool *pool = cell->pool;

	/* First: its pages are in the caches. */
	list_add_last(pool->idle.next, &cell->link);
	pool->idle_count++;
}

static void drop_idle(struct pool *pool)
{
	while (!list_is_empty(&pool->idle)) {
		struct pool_cell *cell = container_of(pool->idle.next, struct pool_cell, link);

		take_out(cell); /* NOLINT(clang-analyzer-unix.Malloc): what is in the list lives */
		end(cell);
	}
}

/* ---- taking and giving ---- */

/* Nothing was ready for somebody: one more is to wait from now on. */
static void note_miss(struct pool *pool)
{
	pool->misses++;
	if (pool->spare < pool_max(&pool->engine->service->pools))
		pool->spare++;
}

static bool is_same_owner(const struct pool_cell *cell, const char *owner)
{
	return cell->owner && strcmp(cell->owner, owner) == 0;
}

/* The owner's own, else one that nobody has had, rather one that is ready than one that is being made; else NULL.
 * What is gone is thrown away on the way. */
static struct pool_cell *choose(struct pool *pool, const char *owner)
{
	struct pool_cell *fresh = NULL;
	bool is_ready = false;

	list_each(at, next, &pool->idle)
	{
		struct pool_cell *cell = container_of(at, struct pool_cell, link);

		enum hotcell_cell_state state = hotcell_cell_state(cell->cell);
		bool suits = state == HOTCELL_CELL_READY || !has_drivers(pool);

		if (state == HOTCELL_CELL_GONE) {
			take_out(cell);
			end(cell);
		} else if (is_same_owner(cell, owner)) {
			return cell;
		} else if (!cell->owner && suits &&
			   (!fresh || (!is_ready && state == HOTCELL_CELL_READY))) {
			fresh = cell;
			is_ready = state == HOTCELL_CELL_READY;
		}
	}
	if (!is_ready)
		note_miss(pool);
	return fresh;
}

static void refill_soon(struct pools *p);
static void free_pool(struct pools *p, struct pool *pool);

struct pool_cell *pool_take(struct pools *p, struct engine *n, const struct pool_wish *wish,
	const char *owner, struct hotcell_error *e)
{
	struct pool *pool = find(p, n, wish);
	struct pool_cell *cell = choose(pool, owner);

	pool->last_used_us = p->last_taken_us = clock_now_us();
	if (cell) {
		take_out(cell);
	} else {
		/* Somebody else's makes room for a new one. */
		if (!has_drivers(pool) && !list_is_empty(&pool->idle)) {
			struct pool_cell *others =
				container_of(pool->idle.prev, struct pool_cell, link);

			take_out(others);
			end(others);
		}
		cell = make(pool, has_drivers(pool), e);
		if (!cell)
			return NULL;
	}
	pool->busy++;
	if (pool->busy > pool->busy_peak)
		pool->busy_peak = pool->busy;
	if (!cell->owner && is_reusable(pool) && !wish->once)
		cell->owner = xstrdup(owner);
	refill_soon(p);
	return cell;
}

void pool_give(struct pool_cell *cell, bool again)
{
	struct pool *pool = cell->pool;
	struct pools *p = &pool->engine->service->pools;
	const struct config *config = p->service->config;

	pool->busy--;
	cell->runs++;
	if (again && !pool->is_dropped && is_reusable(pool) &&
		(pool->wish.once || cell->runs < config->reuse_max) &&
		hotcell_cell_state(cell->cell) != HOTCELL_CELL_GONE)
		put_in(cell);
	else
		end_soon(p, cell);
	if (pool->is_dropped && !pool->busy)
		free_pool(p, pool);
	refill_soon(p);
}

void pool_list(struct pools *p, struct engine *n, const struct pool_wish *wish)
{
	struct pool *pool = find(p, n, wish);

	pool->is_listed = true;
	pool->spare = (unsigned)p->service->config->pool_min;
	refill_soon(p);
}

/* ---- refilling, in the background ---- */

static bool is_warm(struct pool *pool)
{
	if (!pool->is_listed || pool->is_broken || pool->is_dropped)
		return true;
	pool->was_warm |= pool->busy > 0;
	list_each(link, next, &pool->idle) pool->was_warm |=
		hotcell_cell_state(container_of(link, struct pool_cell, link)->cell) ==
		HOTCELL_CELL_READY;
	return pool->was_warm;
}

/* So many are to wait in it. */
static unsigned count_wanted(const struct pools *p, const struct pool *pool)
{
	unsigned wanted = pool->spare;

	/* Those of a reusable kind come back by themselves. */
	if (is_reusable(pool) && !pool->wish.once)
		wanted = wanted > pool->busy ? wanted - pool->busy : 0;
	if (pool->is_listed && wanted < p->service->config->pool_min)
		wanted = (unsigned)p->service->config->pool_min;
	return wanted < pool_max(p) ? wanted : pool_max(p);
}

static bool lacks_one(const struct pools *p, const struct pool *pool)
{
	return !pool->is_dropped && !pool->is_broken && pool->idle_count < count_wanted(p, pool);
}

/* Less than a third is left: who comes soon would find none, and start cold. */
static bool is_scarce(const struct pools *p, const struct pool *pool)
{
	return pool->idle_count * 3 < count_wanted(p, pool);
}

/* Those that the config wants and that have never been warm come first: the service is not ready without them. The others
 * take turns. */
static bool goes_before(const struct pools *p, struct pool *one, struct pool *other)
{
	if (is_warm(one) != is_warm(other))
		return !is_warm(one);
	if (is_scarce(p, one) != is_scarce(p, other))
		return is_scarce(p, one);
	return one->refilled_us < other->refilled_us;
}

static struct pool *next_to_refill(struct pools *p)
{
	struct pool *found = NULL;
	struct pool *pool;
	size_t at = 0;

	while ((pool = map_next(&p->by_key, &at)))
		if (lacks_one(p, pool) && (!found || goes_before(p, pool, found)))
			found = pool;
	return found;
}

static void refill_one(struct pool *pool)
{
	struct hotcell_error e;
	struct pool_cell *cell;

	pool->refilled_us = clock_now_us();
	cell = make(pool, false, &e);
	if (!cell) {
		pool->is_broken = true;
		log_warning("pool.failed", { "language", .text = pool->wish.language },
			{ "text", .text = e.text });
		return;
	}
	list_add_last(&pool->idle, &cell->link);
	pool->idle_count++;
}

/* One that does not come to an end with it does not keep others from being made. */
static bool is_in_making(const struct pool_cell *cell, int64_t now_us)
{
	return hotcell_cell_state(cell->cell) == HOTCELL_CELL_MAKING &&
	       now_us < cell->begun_us + MAKING_US;
}

static unsigned count_in_making(struct pools *p, int64_t now_us)
{
	unsigned count = 0;
	struct pool *pool;
	size_t at = 0;

	while ((pool = map_next(&p->by_key, &at)))
		list_each(link, next, &pool->idle) count +=
			is_in_making(container_of(link, struct pool_cell, link), now_us);
	return count;
}

/* What is made takes processors from those who run, and the warden's time from those who end. So it is put off until it is
 * quiet, as long as enough are left. */
static bool may_make(struct pools *p, const struct pool *pool)
{
	const struct admission *a = &p->service->admission;
	int64_t now_us = clock_now_us();
	bool is_quiet = !a->running && now_us >= p->last_taken_us + QUIET_US;
	bool is_urgent = is_quiet || is_scarce(p, pool);
	unsigned most = is_urgent && a->running_max > 2 ? a->running_max / 2 : 1;

	return (is_urgent || now_us >= p->refill_due_us) && count_in_making(p, now_us) < most;
}

static void refill_after(struct pools *p, uint64_t delay_ms);

static void on_refill(uv_timer_t *timer)
{
	struct pools *p = timer->data;
	struct pool *pool = next_to_refill(p);

	p->is_refilling = false;
	if (!pool) {
		p->refill_due_us = 0;
	} else if (may_make(p, pool)) {
		refill_one(pool);
		p->refill_due_us = 0;
		refill_soon(p);
	} else {
		refill_after(p, is_scarce(p, pool) ? REFILL_MS : REFILL_LATER_MS);
	}
}

static void refill_after(struct pools *p, uint64_t delay_ms)
{
	if (p->is_refilling || p->is_closed)
		return;
	p->is_refilling = true;
	if (!p->refill_due_us)
		p->refill_due_us = clock_now_us() + PATIENCE_US;
	uv_timer_start(&p->refill, on_refill, delay_ms, 0);
}

static void refill_soon(struct pools *p)
{
	refill_after(p, REFILL_MS);
}

/* ---- now and then ---- */

static void free_pool(struct pools *p, struct pool *pool)
{
	drop_idle(pool);
	map_remove(&p->by_key, pool->key);
	free(pool->key);
	free((char *)(uintptr_t)pool->wish.language);
	free((char *)(uintptr_t)pool->wish.profile);
	free(pool);
}

/* One that died by chance is replaced. Where all do, as where there are no vms, others would too. */
static void note_deaths(struct pool *pool, const char *why)
{
	if (++pool->deaths < DEATHS_MAX || pool->is_broken)
		return;
	pool->is_broken = true;
	log_warning("pool.failed", { "language", .text = pool->wish.language },
		{ "text", .text = why });
}

static void sweep(struct pool *pool)
{
	bool has_ready = false;
	char why[200] = "";

	list_each(at, next, &pool->idle)
	{
		struct pool_cell *cell = container_of(at, struct pool_cell, link);
		enum hotcell_cell_state state = hotcell_cell_state(cell->cell);

		has_ready |= state == HOTCELL_CELL_READY;
		if (state == HOTCELL_CELL_GONE) {
			snprintf(why, sizeof(why), "%s", hotcell_cell_failure(cell->cell));
			take_out(cell);
			end(cell);
		}
	}
	if (has_ready)
		pool->deaths = 0;
	else if (*why)
		note_deaths(pool, why);
}

unsigned pool_count_idle(const struct pool *pool)
{
	unsigned count = 0;

	list_each(at, next, &pool->idle) count +=
		hotcell_cell_state(container_of(at, struct pool_cell, link)->cell) !=
		HOTCELL_CELL_GONE;
	return count;
}

/* As many as were in use at one time in the window that ends. */
static void resize(struct pools *p, struct pool *pool)
{
	unsigned least = pool->is_listed ? (unsigned)p->service->config->pool_min : 0;
	unsigned wanted = pool->busy_peak > least ? pool->busy_peak : least;

	/* Where there were too few, what was added stays; where there were enough, one less will do. */
	if (pool->misses)
		wanted = pool->spare;
	else if (pool->spare > wanted + 1)
		wanted = pool->spare - 1;
	if (wanted > pool_max(p))
		wanted = pool_max(p);
	pool->spare = wanted;
	pool->misses = 0;
	pool->busy_peak = pool->busy;
	pool->is_broken = false;
	pool->deaths = 0;
	while (pool->idle_count > pool->spare) {
		struct pool_cell *cell = container_of(pool->idle.prev, struct pool_cell, link);

		take_out(cell); /* NOLINT(clang-analyzer-unix.Malloc): likewise */
		end(cell);
	}
}

void pools_tick(struct pools *p)
{
	int64_t now_us = clock_now_us();
	int64_t idle_us = (int64_t)p->service->config->pool_idle_s * 1000000;
	bool window_ends = now_us - p->window_us >= idle_us;
	struct pool *unused = NULL;
	size_t at = 0;
	struct pool *pool;

	while ((pool = map_next(&p->by_key, &at))) {
		sweep(pool);
		if (window_ends)
			resize(p, pool);
		if (!pool->is_listed && !pool->busy && !pool->idle_count &&
			now_us - pool->last_used_us > idle_us)
			unused = pool;
	}
	if (unused)
		free_pool(p, unused);
	if (window_ends)
		p->window_us = now_us;
	refill_soon(p);
}

bool pools_are_warm(struct pools *p)
{
	size_t at = 0;
	struct pool *pool;

	while ((pool = map_next(&p->by_key, &at)))
		if (!is_warm(pool))
			return false;
	return true;
}

void pools_open(struct pools *p, struct service *s)
{
	p->service = s;
	p->window_us = clock_now_us();
	uv_timer_init(s->loop, &p->refill);
	p->refill.data = p;
	list_init(&p->used);
	uv_timer_init(s->loop, &p->end_used);
	p->end_used.data = p;
}

/* Those that are busy end when they are given back, and the pool with the last of them. */
void pools_drop(struct pools *p, const struct engine *n)
{
	struct pool *pool;
	size_t at = 0;

	while ((pool = map_next(&p->by_key, &at))) {
		if (pool->engine != n)
			continue;
		pool->is_dropped = true;
		drop_idle(pool);
		if (pool->busy)
			continue;
		free_pool(p, pool);
		at = 0;
	}
}

void pools_close(struct pools *p)
{
	struct pool *pool;
	size_t at = 0;

	p->is_closed = true;
	uv_close((uv_handle_t *)&p->refill, NULL);
	uv_close((uv_handle_t *)&p->end_used, NULL);
	end_used(p);
	while ((pool = map_next(&p->by_key, &at))) {
		free_pool(p, pool);
		at = 0;
	}
	map_free(&p->by_key);
}
