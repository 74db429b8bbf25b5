/* columns: a table for people. What is in it may come from outside: it is made plain. */
#ifndef HOTCELL_CLI_COLUMNS_H
#define HOTCELL_CLI_COLUMNS_H

#include "base/buf.h"

#include <stdio.h>

enum { COLUMNS_MAX = 12 };

struct columns {
	const char *heads[COLUMNS_MAX + 1]; /* NULL-terminated */
	char **cells;                       /* row by row */
	size_t count;                       /* of all cells */
};

/* One cell of the row that is being filled, from left to right. NULL: "-". */
void columns_add(struct columns *c, const char *text);
void columns_addf(struct columns *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line for each row, of at most `width` columns (0: as many as it takes). The last column is not
 * filled. */
void columns_write(const struct columns *c, unsigned width, size_t rows_max, struct buf *ret);
/* All of it, as it is, to stdout; and frees it. */
void columns_print(struct columns *c);
void columns_free(struct columns *c);

/* "3.4 MiB", "12 s", "3 min": into `ret`, which is given back. */
const char *columns_size(double bytes, char ret[32]);
const char *columns_span(double seconds, char ret[32]);

#endif
