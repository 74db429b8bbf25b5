/* verbs: commands that have commands of their own, such as `hotcell session close`. */
#ifndef HOTCELL_CLI_VERBS_H
#define HOTCELL_CLI_VERBS_H

#include "cli/client.h"

#include <argp.h>

enum { VERBS_WORDS_MAX = 1000 };

struct verb {
	const char *name;
	const char *words; /* behind it: "ID PATH" */
	unsigned least;    /* words, and */
	unsigned most;
	unsigned options;          /* bits of those that it takes, as the command numbers them */
	int (*run)(void *command); /* returns the exit status */
	const char *what;
};

/* What was said. */
struct verbs {
	const struct verb *table; /* up to one without a name */
	const struct verb *chosen;
	char **words; /* behind the verb */
	unsigned count;
	unsigned options_seen; /* bits */
	const char *option_names[32];
};

/* For a parser's ARGP_KEY_ARG and ARGP_KEY_END: these end the program if the words do not fit. */
void verbs_take_word(struct argp_state *state, struct verbs *v, char *word);
void verbs_check(struct argp_state *state, const struct verbs *v);
/* An option was seen that only some verbs take. */
void verbs_see(struct verbs *v, unsigned bit, const char *option);
/* For --help: the list of verbs, to be freed; what argp calls args_doc, and what stands behind. */
char *verbs_describe(const struct verb *table, const char *before, const char *behind);

/* Opens the client with an ear for Ctrl-C, runs what was chosen, and tells of its failure. */
int verbs_run(const struct verbs *v, const struct server_options *server, struct client **client,
	void *command);
/* Prints `e`, and returns the exit status: 130 after Ctrl-C, else EXIT_HOTCELL. */
int verbs_fail(const struct client *c, const struct err *e);

#endif
