/* daemon: one process, one loop, no rights. Serves the API on all sockets that it was given. */
#ifndef HOTCELL_DAEMON_DAEMON_H
#define HOTCELL_DAEMON_DAEMON_H

#include "supervisor/supervisor.h"

/* Runs until SIGTERM, and then until all that runs has ended or the time for that is over. An exit status. */
int daemon_run(const struct daemon_start *start);

#endif
