#include "language/lines.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether `key:` stands at `at`, quoted or not. */
static bool is_key(const char *at, const char *end, const char *key)
{
	size_t len = strlen(key);

	if ((size_t)(end - at) < len || memcmp(at, key, len) != 0)
		return false;
	at += len;
	while (at < end && (*at == '"' || *at == '\'' || *at == ' '))
		at++;
	return at < end && *at == ':';
}

/* Keys stand behind indentation, behind "- ", or behind "{" or "," in a mapping on one line. */
static bool has_key(const char *line, const char *end, const char *key)
{
	for (const char *at = line; at < end; at++) {
		if (*at == '#')
			return false;
		if ((at == line || strchr(" -{,\"'", at[-1])) && is_key(at, end, key))
			return true;
	}
	return false;
}

static unsigned find(const char *text, const char *key, unsigned from,
	bool (*matches)(const char *line, const char *end, const char *key))
{
	unsigned line = 1;

	while (*text) {
		const char *end = strchrnul(text, '\n');

		if (line >= from && matches(text, end, key))
			return line;
		line++;
		text = *end ? end + 1 : end;
	}
	return 0;
}

unsigned lines_find_key(const char *text, const char *key, unsigned from)
{
	return find(text, key, from, has_key);
}

unsigned lines_find_top_key(const char *text, const char *key)
{
	return find(text, key, 1, is_key);
}
