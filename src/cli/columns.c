#include "cli/columns.h"

#include "base/own.h"
#include "cli/plain.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

enum { GAP = 2, CELL_WIDTH_MAX = 60 };

static size_t count_heads(const struct columns *c)
{
	size_t count = 0;

	while (c->heads[count])
		count++;
	return count;
}

void columns_add(struct columns *c, const char *text)
{
	c->cells = xgrow(c->cells, (c->count + 1) * sizeof(*c->cells));
	c->cells[c->count++] = plain_text(text && *text ? text : "-");
}

void columns_addf(struct columns *c, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	columns_add(c, text);
}

static unsigned width_of_column(const struct columns *c, size_t column, size_t rows)
{
	size_t count = count_heads(c);
	unsigned widest = plain_width(c->heads[column]);

	for (size_t i = 0; i < rows; i++) {
		unsigned width = plain_width(c->cells[i * count + column]);

		if (width > widest)
			widest = width;
	}
	return widest > CELL_WIDTH_MAX ? CELL_WIDTH_MAX : widest;
}

static void write_row(const char *const *cells, const unsigned *widths, size_t count, unsigned most,
	struct buf *ret)
{
	auto_buf struct buf line = { 0 };

	for (size_t i = 0; i < count; i++) {
		if (i + 1 == count)
			buf_add_str(&line, cells[i]);
		else
			plain_add_padded(&line, cells[i], widths[i] + GAP);
	}
	if (most && plain_width(line.data) > most) {
		plain_add_padded(ret, line.data, most);
	} else {
		buf_add(ret, line.data, line.len);
	}
	buf_add(ret, "\n", 1);
}

void columns_write(const struct columns *c, unsigned width, size_t rows_max, struct buf *ret)
{
	size_t count = count_heads(c);
	size_t rows = count ? c->count / count : 0;
	unsigned widths[COLUMNS_MAX] = { 0 };

	if (rows > rows_max)
		rows = rows_max;
	for (size_t i = 0; i < count; i++)
		widths[i] = width_of_column(c, i, rows);
	write_row(c->heads, widths, count, width, ret);
	for (size_t i = 0; i < rows; i++)
		write_row((const char *const *)c->cells + i * count, widths, count, width, ret);
}

void columns_print(struct columns *c)
{
	auto_buf struct buf text = { 0 };

	columns_write(c, 0, SIZE_MAX, &text);
	fwrite(text.data, 1, text.len, stdout);
	columns_free(c);
}

void columns_free(struct columns *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->cells[i]);
	free(c->cells);
	c->cells = NULL;
	c->count = 0;
}

const char *columns_size(double bytes, char ret[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;

	while (bytes >= 1024 && i + 1 < COUNT(units)) {
		bytes /= 1024;
		i++;
	}
	snprintf(ret, 32, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
	return ret;
}

const char *columns_span(double seconds, char ret[32])
{
	if (seconds < 0)
		seconds = 0;
	if (seconds < 120)
		snprintf(ret, 32, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(ret, 32, "%.0f min", seconds / 60);
	else if (seconds < 172800)
		snprintf(ret, 32, "%.0f h", seconds / 3600);
	else
		snprintf(ret, 32, "%.0f d", seconds / 86400);
	return ret;
}
