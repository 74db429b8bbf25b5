#include "config/file.h"

#include "base/fd.h"
#include "base/near.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <yaml.h>

struct parser {
	const struct file *file;
	yaml_parser_t yaml;
	yaml_event_t event; /* the last one; type 0 if none is held */
	unsigned line;      /* of it, from 1 */
	bool seen[CONFIG_ROWS];
};

static void parser_free(struct parser *p)
{
	yaml_event_delete(&p->event);
	yaml_parser_delete(&p->yaml);
}

static int broken(const struct parser *p, const char *what, struct err *e)
{
	return err_set(e, ERR_INPUT, "%s:%u: %s", p->file->name, p->line, what);
}

static int next(struct parser *p, struct err *e)
{
	yaml_event_delete(&p->event);
	if (!yaml_parser_parse(&p->yaml, &p->event)) {
		/* The reader knows no lines; it complains about bytes that are not UTF-8. */
		p->line = p->yaml.error == YAML_READER_ERROR ?
				  (unsigned)p->yaml.mark.line + 1 :
				  (unsigned)p->yaml.problem_mark.line + 1;
		return broken(p, p->yaml.problem ? p->yaml.problem : "broken YAML", e);
	}
	p->line = (unsigned)p->event.start_mark.line + 1;
	return 0;
}

static int expect(struct parser *p, yaml_event_type_t type, const char *else_say, struct err *e)
{
	if (next(p, e))
		return -1;
	return p->event.type == type ? 0 : broken(p, else_say, e);
}

/* The text of a scalar, valid until the next event. */
static const char *scalar(struct parser *p, struct err *e)
{
	const char *text = (const char *)p->event.data.scalar.value;

	if (p->event.data.scalar.tag) {
		broken(p, "tags (!) mean nothing here", e);
		return NULL;
	}
	if (strlen(text) != p->event.data.scalar.length) {
		broken(p, "a text has NUL bytes", e);
		return NULL;
	}
	return text;
}

static bool is_null(const struct parser *p, const char *text)
{
	return p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

/* ---- names ---- */

static int unknown(const struct parser *p, const char *name, struct err *e)
{
	auto_free char *typed = xstrdup(name);
	struct near near = { .typed = typed };

	for (char *at = typed; *at; at++)
		if (*at == '-')
			*at = '_'; /* as flags have them */
	for (int i = 0; i < CONFIG_ROWS; i++)
		near_offer(&near, config_rows[i].name);
	return err_set(e, ERR_INPUT, "%s:%u: unknown setting '%.60s'%s%s%s", p->file->name, p->line,
		name, near.best ? "; did you mean '" : "", near.best ? near.best : "",
		near.best ? "'?" : "");
}

static const struct config_row *take_name(struct parser *p, struct err *e)
{
	const struct config_row *row;
	const char *name;

	if (p->event.type != YAML_SCALAR_EVENT) {
		broken(p, "want the name of a setting", e);
		return NULL;
	}
	name = scalar(p, e);
	if (!name)
		return NULL;
	row = config_find_row(name);
	if (!row) {
		unknown(p, name, e);
		return NULL;
	}
	if (p->seen[row - config_rows]) {
		err_set(e, ERR_INPUT, "%s:%u: '%s' is there twice", p->file->name, p->line, name);
		return NULL;
	}
	p->seen[row - config_rows] = true;
	return row;
}

/* ---- values ---- */

static int tell(struct parser *p, const struct config_row *row, const struct value *value,
	unsigned line, struct err *e)
{
	return p->file->on_setting(p->file->context, row, value, line, e);
}

static int take_scalar(struct parser *p, const struct config_row *row, struct err *e)
{
	struct value value = { .text = scalar(p, e), .in_file = true };

	if (!value.text)
		return -1;
	if (is_null(p, value.text))
		value.text = row->kind == CONFIG_LIST || row->kind == CONFIG_PATHS ? NULL : "";
	return tell(p, row, &value, p->line, e);
}

struct items {
	char *at[VALUE_LIST_MAX];
	size_t count;
};

static void items_free(struct items *items)
{
	for (size_t i = 0; i < items->count; i++)
		free(items->at[i]);
}

static int take_list(struct parser *p, const struct config_row *row, struct err *e)
{
	__attribute__((cleanup(items_free))) struct items items = { .count = 0 };
	struct value value = { .in_file = true };
	unsigned line = p->line;

	for (;;) {
		const char *text;

		if (next(p, e))
			return -1;
		if (p->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (p->event.type != YAML_SCALAR_EVENT)
			return broken(p, "want a text in this list", e);
		text = scalar(p, e);
		if (!text)
			return -1;
		if (items.count == VALUE_LIST_MAX)
			return broken(p, "this list is too long", e);
		items.at[items.count++] = xstrdup(text);
	}
	value.items = (const char *const *)items.at;
	value.count = items.count;
	return tell(p, row, &value, line, e);
}

static int take_value(struct parser *p, const struct config_row *row, struct err *e)
{
	if (next(p, e))
		return -1;
	switch (p->event.type) {
	case YAML_SCALAR_EVENT:
		return take_scalar(p, row, e);
	case YAML_SEQUENCE_START_EVENT:
		return take_list(p, row, e);
	case YAML_ALIAS_EVENT:
		/* A few lines of them can stand for gigabytes. */
		return broken(p, "aliases (*) are not taken", e);
	default:
		return broken(p, "want a value or a list of values", e);
	}
}

/* ---- the whole ---- */

static int take_settings(struct parser *p, struct err *e)
{
	for (;;) {
		const struct config_row *row;

		if (next(p, e))
			return -1;
		if (p->event.type == YAML_MAPPING_END_EVENT)
			return 0;
		row = take_name(p, e);
		if (!row || take_value(p, row, e))
			return -1;
	}
}

int file_parse(const struct file *f, struct err *e)
{
	__attribute__((cleanup(parser_free))) struct parser p = { .file = f, .line = 1 };

	if (!yaml_parser_initialize(&p.yaml))
		return broken(&p, "no memory to read it", e);
	yaml_parser_set_input_string(&p.yaml, (const unsigned char *)f->text, f->len);
	yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
	if (expect(&p, YAML_STREAM_START_EVENT, "broken YAML", e) || next(&p, e))
		return -1;
	if (p.event.type == YAML_STREAM_END_EVENT)
		return 0; /* nothing but remarks */
	if (next(&p, e))
		return -1;
	/* "---" and nothing behind it. */
	if (p.event.type == YAML_SCALAR_EVENT && p.event.data.scalar.length == 0)
		return expect(&p, YAML_DOCUMENT_END_EVENT, "want 'name: value'", e);
	if (p.event.type != YAML_MAPPING_START_EVENT)
		return broken(&p, "want 'name: value'", e);
	if (take_settings(&p, e) ||
		expect(&p, YAML_DOCUMENT_END_EVENT, "want one document only", e))
		return -1;
	return expect(&p, YAML_STREAM_END_EVENT, "want one document only", e);
}

/* Whoever can write it tells root's service what to run. */
static int check_owner(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_sys(e, "look at '%s'", path);
	/* The usual way to say: none. */
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return 0;
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, "'%s' is not a regular file", path);
	if (geteuid() != 0)
		return 0;
	if (st.st_uid != 0)
		return err_set(e, ERR_INPUT,
			"'%s' belongs to user %u, who could change it: chown root it", path,
			(unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, ERR_INPUT,
			"'%s' can be changed by others than root: chmod go-w it", path);
	return 0;
}

int file_read(const char *path, struct buf *ret, struct err *e)
{
	/* Not to wait for the other end of a fifo. */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	if (check_owner(fd, path, e))
		return -1;
	for (;;) {
		ssize_t n = read(fd, buf_reserve(ret, 65536), 65536);

		if (n < 0)
			return err_sys(e, "read '%s'", path);
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
		if (ret->len > FILE_MAX_BYTES)
			return err_set(
				e, ERR_LIMIT, "'%s' is larger than %d bytes", path, FILE_MAX_BYTES);
	}
}
