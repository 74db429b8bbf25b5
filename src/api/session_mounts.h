/* session_mounts: directories of the machine that a session's cells show, as the request says and as far as the
 * service's config allows. */
#ifndef HOTCELL_API_SESSION_MOUNTS_H
#define HOTCELL_API_SESSION_MOUNTS_H

#include "api/body.h"
#include "service/sessions.h"

/* Reads `mounts` of the body into the config, whose isolation and strategy are known. What is wrong with the form of
 * the JSON is left to body_is_good(). */
int session_mounts_read(struct body *b, struct session_config *c, struct refusal *refusal);

#endif
