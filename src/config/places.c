#include "config/places.h"

#include "base/buf.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
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
