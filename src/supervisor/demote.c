#include "supervisor/demote.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Beside the range that cells have (cell/uids.c): no account has it, and no cell. */
#define NUMBER_OF_NOBODY 0x6fffff00U

int demote_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	const struct passwd *user;
	char *end;
	unsigned long number = strtoul(name, &end, 10);

	*ret_uid = geteuid();
	*ret_gid = getegid();
	if (geteuid() != 0)
		return 0;
	user = *name && !*end ? NULL : getpwnam(*name ? name : "hotcell");
	if (*name && !*end) {
		*ret_uid = (uid_t)number;
		*ret_gid = (gid_t)number;
	} else if (!user && *name) {
		return err_set(e, ERR_NOT_FOUND, "user = '%s': there is no such user", name);
	} else {
		*ret_uid = user ? user->pw_uid : NUMBER_OF_NOBODY;
		*ret_gid = user ? user->pw_gid : NUMBER_OF_NOBODY;
	}
	return *ret_uid ? 0 : err_set(e, ERR_INPUT, "user = '%s': the daemon must not be root", name);
}

int demote(uid_t uid, gid_t gid, struct err *e)
{
	prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return err_sys(e, "no_new_privs");
	if (geteuid() != 0)
		return 0;
	/* Groups first: without the user we could not change them. */
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
		return err_sys(e, "become user %u", uid);
	/* The kernel clears it when ids change. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setresuid(0, 0, 0) == 0 || setgroups(0, NULL) == 0 || geteuid() != uid ||
		getegid() != gid)
		return err_set(e, ERR_SYSTEM, "the rights of root did not go away");
	return 0;
}
