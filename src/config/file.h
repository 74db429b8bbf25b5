/* file: a YAML file of settings: one mapping from names to values or lists of values. */
#ifndef HOTCELL_CONFIG_FILE_H
#define HOTCELL_CONFIG_FILE_H

#include "base/buf.h"
#include "config/value.h"

enum { FILE_MAX_BYTES = 256 * 1024 };

/* Called for each setting in the order of the file; -1 with *e ends it. */
typedef int file_on_setting(void *context, const struct config_row *row, const struct value *value,
	unsigned line, struct err *e);

/* `name` is for messages: "NAME:12: unknown setting 'prot'; did you mean 'port'?" */
struct file {
	const char *name;
	const char *text;
	size_t len;
	file_on_setting *on_setting;
	void *context;
};

int file_parse(const struct file *f, struct err *e);

/* Its bytes. When we are root, a file that somebody else can change is refused. */
int file_read(const char *path, struct buf *ret, struct err *e);

#endif
