/* form: see form.h.
 *
 *	PREAMBLE ──boundary──▶ TAIL ──CRLF──▶ HEADERS ──empty line──▶ PART ──boundary──▶ TAIL ──"--"──▶ DONE
 *
 * A boundary is found by its bytes "\r\n--BOUNDARY" one after the other. CR stands only at their beginning, so when one
 * does not fit, none of those before it can be the beginning of another: they were data. */
#include "http/form.h"

#include "base/buf.h"
#include "base/own.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { BOUNDARY_MAX = 70 }; /* RFC 2046 */

enum state { PREAMBLE, TAIL, HEADERS, PART, DONE };

struct form {
	enum state state;
	char delimiter[4 + BOUNDARY_MAX + 1]; /* "\r\n--" and the boundary */
	size_t delimiter_len;
	size_t matched; /* so many of its bytes have come */
	char tail[2];   /* what follows a boundary: "--" or CRLF */
	size_t tail_len;
	struct buf headers;
	char *wanted;
	char *filename;
	bool has_part;
	bool is_wanted; /* the part at hand */
};

static bool is_boundary_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("'()+_,-./:=? ", c));
}

/* The parameter of that name in `text`, which begins behind the value itself: `; name=value; name="value"`. In quotes a
 * backslash takes the meaning of a quote or backslash, and else stands for itself: file names of old have some. */
static char *parameter(const char *text, const char *name)
{
	size_t name_len = strlen(name);

	while ((text = strchr(text, ';'))) {
		auto_buf struct buf value = { 0 };
		bool fits;

		text += 1 + strspn(text + 1, " \t");
		fits = strncasecmp(text, name, name_len) == 0 && text[name_len] == '=';
		text += strcspn(text, "=;");
		if (*text != '=')
			continue;
		text++;
		if (*text != '"') {
			size_t len = strcspn(text, "; \t");

			buf_add(&value, text, len);
			text += len;
		} else {
			for (text++; *text && *text != '"'; text++) {
				if (*text == '\\' && (text[1] == '"' || text[1] == '\\'))
					text++;
				buf_add(&value, text, 1);
			}
			if (*text != '"')
				return NULL;
		}
		if (fits)
			return buf_take(&value);
	}
	return NULL;
}

struct form *form_new(const char *content_type, const char *wanted)
{
	static const char kind[] = "multipart/form-data";
	auto_free char *boundary = NULL;
	struct form *f;
	size_t len;

	if (!content_type || strncasecmp(content_type, kind, sizeof(kind) - 1) != 0)
		return NULL;
	boundary = parameter(content_type + sizeof(kind) - 1, "boundary");
	len = boundary ? strlen(boundary) : 0;
	if (len == 0 || len > BOUNDARY_MAX || boundary[len - 1] == ' ')
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (!is_boundary_char(boundary[i]))
			return NULL;
	}
	f = xalloc(sizeof(*f));
	memcpy(f->delimiter, "\r\n--", 4);
	memcpy(f->delimiter + 4, boundary, len);
	f->delimiter_len = 4 + len;
	f->matched = 2; /* the first may stand at the very beginning */
	f->wanted = xstrdup(wanted);
	return f;
}

void form_free(struct form *f)
{
	if (!f)
		return;
	buf_free(&f->headers);
	free(f->wanted);
	free(f->filename);
	free(f);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* filename*=utf-8''%e2%82%ac.txt (RFC 5987). NULL if it is anything else. */
static char *decode_extended(const char *text)
{
	static const char charset[] = "utf-8'";
	auto_buf struct buf name = { 0 };
	const char *at;

	if (!text || strncasecmp(text, charset, sizeof(charset) - 1) != 0)
		return NULL;
	at = strchr(text + sizeof(charset) - 1, '\'');
	if (!at)
		return NULL;
	for (at++; *at; at++) {
		char c = *at;

		if (c == '%') {
			int high = hex_digit(at[1]);
			int low = high < 0 ? -1 : hex_digit(at[2]);

			if (low < 0 || high + low == 0)
				return NULL;
			c = (char)(high * 16 + low);
			at += 2;
		}
		buf_add(&name, &c, 1);
	}
	return buf_take(&name);
}

static void take_disposition(struct form *f, const char *value)
{
	auto_free char *name = parameter(value, "name");
	auto_free char *extended = NULL;

	if (f->has_part || !name || strcmp(name, f->wanted) != 0)
		return;
	f->has_part = true;
	f->is_wanted = true;
	f->filename = parameter(value, "filename");
	if (f->filename)
		return;
	extended = parameter(value, "filename*");
	f->filename = decode_extended(extended);
}

/* One line of a part's headers, without its CRLF. */
static void take_header(struct form *f, const char *line)
{
	static const char name[] = "content-disposition:";

	if (strncasecmp(line, name, sizeof(name) - 1) == 0)
		take_disposition(f, line + sizeof(name) - 1);
}

/* Collects a header line up to its LF; moves *at behind what it took. */
static int feed_headers(struct form *f, const char **at, const char *end)
{
	const char *lf = memchr(*at, '\n', (size_t)(end - *at));
	size_t len = (size_t)((lf ? lf + 1 : end) - *at);
	struct buf *line = &f->headers;

	if (line->len + len > FORM_HEADERS_MAX || memchr(*at, '\0', len))
		return -1;
	buf_add(line, *at, len);
	*at += len;
	if (!lf)
		return 0;
	if (line->len < 2 || line->data[line->len - 2] != '\r')
		return -1;
	line->len -= 2;
	line->data[line->len] = '\0';
	if (line->len == 0) {
		f->state = PART;
		return 0;
	}
	take_header(f, line->data);
	buf_clear(line);
	return 0;
}

/* Behind a boundary: "--" ends the form, a line end begins a part. Spaces may stand before it. */
static int feed_tail(struct form *f, char c)
{
	if (f->tail_len == 0 && (c == ' ' || c == '\t'))
		return 0;
	f->tail[f->tail_len++] = c;
	if (f->tail_len < 2)
		return c == '-' || c == '\r' ? 0 : -1;
	f->tail_len = 0;
	if (memcmp(f->tail, "--", 2) == 0) {
		f->state = DONE;
		return 0;
	}
	if (memcmp(f->tail, "\r\n", 2) != 0)
		return -1;
	f->state = HEADERS;
	f->is_wanted = false;
	buf_clear(&f->headers);
	return 0;
}

struct sink {
	int (*on_data)(void *context, const char *data, size_t len);
	void *context;
};

static int give(const struct form *f, const struct sink *sink, const char *data, size_t len)
{
	return f->state == PART && f->is_wanted && len ? sink->on_data(sink->context, data, len) :
							 0;
}

/* Content, up to a boundary: moves *at behind what it took. */
static int feed_content(struct form *f, const char **at, const char *end, const struct sink *sink)
{
	if (f->matched == 0) {
		const char *cr = memchr(*at, '\r', (size_t)(end - *at));
		const char *from = *at;

		*at = cr ? cr + 1 : end;
		f->matched = cr ? 1 : 0;
		return give(f, sink, from, (size_t)((cr ? cr : end) - from));
	}
	if (**at != f->delimiter[f->matched]) {
		size_t len = f->matched;

		f->matched = 0; /* and this byte is looked at again */
		return give(f, sink, f->delimiter, len);
	}
	++*at;
	if (++f->matched == f->delimiter_len) {
		f->matched = 0;
		f->state = TAIL;
		f->is_wanted = false;
	}
	return 0;
}

int form_feed(struct form *f, const char *data, size_t len,
	int (*on_data)(void *context, const char *data, size_t len), void *context)
{
	const struct sink sink = { on_data, context };
	const char *end = data + len;

	while (data < end) {
		int failed = 0;

		switch (f->state) {
		case PREAMBLE:
		case PART:
			failed = feed_content(f, &data, end, &sink);
			break;
		case TAIL:
			failed = feed_tail(f, *data++);
			break;
		case HEADERS:
			failed = feed_headers(f, &data, end);
			break;
		case DONE:
			return 0;
		}
		if (failed)
			return -1;
	}
	return 0;
}

bool form_is_complete(const struct form *f)
{
	return f->state == DONE;
}

bool form_has_part(const struct form *f)
{
	return f->has_part;
}

const char *form_filename(const struct form *f)
{
	return f->filename;
}
