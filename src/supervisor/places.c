#include "supervisor/places.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN_AT_ONCE = 16 };

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

	ret->warden = xstrdup(beside && access(beside, X_OK) == 0 ?
				      beside :
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

static uid_t new_uid;
static gid_t new_gid;

static int give(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status;
	(void)type;
	(void)where;
	return lchown(path, new_uid, new_gid);
}

static int make_parents(const char *dir, struct err *e)
{
	auto_free char *path = xstrdup(dir);

	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return err_sys(e, "make '%s'", path);
		*at = '/';
	}
	return 0;
}

int places_make_state(const char *dir, uid_t uid, gid_t gid, struct err *e)
{
	struct stat status;

	if (make_parents(dir, e))
		return -1;
	if (mkdir(dir, 0700) && errno != EEXIST)
		return err_sys(e, "make '%s'", dir);
	if (lstat(dir, &status))
		return err_sys(e, "look at '%s'", dir);
	if (!S_ISDIR(status.st_mode))
		return err_set(e, ERR_INPUT, "state_dir = '%s': it is no directory", dir);
	if (status.st_uid == uid)
		return 0;
	if (geteuid() != 0)
		return err_set(e, ERR_INPUT, "state_dir = '%s': it belongs to another user", dir);
	new_uid = uid;
	new_gid = gid;
	if (chmod(dir, 0700) || nftw(dir, give, OPEN_AT_ONCE, FTW_PHYS))
		return err_sys(e, "give '%s' to user %u", dir, uid);
	return 0;
}
