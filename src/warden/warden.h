/* warden: the one program that builds, watches, kills and clears cells. */
#ifndef HOTCELL_WARDEN_WARDEN_H
#define HOTCELL_WARDEN_WARDEN_H

#include "cell/isolation.h"

struct warden_options {
	const struct isolation *isolation;
	char *command_line; /* our arguments in memory: they name paths that a cell need not know */
	size_t command_line_size;
	int socket_fd; /* to the engine; when it hangs up, all cells are killed and we end */
	const char *drivers;
	const char *const *mount_dirs; /* below which mounts may be asked for; NULL-terminated */
	bool host_network;
	bool once;  /* one cell is all that will be asked for: nothing is made ahead */
	bool check; /* gather what `hotcell doctor` wants to know, while the machine is in view */
};

/* Returns the program's exit status. */
int warden_run(const struct warden_options *options);

#endif
