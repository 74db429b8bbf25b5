/* Which paths may name a file in a workspace, against the rules written another way. */
#include "fuzz.h"

#include "base/path.h"

#include <stdbool.h>
#include <string.h>

static bool is_fine_name(const char *name)
{
	return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
	       strlen(name) <= PATH_NAME_MAX;
}

static bool is_fine(const char *path, size_t size)
{
	char *copy;
	char *rest;
	char *name;
	bool fine = true;
	int depth = 0;

	if (strlen(path) != size || size > PATH_MAX_BYTES)
		return false;
	copy = strdup(path);
	CLAIM(copy);
	rest = copy;
	while ((name = strsep(&rest, "/"))) {
		fine = fine && is_fine_name(name);
		depth++;
	}
	free(copy);
	return fine && depth <= PATH_MAX_DEPTH;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	char *path = malloc(size + 1);
	int result;

	CLAIM(path);
	memcpy(path, data, size);
	path[size] = '\0';
	/* From memory that ends with the path: it has no NUL behind it. */
	result = path_check_relative((const char *)data, size, &e);
	CLAIM(result == (is_fine(path, size) ? 0 : -1));
	CLAIM(result == 0 || (e.kind == ERR_INPUT && e.text[0]));
	free(path);
	return 0;
}
