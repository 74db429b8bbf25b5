/* The file, one row a line, fields separated by tabs:
 *
 *	hotcell probes 1
 *	program  command  device  inode  size  changed  works  version
 *	...
 *	end
 *
 * "end" tells a whole file from one that a crash cut short. Tabs, line ends and backslashes within
 * a field are escaped. One row that cannot be read makes the whole file worthless: whatever wrote
 * it was not this code, and probing anew is cheap. */
#include "language/cache.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILE = 1024 * 1024, MAX_ROWS = 1024, MAX_VERSION = 200, FIELDS = 8 };

static const char file_name[] = "probes";
static const char first_line[] = "hotcell probes 1";
static const char last_line[] = "end";

/* What makes a program the same file. The change time cannot be set back by its owner. */
struct identity {
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	uint64_t changed_ns;
};

struct row {
	char *program;
	char *command;
	struct identity identity;
	bool works;
	char *version;
};

struct probe_cache {
	char *dir; /* NULL = nothing is kept */
	struct row *rows;
	unsigned count;
	bool changed;
};

static bool identity_of(const char *program, struct identity *ret)
{
	struct stat st;

	if (stat(program, &st))
		return false;
	*ret = (struct identity){
		.device = st.st_dev,
		.inode = st.st_ino,
		.size = (uint64_t)st.st_size,
		.changed_ns =
			(uint64_t)st.st_ctim.tv_sec * 1000000000 + (uint64_t)st.st_ctim.tv_nsec,
	};
	return true;
}

static bool is_current(const struct row *row)
{
	struct identity now;

	return identity_of(row->program, &now) && now.device == row->identity.device &&
	       now.inode == row->identity.inode && now.size == row->identity.size &&
	       now.changed_ns == row->identity.changed_ns;
}

static void row_free(struct row *row)
{
	free(row->program);
	free(row->command);
	free(row->version);
}

static void drop_rows(struct probe_cache *c)
{
	for (unsigned i = 0; i < c->count; i++)
		row_free(&c->rows[i]);
	c->count = 0;
}

static struct row *find_row(struct probe_cache *c, const char *program, const char *command)
{
	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->rows[i].program, program) == 0 &&
			strcmp(c->rows[i].command, command) == 0)
			return &c->rows[i];
	return NULL;
}

static struct row *add_row(struct probe_cache *c)
{
	c->rows = xgrow(c->rows, (c->count + 1) * sizeof(*c->rows));
	return &c->rows[c->count++];
}

static void add_escaped(struct buf *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '\t':
			buf_add_str(out, "\\t");
			break;
		case '\n':
			buf_add_str(out, "\\n");
			break;
		case '\\':
			buf_add_str(out, "\\\\");
			break;
		default:
			buf_add(out, text, 1);
		}
	}
}

/* In place: the result is never longer. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && text[1]) {
			text++;
			*to++ = *text == 't' ? '\t' : *text == 'n' ? '\n' : *text;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static bool parse_number(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return isdigit((unsigned char)text[0]) && !*end && !errno;
}

static bool parse_row(struct probe_cache *c, char *line)
{
	char *field[FIELDS];
	struct identity id;
	uint64_t works;
	struct row *row;

	for (int i = 0; i < FIELDS; i++)
		field[i] = strsep(&line, "\t");
	if (!field[FIELDS - 1] || line || c->count >= MAX_ROWS)
		return false;
	if (!parse_number(field[2], &id.device) || !parse_number(field[3], &id.inode) ||
		!parse_number(field[4], &id.size) || !parse_number(field[5], &id.changed_ns) ||
		!parse_number(field[6], &works) || works > 1)
		return false;
	unescape(field[0]);
	unescape(field[1]);
	unescape(field[7]);
	row = add_row(c);
	*row = (struct row){
		.program = xstrdup(field[0]),
		.command = xstrdup(field[1]),
		.identity = id,
		.works = works,
		.version = xstrdup(field[7]),
	};
	return true;
}

static bool parse(struct probe_cache *c, char *text)
{
	char *line = strsep(&text, "\n");

	if (strcmp(line, first_line) != 0)
		return false;
	while ((line = strsep(&text, "\n"))) {
		if (strcmp(line, last_line) == 0)
			return text && !*text;
		if (!parse_row(c, line))
			return false;
	}
	return false;
}

/* Whoever may write this file decides which programs we take for working ones. */
static bool is_trusted(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 && st.st_size <= MAX_FILE;
}

static void load(struct probe_cache *c)
{
	auto_free char *path = path_join(c->dir, file_name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	auto_free char *text = NULL;
	struct stat st;

	if (fd < 0 || !is_trusted(fd) || fstat(fd, &st))
		return;
	text = xalloc((size_t)st.st_size + 1);
	if (fd_read_all(fd, text, (size_t)st.st_size) || strlen(text) != (size_t)st.st_size)
		return;
	if (!parse(c, text))
		drop_rows(c);
}

static void write_row(struct buf *out, const struct row *row)
{
	add_escaped(out, row->program);
	buf_add_str(out, "\t");
	add_escaped(out, row->command);
	buf_addf(out, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%d\t",
		row->identity.device, row->identity.inode, row->identity.size,
		row->identity.changed_ns, row->works);
	add_escaped(out, row->version);
	buf_add_str(out, "\n");
}

/* Errors are not told: the next run probes again. */
static void save(const struct probe_cache *c)
{
	auto_free char *path = path_join(c->dir, file_name);
	auto_free char *temporary = xasprintf("%s.XXXXXX", path);
	auto_buf struct buf out = { 0 };
	auto_close int fd = -1;

	buf_addf(&out, "%s\n", first_line);
	for (unsigned i = 0; i < c->count; i++)
		if (is_current(&c->rows[i]))
			write_row(&out, &c->rows[i]);
	buf_addf(&out, "%s\n", last_line);
	path_make_private(c->dir);
	fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
	if (fd < 0)
		return;
	if (fd_write_all(fd, out.data, out.len) || rename(temporary, path))
		unlink(temporary);
}

struct probe_cache *probe_cache_open(const char *dir)
{
	struct probe_cache *c = xalloc(sizeof(*c));

	if (dir && dir[0]) {
		c->dir = xstrdup(dir);
		load(c);
	}
	return c;
}

void probe_cache_close(struct probe_cache *c)
{
	if (!c)
		return;
	if (c->changed && c->dir)
		save(c);
	drop_rows(c);
	free(c->rows);
	free(c->dir);
	free(c);
}

bool probe_cache_get(struct probe_cache *c, const char *program, const char *command,
	bool *ret_works, const char **ret_version)
{
	const struct row *row = find_row(c, program, command);

	if (!row || !is_current(row))
		return false;
	*ret_works = row->works;
	*ret_version = row->version;
	return true;
}

void probe_cache_set(struct probe_cache *c, const char *program, const char *command, bool works,
	const char *version)
{
	struct row *row = find_row(c, program, command);
	struct row fresh = { .works = works };

	if (!identity_of(program, &fresh.identity))
		return;
	fresh.program = xstrdup(program);
	fresh.command = xstrdup(command);
	fresh.version = xasprintf("%.*s", MAX_VERSION, version ? version : "");
	if (row)
		row_free(row);
	else if (c->count < MAX_ROWS)
		row = add_row(c);
	if (row)
		*row = fresh;
	else
		row_free(&fresh);
	c->changed = true;
}
