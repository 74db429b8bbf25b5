/* limit_options: the limits of a run as options, made from their table. */
#ifndef HOTCELL_CLI_LIMIT_OPTIONS_H
#define HOTCELL_CLI_LIMIT_OPTIONS_H

#include "hotcell.h"
#include "wire/limits.h"

#include <argp.h>
#include <stdbool.h>

enum { LIMIT_OPTIONS_KEY = 0x100, /* + enum limit */ LIMIT_OPTIONS_TEXT = 160 };

struct limit_options {
	unsigned which; /* LIMIT_BIT() */
	int group;
	bool with_defaults;
};

/* Writes their options to *ret and behind it; returns how many. `texts` is where their descriptions
 * live. */
unsigned limit_options_make(struct argp_option *ret, const struct limit_options *o,
	char texts[LIMIT_COUNT][LIMIT_OPTIONS_TEXT]);
/* Whether `key` is one of theirs; then it was set, or argp has ended the program. */
bool limit_options_set(
	struct argp_state *state, struct hotcell_limits *limits, int key, const char *value);
uint64_t *limit_options_field(struct hotcell_limits *l, enum limit which);

#endif
