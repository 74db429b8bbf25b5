/* A file of settings that somebody wrote. It loads, and what --print-config makes of it loads again and is the same;
 * or a sentence with the file's name says why not. */
#include "fuzz.h"

#include "config/config.h"

#include <string.h>

static char *printed(const struct config *c)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	CLAIM(to);
	config_print(c, to);
	CLAIM(fclose(to) == 0);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *again = NULL;
	struct config *c = NULL;
	struct err e = { 0 };
	char *first;
	char *second;

	if (config_parse("file", (const char *)data, size, &c, &e)) {
		CLAIM(!c && strncmp(e.text, "file:", 5) == 0);
		return 0;
	}
	CLAIM(c->timeout_default_ms <= c->timeout_max_ms && c->port >= 1 && c->port <= 65535);
	first = printed(c);
	CLAIM(config_parse("file", first, strlen(first), &again, &e) == 0);
	second = printed(again);
	CLAIM(strcmp(first, second) == 0);
	free(first);
	free(second);
	config_free(c);
	config_free(again);
	return 0;
}
