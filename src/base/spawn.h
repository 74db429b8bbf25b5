/* spawn: a program, started with nothing that is not meant for it.
 *
 * It has no descriptor but those named below, no signal ignored or blocked, and a session of its own: a Ctrl-C in our
 * terminal is not for it. Its end raises no SIGCHLD: whoever embeds us never hears of it. */
#ifndef HOTCELL_BASE_SPAWN_H
#define HOTCELL_BASE_SPAWN_H

#include "base/err.h"

enum { SPAWN_SOCKET_FD = 3 };

/* One of ours: /dev/null as 0, 1 and 2, the socket as SPAWN_SOCKET_FD, no environment. argv[0] is what it is called;
 * `path` is what it is. *ret_pid_fd is to be waited for with __WALL. */
int spawn_program(
	const char *path, const char *const *argv, int socket_fd, int *ret_pid_fd, struct err *e);
/* Somebody else's: its input, its output, /dev/null as 2, and an environment. It is killed when the thread that calls
 * ends. */
int spawn_filter(const char *path, const char *const *environment, int in_fd, int out_fd,
	int *ret_pid_fd, struct err *e);

#endif
