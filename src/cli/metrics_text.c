#include "cli/metrics_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 63 };

struct reader {
	const char *at;
	const char *end;
};

static bool take(struct reader *r, char letter)
{
	if (r->at == r->end || *r->at != letter)
		return false;
	r->at++;
	return true;
}

static void skip_spaces(struct reader *r)
{
	while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
		r->at++;
}

static bool read_name(struct reader *r, char ret[METRIC_NAME_MAX + 1])
{
	size_t len = 0;

	while (r->at < r->end &&
		(isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == ':')) {
		if (len == METRIC_NAME_MAX)
			return false;
		ret[len++] = *r->at++;
	}
	ret[len] = '\0';
	return len > 0;
}

/* "…" with \\, \" and \n. What is too long for us is cut. */
static bool read_text(struct reader *r, char ret[METRIC_VALUE_MAX + 1])
{
	size_t len = 0;

	if (!take(r, '"'))
		return false;
	while (r->at < r->end && *r->at != '"') {
		char letter = *r->at++;

		if (letter == '\\') {
			if (r->at == r->end)
				return false;
			letter = *r->at == 'n' ? '\n' : *r->at;
			r->at++;
		}
		if (len < METRIC_VALUE_MAX)
			ret[len++] = letter;
	}
	ret[len] = '\0';
	return take(r, '"');
}

static bool read_labels(struct reader *r, struct metric *ret)
{
	if (!take(r, '{'))
		return true;
	while (!take(r, '}')) {
		if (ret->labels_count == METRIC_LABELS_MAX)
			return false;
		skip_spaces(r);
		if (!read_name(r, ret->labels[ret->labels_count].name) || !take(r, '=') ||
			!read_text(r, ret->labels[ret->labels_count].value))
			return false;
		ret->labels_count++;
		if (!take(r, ',') && (r->at == r->end || *r->at != '}'))
			return false;
	}
	return true;
}

static bool read_number(struct reader *r, double *ret)
{
	char text[NUMBER_MAX + 1];
	size_t len = 0;
	char *end;

	while (r->at < r->end && *r->at != ' ' && *r->at != '\t') {
		if (len == NUMBER_MAX)
			return false;
		text[len++] = *r->at++;
	}
	text[len] = '\0';
	*ret = strtod(text, &end);
	return len && !*end && isfinite(*ret);
}

bool metrics_text_read(const char *line, size_t len, struct metric *ret)
{
	struct reader r = { line, line + len };

	ret->labels_count = 0;
	skip_spaces(&r);
	if (!read_name(&r, ret->name) || !read_labels(&r, ret))
		return false;
	skip_spaces(&r);
	return read_number(&r, &ret->value);
}

const char *metrics_text_label(const struct metric *m, const char *name)
{
	for (unsigned i = 0; i < m->labels_count; i++)
		if (strcmp(m->labels[i].name, name) == 0)
			return m->labels[i].value;
	return "";
}
