#include "config/config.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/units.h"
#include "config/places.h"
#include "config/table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int config_find_user(const struct config *c, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	const struct passwd *found = getpwnam(c->user);
	uint64_t number;

	if (found) {
		*ret_uid = found->pw_uid;
		*ret_gid = found->pw_gid;
		return 0;
	}
	if (units_parse_count(c->user, &number, e) || number > INT32_MAX)
		return err_set(e, ERR_INPUT, "user = '%.80s': there is no such user", c->user);
	*ret_uid = (uid_t)number;
	*ret_gid = (gid_t)number;
	return 0;
}

bool config_user_is_in_vain(const struct config *c)
{
	auto_free char *usual = places_user();
	struct err ignored;
	uid_t uid = 0;
	gid_t gid = 0;

	if (geteuid() == 0 || (usual && strcmp(c->user, usual) == 0))
		return false;
	return config_find_user(c, &uid, &gid, &ignored) || uid != geteuid();
}

int config_find_check(const struct config *c, struct err *e)
{
	const char *why = NULL;
	struct stat st;

	if (!*c->check)
		return 0;
	if (stat(c->check, &st))
		why = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		why = "it is no regular file";
	else if (faccessat(AT_FDCWD, c->check, X_OK, AT_EACCESS))
		why = "it cannot be executed";
	if (!why)
		return 0;
	return err_set(e, ERR_INPUT, "check = '%.200s': %s; want an executable file (%s)", c->check,
		why, config_find_row("check")->meaning);
}

static bool is_empty(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	unsigned names = 0;

	if (!dir) {
		own_close(&fd);
		return false;
	}
	while (names <= 2 && readdir(dir))
		names++;
	closedir(dir);
	return names == 2; /* "." and ".." */
}

/* A service manager may have made it before us, and knows nothing of our user. */
static int give_to_user(const struct config *c, int fd, struct err *e)
{
	struct stat st;
	uid_t uid = 0;
	gid_t gid = 0;

	if (config_find_user(c, &uid, &gid, e))
		return -1;
	if (fstat(fd, &st))
		return err_sys(e, "look at '%s'", c->state_dir);
	if (st.st_uid != 0 || uid == 0 || !is_empty(fd))
		return 0;
	if (fchown(fd, uid, gid))
		return err_sys(e, "give '%s' to user %u", c->state_dir, (unsigned)uid);
	return 0;
}

/* Those above are not secret: others may have to pass, as our own user has when root makes them. */
static void make_above(const char *path)
{
	auto_free char *copy = xstrdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(copy, 0755);
		*slash = '/';
	}
}

int config_make_state_dir(const struct config *c, struct err *e)
{
	auto_close int fd = -1;

	make_above(c->state_dir);
	if (mkdir(c->state_dir, 0700) && errno != EEXIST)
		return err_sys(e, "make '%s'", c->state_dir);
	fd = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open '%s'", c->state_dir);
	return geteuid() == 0 ? give_to_user(c, fd, e) : 0;
}
