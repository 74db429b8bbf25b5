/* demote: from whoever started the service to a user who may do nothing. */
#ifndef HOTCELL_SUPERVISOR_DEMOTE_H
#define HOTCELL_SUPERVISOR_DEMOTE_H

#include "base/err.h"

#include <sys/types.h>

/* Whom the daemon becomes: `name` if it is one, else "hotcell" if there is one, else a number that nobody has.
 * Without root: ourselves. */
int demote_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct err *e);
/* Becomes that user, for ever, and proves it. */
int demote(uid_t uid, gid_t gid, struct err *e);

#endif
