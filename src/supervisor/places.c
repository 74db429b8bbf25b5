#include "supervisor/places.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"

#include <string.h>
#include <unistd.h>

enum { DIRS_MAX = 16 };

static char *own_dir(void)
{
	char path[PATH_MAX_BYTES + 1];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (len <= 0)
		return NULL;
	path[len] = '\0';
	*strrchr(path, '/') = '\0';
	return xstrdup(path);
}

int places_find(struct places *ret, struct err *e)
{
	auto_free char *dir = own_dir();
	auto_free char *beside = dir ? path_join(dir, "hotcell-warden") : NULL;
	const char *const shares[] = { "..", "../share/hotcell" };

	ret->warden =
		xstrdup(beside && access(beside, X_OK) == 0 ? beside :
							      HOTCELL_LIBEXECDIR "/hotcell-warden");
	for (size_t i = 0; dir && !ret->share && i < COUNT(shares); i++) {
		auto_free char *candidate = path_join(dir, shares[i]);
		auto_free char *languages = path_join(candidate, "languages");

		if (access(languages, F_OK) == 0)
			ret->share = realpath(candidate, NULL);
	}
	if (!ret->share)
		ret->share = xstrdup(HOTCELL_SHAREDIR);
	ret->drivers = path_join(ret->share, "drivers");
	if (access(ret->warden, X_OK))
		return err_sys(e, "find hotcell-warden: '%s'", ret->warden);
	return 0;
}

void places_free(struct places *p)
{
	free(p->warden);
	free(p->share);
	free(p->drivers);
}

struct registry *places_languages(const char *share, const struct config *config)
{
	auto_free char *shipped = path_join(share, "languages");
	auto_free char *own = language_user_dir();
	const char *dirs[DIRS_MAX];
	unsigned count = 0;

	dirs[count++] = shipped;
	if (own && geteuid() != 0)
		dirs[count++] = own;
	for (size_t i = 0; i < config->language_dirs.count && count < DIRS_MAX; i++)
		dirs[count++] = config->language_dirs.at[i];
	return registry_load(dirs, count, NULL, NULL);
}
