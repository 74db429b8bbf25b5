#include "cli/top.h"

#include "base/own.h"
#include "cli/columns.h"
#include "cli/plain.h"

#include <limits.h>
#include <stdarg.h>

enum { POOLS_SHOWN = 8, SESSIONS_SHOWN = 8, ALL_RUNS_SHOWN = 20, TITLE_ROWS = 3 };

/* What a part of the screen still has room for. */
struct room {
	unsigned columns;
	unsigned rows;
};

static void add_line(struct buf *ret, struct room *room, const char *text)
{
	auto_free char *plain = plain_text(text);

	if (!room->rows)
		return;
	room->rows--;
	if (room->columns && plain_width(plain) > room->columns)
		plain_add_padded(ret, plain, room->columns);
	else
		buf_add_str(ret, plain);
	buf_add(ret, "\n", 1);
}

__attribute__((format(printf, 3, 4))) static void add_linef(
	struct buf *ret, struct room *room, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	add_line(ret, room, text);
}

static double per_second(const struct top_look *now, const struct top_look *before)
{
	double seconds;

	/* The last: it has been started anew in between. */
	if (!before || now->when_us <= before->when_us || now->ended < before->ended)
		return 0;
	seconds = (double)(now->when_us - before->when_us) / 1e6;
	return (now->ended - before->ended) / seconds;
}

static void add_head(const struct top_look *now, const struct top_look *before,
	const struct top_screen *screen, struct room *room, struct buf *ret)
{
	double served = now->warm + now->cold;
	double idle = 0;
	double busy = 0;
	char memory[32];

	for (unsigned i = 0; i < now->pools_count; i++) {
		idle += now->pools[i].idle;
		busy += now->pools[i].busy;
	}
	if (screen->problem)
		add_linef(ret, room, "hotcell at %s: %s", screen->server, screen->problem);
	else
		add_linef(ret, room, "hotcell at %s", screen->server);
	add_linef(ret, room,
		"runs   %.0f of %.0f running, %.0f waiting, %.1f a second, %.0f in all, %.0f%% warm, "
		"%.0f refused, %.0f failed, %.0f cached",
		now->running, now->running_max, now->queued, per_second(now, before), now->ended,
		served > 0 ? 100 * now->warm / served : 0, now->refused, now->failed, now->cached);
	add_linef(ret, room, "cells  %.0f idle, %.0f busy; %.0f sessions; %s memory of the daemon",
		idle, busy, now->sessions, columns_size(now->memory_bytes, memory));
}

/* An empty line, and the table; nothing if there is nothing in it. */
static void add_table(
	const struct columns *table, size_t rows_max, struct room *room, struct buf *ret)
{
	size_t count = 0;
	size_t rows;

	while (table->heads[count])
		count++;
	rows = count ? table->count / count : 0;
	if (rows > rows_max)
		rows = rows_max;
	if (!rows || room->rows < TITLE_ROWS)
		return;
	if (rows > room->rows - 2)
		rows = room->rows - 2;
	room->rows -= (unsigned)rows + 2;
	buf_add(ret, "\n", 1);
	columns_write(table, room->columns, rows, ret);
}

static void add_pools(const struct top_look *now, struct room *room, struct buf *ret)
{
	struct columns table = { .heads = { "POOL", "PROFILE", "ISOLATION", "IDLE", "BUSY" } };

	for (unsigned i = 0; i < now->pools_count; i++) {
		const struct top_pool *pool = &now->pools[i];

		columns_add(&table, pool->language);
		columns_add(&table, pool->profile);
		columns_add(&table, pool->isolation);
		columns_addf(&table, "%.0f", pool->idle);
		columns_addf(&table, "%.0f", pool->busy);
	}
	add_table(&table, POOLS_SHOWN, room, ret);
	columns_free(&table);
}

static const char *text_of(json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static double number_of(json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

static void add_sessions(const struct top_look *now, struct room *room, struct buf *ret)
{
	struct columns table = { .heads = { "SESSION", "STATE", "LANGUAGE", "ISOLATION", "STRATEGY",
					 "RUNS", "LAST USED", "ENDS IN" } };
	char shown[32];

	for (size_t i = 0; i < json_array_size(now->open_sessions); i++) {
		json_t *o = json_array_get(now->open_sessions, i);
		json_t *config = json_object_get(o, "config");

		columns_add(&table, text_of(o, "session_id"));
		columns_add(&table, text_of(o, "state"));
		columns_add(&table, text_of(config, "language"));
		columns_add(&table, text_of(config, "isolation"));
		columns_add(&table, text_of(config, "strategy"));
		columns_addf(&table, "%.0f", number_of(o, "runs"));
		columns_add(
			&table, columns_span(now->when_s - number_of(o, "last_used_at"), shown));
		columns_add(&table, columns_span(number_of(o, "expires_at") - now->when_s, shown));
	}
	add_table(&table, SESSIONS_SHOWN, room, ret);
	columns_free(&table);
}

static void add_run(struct columns *table, json_t *o, double now_s)
{
	json_t *code = json_object_get(o, "exit_code");
	json_t *duration = json_object_get(o, "duration_ms");
	char shown[32];

	columns_add(table, text_of(o, "id"));
	columns_add(table, text_of(o, "state"));
	columns_add(table, text_of(o, "language"));
	columns_add(table, text_of(o, "isolation"));
	columns_add(table, text_of(o, "error") ? "failed" : text_of(o, "reason"));
	if (json_is_integer(code))
		columns_addf(table, "%lld", (long long)json_integer_value(code));
	else
		columns_add(table, NULL);
	if (json_is_number(duration))
		columns_addf(table, "%.1f", json_number_value(duration));
	else
		columns_add(table, NULL);
	if (json_object_get(o, "peak_memory_bytes"))
		columns_add(table, columns_size(number_of(o, "peak_memory_bytes"), shown));
	else
		columns_add(table, NULL);
	columns_add(table, columns_span(now_s - number_of(o, "submitted"), shown));
}

static void add_runs(const struct top_look *now, struct room *room, struct buf *ret)
{
	struct columns table = { .heads = { "RUN", "STATE", "LANGUAGE", "ISOLATION", "REASON",
					 "EXIT", "MS", "MEMORY", "AGE" } };

	for (size_t i = 0; i < json_array_size(now->runs); i++)
		add_run(&table, json_array_get(now->runs, i), now->when_s);
	add_table(&table, room->columns ? SIZE_MAX : ALL_RUNS_SHOWN, room, ret);
	columns_free(&table);
}

void top_view(const struct top_look *now, const struct top_look *before,
	const struct top_screen *screen, struct buf *ret)
{
	struct room room = {
		.columns = screen->columns,
		.rows = screen->rows ? screen->rows : UINT_MAX,
	};

	add_head(now, before, screen, &room, ret);
	add_pools(now, &room, ret);
	add_sessions(now, &room, ret);
	add_runs(now, &room, ret);
}
