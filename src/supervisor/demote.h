/* demote: from whoever started the service to a user who may do nothing. */
#ifndef HOTCELL_SUPERVISOR_DEMOTE_H
#define HOTCELL_SUPERVISOR_DEMOTE_H

#include "base/err.h"

#include <sys/types.h>

/* Becomes that user, for ever, and proves it. */
int demote(uid_t uid, gid_t gid, struct err *e);

#endif
