/* server_options: which service is spoken to, and as whom, as the command line tells it. */
#ifndef HOTCELL_CLI_SERVER_OPTIONS_H
#define HOTCELL_CLI_SERVER_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

struct server_options {
	const char *url; /* --server */
	const char *key; /* --key */
};

/* --server and --key, as a child of a command's own; its input is a struct server_options. */
extern const struct argp server_options_argp;

/* Whether one was named: by --server, else by HOTCELL_SERVER. */
bool server_options_are_given(const struct server_options *o);

#endif
