/* value: the one gate for values of settings, wherever they come from. */
#ifndef HOTCELL_CONFIG_VALUE_H
#define HOTCELL_CONFIG_VALUE_H

#include "base/buf.h"
#include "config/table.h"

enum { VALUE_LIST_MAX = 256, VALUE_TEXT_MAX = 4000 };

struct value {
	const char *text; /* as it was typed; of a list: with commas. NULL: it is the items */
	const char *const *items; /* of a list in a file */
	size_t count;
	uint64_t scale; /* 0, or a number is meant, times this */
	bool in_file;   /* where relative paths would be relative to nothing in particular */
	bool append;    /* to the list that is there */
};

/* -1 with *e, which says what was wanted, and *c as it was. */
int value_set(
	struct config *c, const struct config_row *row, const struct value *value, struct err *e);
void value_free(struct config *c, const struct config_row *row);

/* "a number from 1 to 65535" */
void value_tell_want(const struct config_row *row, struct buf *ret);
/* As YAML that gives the same value again. */
void value_tell(const struct config *c, const struct config_row *row, struct buf *ret);

/* A text for which there was not even a default. */
bool value_is_missing(const struct config *c, const struct config_row *row);
uint64_t *value_number(struct config *c, const struct config_row *row);

#endif
