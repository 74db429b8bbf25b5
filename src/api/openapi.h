/* openapi: the description of the API that clients and /docs read.
 *
 *	routes.c                       methods, paths and their parameters, summaries, who may
 *	src/api/openapi/operations.json  what else there is to say of each: its body, its answers
 *	src/api/openapi/schemas.json     what bodies and answers look like
 *	the settings                   bounds and defaults, where they are settings
 *
 * The first three are joined here; a test sees to it that none says more than the others. */
#ifndef HOTCELL_API_OPENAPI_H
#define HOTCELL_API_OPENAPI_H

#include "config/config.h"

#include <jansson.h>

struct api;

/* The whole document. */
json_t *openapi_make(const struct config *config);
/* The settings have changed, or nobody will ask again: what was kept of it for `api` is let go. */
void openapi_forget(struct api *api);

#endif
