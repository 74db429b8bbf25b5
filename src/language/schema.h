/* schema: one YAML file as a struct language. For registry.c; others use language.h. */
#ifndef HOTCELL_LANGUAGE_SCHEMA_H
#define HOTCELL_LANGUAGE_SCHEMA_H

#include "language/language.h"

/* The largest file, list and text that are read. */
enum {
	SCHEMA_MAX_FILE = 64 * 1024,
	SCHEMA_MAX_ENTRIES = 64,
	SCHEMA_MAX_CANDIDATES = 16,
	SCHEMA_MAX_TEXT = 4096,
};

/* NULL with *e "path:line: key: what is wrong". */
struct language *schema_load(const char *path, struct err *e);
void schema_free(struct language *l); /* NULL is fine */

/* What the schema cannot say: whether the values make sense (check.c). `text` is the file, in which
 * lines for error messages are looked up. 0, or -1 with *e as above. */
int check_language(const struct language *l, const char *path, const char *text, struct err *e);

#endif
