/* options: the command line of `hotcell run` as a request. */
#ifndef HOTCELL_CLI_OPTIONS_H
#define HOTCELL_CLI_OPTIONS_H

#include "base/buf.h"
#include "cli/server_options.h"
#include "hotcell.h"
#include "wire/mounts.h"

#include <stdbool.h>

enum {
	OPTIONS_LIST_MAX = 256,
	/* A file may own two, and a mount. */
	OPTIONS_OWNED_MAX = 2 * OPTIONS_LIST_MAX
};

struct run_options {
	struct hotcell_request request;
	const char *code_file; /* FILE or "-"; NULL if -c was given */
	struct buf code;       /* read from standard input */
	bool have_code;
	const char *stdin_path; /* --stdin */
	const char *const *language_dirs;
	bool json;
	bool stats;
	bool quiet;
	bool max_output_given;
	struct server_options server;
	bool is_local;          /* --local */
	const char *session_id; /* set before parsing: these are the words of `session exec` */
	struct hotcell_input inputs[OPTIONS_LIST_MAX];
	struct hotcell_mount mounts[MOUNTS_MAX];
	const char *mount_dirs[MOUNTS_MAX + 1]; /* their sources: who runs us may name them */
	const char *args[OPTIONS_LIST_MAX];
	const char *env[OPTIONS_LIST_MAX];
	const char *dirs[OPTIONS_LIST_MAX];
	unsigned args_count;
	unsigned env_count;
	unsigned dirs_count;
	char *owned[OPTIONS_OWNED_MAX]; /* strings to free */
	unsigned owned_count;
};

/* Ends the program on wrong input (argp does), with a message and EXIT_HOTCELL. */
void options_parse(struct run_options *o, int argc, char **argv);
/* Whether a service runs it, not we. */
bool options_want_server(const struct run_options *o);
/* The code from standard input. 0, or EXIT_HOTCELL after a complaint. */
int options_read_code(struct run_options *o);
void options_free(struct run_options *o);

/* HOST or HOST:PATH. What *ret points to is *ret_owned, to be freed in any case. False: it has no name to
 * appear under. */
bool options_read_input(const char *value, struct hotcell_input *ret, char **ret_owned);
bool options_find_isolation(const char *name, enum hotcell_isolation *ret);
bool options_find_network(const char *name, enum hotcell_network *ret);
#define OPTIONS_BAD_ISOLATION "isolation = '%s': want auto, vm, container or process"
#define OPTIONS_BAD_NETWORK   "network = '%s': want none or host"

#endif
