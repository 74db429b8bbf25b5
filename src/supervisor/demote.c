#include "supervisor/demote.h"

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

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
