/* supervisor: what `hotcell serve` is at first, and what stays of it with its rights.
 *
 *	supervisor                         the user who started it; root, mostly
 *	  ├ daemon                         no rights: parses all that comes from the network
 *	  └ hotcell-warden, one per kind   started here, for the daemon, when it asks
 *
 * It opens the sockets, makes the state directory the daemon's, starts the daemon, starts wardens for it, waits, and
 * starts again what has crashed. It reads nothing that comes from outside but one byte at a time from the daemon:
 *
 *	daemon → supervisor   'c', 'v' or 'p'   start a warden of that isolation
 *	supervisor → daemon   "ok" and the end of a socket, or a sentence
 *	daemon → supervisor   'r'               it serves, with all settings that it was sent: a service manager is told
 *	supervisor → daemon   a file            after SIGHUP, on a socket of its own: the settings, read again
 *
 * If the daemon dies, its wardens see their sockets close and clear up; they are waited for before the next daemon
 * begins. If the supervisor dies, the daemon is killed by the kernel, and so on down. */
#ifndef HOTCELL_SUPERVISOR_SUPERVISOR_H
#define HOTCELL_SUPERVISOR_SUPERVISOR_H

#include "config/config.h"

#include <stdbool.h>
#include <sys/types.h>

enum { LISTENERS_MAX = 16 };

struct listener {
	int fd;
	bool is_local; /* a unix socket */
};

/* What a daemon is given. */
struct daemon_start {
	struct config *config;
	struct listener listeners[LISTENERS_MAX];
	unsigned listeners_count;
	bool is_loopback; /* all that is no unix socket */
	/* By a service manager, which keeps them: who connects while there is no daemon waits for the next one. */
	bool is_handed;
	bool is_guarded; /* nobody can connect to its unix sockets but those whom the manager lets */
	bool has_made_dir; /* for a socket that nobody named: it goes with it */
	bool has_kvm;
	int control_fd;  /* to the supervisor */
	int settings_fd; /* from it: new settings */
	int share_fd;    /* the directory with languages/ */
	uid_t owner_uid;
};

struct supervisor_options {
	struct config *config; /* stays the caller's */
	/* The daemon: called in a child without rights, it returns its exit status. */
	int (*run)(const struct daemon_start *start);
	/* Reads the settings again: NULL with *e if they are wrong. */
	struct config *(*read_config)(void *context, struct err *e);
	void *context;
};

/* Runs until it is told to end. Returns an exit status. */
int supervisor_run(const struct supervisor_options *options);

/* For the daemon: asks for a warden. */
int supervisor_ask_warden(int control_fd, const char *isolation, int *ret_socket, struct err *e);
/* For the daemon: new settings have come. -1 if they have not, or cannot be read. */
int supervisor_take_settings(int settings_fd, struct config **ret, struct err *e);
/* For the daemon: it serves; and again, when new settings are in force. */
void supervisor_tell_ready(int control_fd);

#endif
