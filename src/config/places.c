#include "config/places.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between the ids of people and those that cells get, which are above 32767 even where there are few. */
enum { FREE_ID_FIRST = 30501, FREE_ID_LAST = 30999 };

static const char *absolute(const char *variable)
{
	const char *path = getenv(variable);

	return path && path[0] == '/' ? path : NULL;
}

static const char *home(void)
{
	const char *path = absolute("HOME");
	const struct passwd *own = path ? NULL : getpwuid(geteuid());

	if (own && own->pw_dir[0] == '/')
		return own->pw_dir;
	return path;
}

/* $VARIABLE/behind, else ~/in_home/behind, else NULL. */
static char *user_place(const char *variable, const char *in_home, const char *behind)
{
	const char *base = absolute(variable);

	if (base)
		return xasprintf("%s/%s", base, behind);
	base = home();
	return base ? xasprintf("%s/%s/%s", base, in_home, behind) : NULL;
}

char *places_socket(void)
{
	const char *runtime = absolute("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		return xstrdup("/run/hotcell/hotcell.sock");
	if (runtime)
		return xasprintf("%s/hotcell.sock", runtime);
	return xasprintf("/tmp/hotcell-%u/hotcell.sock", (unsigned)geteuid());
}

static int check_owner(const char *what, const char *path, const struct stat *st, struct err *e)
{
	if (st->st_uid == geteuid() || st->st_uid == 0)
		return 0;
	return err_set(e, ERR_INPUT,
		"%s '%s' belongs to user %u: want one of user %u, or else that one could pose as the service",
		what, path, (unsigned)st->st_uid, (unsigned)geteuid());
}

/* A link is none: its owner says where it leads. */
static int check_dir(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st))
		return err_sys(e, "look at '%s'", path);
	if (check_owner("directory", path, &st, e))
		return -1;
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INPUT, "'%s' is no directory: want one of user %u", path,
			(unsigned)geteuid());
	/* Where others can write, but not replace what is ours, the socket's owner tells. */
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return err_set(e, ERR_INPUT,
			"directory '%s' has mode %04o: want one that nobody but user %u can write to",
			path, (unsigned)st.st_mode & 07777, (unsigned)geteuid());
	return 0;
}

int places_check_socket(const char *path, struct err *e)
{
	auto_free char *dir = xstrdup(path);
	size_t len = (size_t)(path_base(path) - path);
	struct stat st;

	/* Without the '/' at its end, which would follow a link. */
	while (len > 1 && dir[len - 1] == '/')
		len--;
	dir[len] = '\0';
	if (check_dir(dir, e))
		return -1;
	if (lstat(path, &st))
		return errno == ENOENT ? 0 : err_sys(e, "look at '%s'", path);
	return check_owner("socket", path, &st, e);
}

char *places_state_dir(void)
{
	if (geteuid() == 0)
		return xstrdup("/var/lib/hotcell");
	return user_place("XDG_STATE_HOME", ".local/state", "hotcell");
}

char *places_user(void)
{
	if (getpwnam("hotcell"))
		return xstrdup("hotcell");
	for (unsigned id = FREE_ID_FIRST; id <= FREE_ID_LAST; id++)
		if (!getpwuid(id) && !getgrgid(id))
			return xasprintf("%u", id);
	return NULL;
}

unsigned places_config_files(char *ret[PLACES_CONFIG_FILES])
{
	unsigned count = 0;

	/* Root's home may be somebody else's, as it is with sudo. */
	if (geteuid() != 0)
		ret[count] = user_place("XDG_CONFIG_HOME", ".config", "hotcell/config.yaml");
	if (geteuid() != 0 && ret[count])
		count++;
	ret[count++] = xstrdup("/etc/hotcell/config.yaml");
	return count;
}
