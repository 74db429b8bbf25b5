/* places: where our own files are. */
#ifndef HOTCELL_SUPERVISOR_PLACES_H
#define HOTCELL_SUPERVISOR_PLACES_H

#include "base/err.h"

struct places {
	char *warden;  /* the program */
	char *share;   /* has languages/ and drivers/ */
	char *drivers; /* the latter */
};

/* Beside this program (a build tree, or a copy of it), else as installed. */
int places_find(struct places *ret, struct err *e);
void places_free(struct places *p);

#endif
