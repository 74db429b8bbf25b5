/* places: where our own files are. */
#ifndef HOTCELL_SUPERVISOR_PLACES_H
#define HOTCELL_SUPERVISOR_PLACES_H

#include "base/err.h"
#include "config/config.h"
#include "language/language.h"

struct places {
	char *warden;  /* the program */
	char *share;   /* has languages/ and drivers/ */
	char *drivers; /* the latter */
};

/* Beside this program (a build tree, or a copy of it), else as installed. */
int places_find(struct places *ret, struct err *e);
void places_free(struct places *p);
/* The languages that a service reads, as its engine does: those of `share`, of the config, and of the user where the daemon is the
 * same one. What is wrong with some, the daemon says. */
struct registry *places_languages(const char *share, const struct config *config);

#endif
