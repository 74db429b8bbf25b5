#include "wire/mounts.h"

#include "base/path.h"

#include <string.h>

static int check_source(const char *source, struct err *e)
{
	struct err why;

	if (source[0] == '/' && path_check_relative(source + 1, strlen(source + 1), &why) == 0)
		return 0;
	return err_set(e, ERR_INPUT,
		"mount source '%s': want an absolute path without '..', '.' or empty names",
		source);
}

static int check_name(const char *name, struct err *e)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789._-";
	size_t len = strlen(name);

	if (len > 0 && len <= PATH_NAME_MAX && strspn(name, letters) == len &&
		strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		return 0;
	return err_set(e, ERR_INPUT,
		"mount name '%s': want one name of at most %d letters, digits, '.', '_' and '-'",
		name, PATH_NAME_MAX);
}

int mounts_check(const struct mount_wish *wishes, size_t count, struct err *e)
{
	if (count > MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d mounts", MOUNTS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (check_source(wishes[i].source, e) || check_name(wishes[i].name, e))
			return -1;
		for (size_t k = 0; k < i; k++)
			if (strcmp(wishes[k].name, wishes[i].name) == 0)
				return err_set(e, ERR_INPUT, "two mounts have the name '%s'",
					wishes[i].name);
	}
	return 0;
}

/* Without the slashes at its end: "/" has no length. */
static size_t length(const char *dir)
{
	size_t len = strlen(dir);

	while (len > 0 && dir[len - 1] == '/')
		len--;
	return len;
}

const char *mount_below(const char *dir, const char *source)
{
	size_t len = length(dir);

	if (dir[0] != '/' || strncmp(dir, source, len) != 0)
		return NULL;
	if (source[len] == '\0')
		return source + len;
	return source[len] == '/' ? source + len + 1 : NULL;
}

int mount_find_dir(const char *const *dirs, const char *source)
{
	int found = -1;

	for (int i = 0; dirs && dirs[i]; i++)
		if (mount_below(dirs[i], source) &&
			(found < 0 || length(dirs[i]) > length(dirs[found])))
			found = i;
	return found;
}
