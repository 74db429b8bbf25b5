/* summary: what history remembers of a run, as JSON. Never code or output. */
#ifndef HOTCELL_SERVICE_SUMMARY_H
#define HOTCELL_SERVICE_SUMMARY_H

#include <jansson.h>

struct job;

/* To be freed. */
char *summary_of(const struct job *job);
json_t *summary_json(const struct job *job);

#endif
