#include "cli/sse.h"

#include <stdio.h>
#include <string.h>

static int end_event(struct sse *s, struct err *e)
{
	int failed = 0;

	buf_add(&s->data, "", 0);
	if (s->has_data)
		failed = s->on_event(s->context, s->name, s->data.data, s->data.len, e);
	buf_clear(&s->data);
	s->has_data = false;
	s->name[0] = '\0';
	return failed;
}

/* "name: value". Those that we do not know, and comments, which have no name, are passed over. */
static int take_field(struct sse *s, struct err *e)
{
	const char *line = s->line.data;
	size_t name_len = strcspn(line, ":");
	const char *value = line + name_len;
	size_t value_len;

	value += *value == ':';
	value += *value == ' ';
	value_len = s->line.len - (size_t)(value - line);
	if (name_len == 5 && strncmp(line, "event", 5) == 0) {
		snprintf(s->name, sizeof(s->name), "%s", value);
		return 0;
	}
	if (name_len != 4 || strncmp(line, "data", 4) != 0)
		return 0;
	if (s->data.len + value_len >= SSE_EVENT_MAX)
		return err_set(
			e, ERR_PROTOCOL, "an event is larger than %d MiB", SSE_EVENT_MAX >> 20);
	if (s->has_data)
		buf_add(&s->data, "\n", 1);
	buf_add(&s->data, value, value_len);
	s->has_data = true;
	return 0;
}

static int end_line(struct sse *s, struct err *e)
{
	int failed;

	buf_add(&s->line, "", 0);
	failed = s->line.len ? take_field(s, e) : end_event(s, e);
	buf_clear(&s->line);
	return failed;
}

static int add_to_line(struct sse *s, const char *bytes, size_t len, struct err *e)
{
	if (s->line.len + len > SSE_EVENT_MAX)
		return err_set(
			e, ERR_PROTOCOL, "an event is larger than %d MiB", SSE_EVENT_MAX >> 20);
	buf_add(&s->line, bytes, len);
	return 0;
}

/* How far it is to the next line end; `len` if there is none. */
static size_t find_end(const char *bytes, size_t len)
{
	const char *newline = memchr(bytes, '\n', len);
	const char *carriage;

	if (newline)
		len = (size_t)(newline - bytes);
	carriage = memchr(bytes, '\r', len);
	return carriage ? (size_t)(carriage - bytes) : len;
}

int sse_feed(struct sse *s, const char *bytes, size_t len, struct err *e)
{
	while (len) {
		size_t part = find_end(bytes, len);
		bool is_second = part == 0 && bytes[0] == '\n' && s->after_return;

		if (part && add_to_line(s, bytes, part, e))
			return -1;
		s->after_return = false;
		if (part == len)
			return 0;
		s->after_return = bytes[part] == '\r';
		if (!is_second && end_line(s, e))
			return -1;
		bytes += part + 1;
		len -= part + 1;
	}
	return 0;
}

void sse_free(struct sse *s)
{
	buf_free(&s->line);
	buf_free(&s->data);
}
