#include "base/log.h"

#include "base/buf.h"
#include "base/json_text.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A line is at most this long: what comes from outside must not fill a disk, and a pipe takes this much in
 * one piece. TAIL of it is kept for what closes a line. */
enum { LINE = 4096, TAIL = 32 };

struct line {
	char text[LINE];
	size_t len;
	bool cut;
};

static const char *const level_names[] = { "debug", "info", "warning", "error" };
static enum log_level level_least = LOG_LEVEL_INFO;
static enum log_format line_format = LOG_FORMAT_PLAIN;

void log_setup(enum log_level least, enum log_format format)
{
	level_least = least;
	line_format = format;
}

/* All of it or nothing; once something was left out, everything behind it is. */
static void add_str(struct line *l, const char *text)
{
	size_t len = strlen(text);

	if (l->cut || l->len + len > sizeof(l->text) - TAIL) {
		l->cut = true;
		return;
	}
	memcpy(l->text + l->len, text, len);
	l->len += len;
}

/* Into the part that was kept. */
static void close_with(struct line *l, const char *text)
{
	size_t len = strlen(text);

	memcpy(l->text + l->len, text, len);
	l->len += len;
}

static void add_number(struct line *l, int64_t number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRId64, number);
	add_str(l, digits);
}

static bool is_plain(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (*text <= ' ' || *text >= 0x7f || strchr("\"'=\\", *text))
			return false;
	return true;
}

/* Bytes other than ASCII are told as such: there are letters in Unicode that turn a line around, and terminals
 * that obey others. */
static void add_quoted_plain(struct line *l, const char *text)
{
	char unit[8];

	add_str(l, "\"");
	for (; *text && !l->cut; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			snprintf(unit, sizeof(unit), "\\%c", c);
		else if (c == '\n')
			snprintf(unit, sizeof(unit), "\\n");
		else if (c < ' ' || c >= 0x7f)
			snprintf(unit, sizeof(unit), "\\x%02x", c);
		else
			snprintf(unit, sizeof(unit), "%c", c);
		add_str(l, unit);
	}
	close_with(l, "\"");
}

static size_t character_len(const char *at)
{
	unsigned char c = (unsigned char)*at;

	return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static void add_quoted_json(struct line *l, const char *text)
{
	auto_buf struct buf valid = { 0 };
	char unit[8];

	/* More than a line holds is never looked at. */
	utf8_add_replaced(&valid, text, strnlen(text, LINE));
	add_str(l, "\"");
	for (const char *at = valid.data; *at && !l->cut; at += character_len(at)) {
		if (!json_text_escape(*at, unit))
			snprintf(unit, sizeof(unit), "%.*s", (int)character_len(at), at);
		add_str(l, unit);
	}
	close_with(l, "\"");
}

static void add_text(struct line *l, const char *text)
{
	if (line_format == LOG_FORMAT_JSON)
		add_quoted_json(l, text);
	else if (is_plain(text) && strlen(text) < sizeof(l->text) - TAIL - l->len)
		add_str(l, text);
	else
		add_quoted_plain(l, text);
}

/* A field is there, if only with the beginning of its text; or it is not there at all. */
static void add_field(struct line *l, const struct log_field *field)
{
	bool json = line_format == LOG_FORMAT_JSON;
	size_t before = l->len;

	add_str(l, json ? ",\"" : " ");
	add_str(l, field->name);
	add_str(l, json ? "\":" : "=");
	if (!field->text)
		add_number(l, field->number);
	if (l->cut)
		l->len = before;
	else if (field->text)
		add_text(l, field->text);
}

/* "2026-11-16T10:00:00.123Z" */
static void tell_time(char *ret, size_t size)
{
	struct timespec now;
	struct tm parts;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	used = strftime(ret, size, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(ret + used, size - used, ".%03ldZ", now.tv_nsec / 1000000);
}

static void begin(struct line *l, enum log_level level, const char *event)
{
	const char *format = line_format == LOG_FORMAT_JSON ?
				     "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%.200s\"" :
				     "%s %s %.200s";
	char when[64];

	tell_time(when, sizeof(when));
	l->len =
		(size_t)snprintf(l->text, sizeof(l->text), format, when, level_names[level], event);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
	bool json = line_format == LOG_FORMAT_JSON;
	int saved = errno;
	struct line l;

	if (level < level_least)
		return;
	l.cut = false;
	begin(&l, level, event);
	for (; fields->name && !l.cut; fields++)
		add_field(&l, fields);
	if (l.cut)
		close_with(&l, json ? ",\"cut\":true" : " cut=yes");
	close_with(&l, json ? "}\n" : "\n");
	/* In one piece, so that lines of several processes do not mix. A line that is not taken is lost: a
	 * service must not stand still because nobody reads what it says. */
	while (write(STDERR_FILENO, l.text, l.len) < 0 && errno == EINTR)
		;
	errno = saved;
}
