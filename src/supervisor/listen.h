/* listen: the sockets that the service is reached by. */
#ifndef HOTCELL_SUPERVISOR_LISTEN_H
#define HOTCELL_SUPERVISOR_LISTEN_H

#include "supervisor/supervisor.h"

/* Those that a service manager hands over, else those that the config names. */
int listen_open(const struct config *c, struct daemon_start *ret, struct err *e);
/* Removes what has a name, unless it is a service manager's. */
void listen_close(const struct config *c, struct daemon_start *start);
/* In the log: where it can be reached. */
void listen_tell(const struct daemon_start *start);

#endif
