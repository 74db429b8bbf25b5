/* table: THE table of settings. Flags, environment, file, --print-config, --help, the manual and error texts come from
 * it; nothing else in config knows a setting's name. */
#ifndef HOTCELL_CONFIG_TABLE_H
#define HOTCELL_CONFIG_TABLE_H

#include "config/config.h"

enum config_kind {
	CONFIG_TEXT,   /* char *; UTF-8 of `least` to `most` bytes */
	CONFIG_PATH,   /* char *; absolute */
	CONFIG_NUMBER, /* uint64_t, as the next three */
	CONFIG_SIZE,   /* "256M"; a bare number is bytes */
	CONFIG_MS,     /* "2s", "500ms"; a bare number is milliseconds */
	CONFIG_S,      /* the same, in whole seconds; a bare number is seconds */
	CONFIG_YES_NO, /* bool */
	CONFIG_LIST,   /* struct config_list of texts */
	CONFIG_PATHS,  /* struct config_list of paths */
	CONFIG_CHOICE, /* an enum: the index of a word in `choices` */
};

struct config_row {
	const char *group; /* the title above it, at the first row of a group */
	const char *name;
	enum config_kind kind;
	size_t offset;          /* in struct config */
	const char *by_default; /* as one would type it */
	uint64_t least;
	uint64_t most;
	const char *meaning;
	/* Where they apply: */
	char *(*find_default)(
		void);    /* in place of by_default, which then says it in words. NULL: not known */
	const char *none; /* for a path: the word that stands for none */
	const char *const *choices;         /* ends with NULL */
	bool (*is_entry)(const char *text); /* of a list: whether one of its texts can be meant, */
	const char *entries;                /* and what they are */
	const char *under;    /* the setting whose number this one's must not exceed */
	const char *old_name; /* in the environment */
	uint64_t old_scale;   /* its number is times this */
};

extern const struct config_row config_rows[];
enum { CONFIG_ROWS = 48 };

/* NULL if there is none. */
const struct config_row *config_find_row(const char *name);

#endif
