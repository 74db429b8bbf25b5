/* lines: where a key stands in the text of a YAML file, for error messages only. libcyaml tells
 * lines for some mistakes and not for others, and none once a file is loaded. A guess by looking at
 * the text is right for files as people write them; a wrong one costs a glance. */
#ifndef HOTCELL_LANGUAGE_LINES_H
#define HOTCELL_LANGUAGE_LINES_H

/* The first line from `from` on (both count from 1) that has `key:`, 0 if there is none. */
unsigned lines_find_key(const char *text, const char *key, unsigned from);

/* The same for a key that starts its line, as those of the outermost mapping do. */
unsigned lines_find_top_key(const char *text, const char *key);

#endif
