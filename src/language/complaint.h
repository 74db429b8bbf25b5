/* complaint: makes one sentence for a person out of what libcyaml logs about a wrong file. */
#ifndef HOTCELL_LANGUAGE_COMPLAINT_H
#define HOTCELL_LANGUAGE_COMPLAINT_H

#include "base/err.h"

#include <cyaml/cyaml.h>
#include <stdbool.h>

/* Zero before the load. */
struct complaint {
	char message[256]; /* the first that was logged */
	char key[64];      /* the innermost key on the way to the mistake */
	unsigned line;     /* 0 = not told */
	bool in_entry;     /* the mistake is within an entry of a list of mappings */
};

/* For cyaml_config.log_fn, with the struct as its context. */
void complaint_log(cyaml_log_t level, void *complaint, const char *format, va_list args);

/* The file that it is about, and the keys that may stand in it (NULL-terminated). */
struct complaint_subject {
	const char *path;
	const char *text;
	const char *const *keys;
};

/* Sets *e to "path:line: key: what is wrong"; returns -1. */
int complaint_tell(const struct complaint *c, cyaml_err_t code,
	const struct complaint_subject *about, struct err *e);

#endif
