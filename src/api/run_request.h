/* run_request: from the JSON of a request to what is to be run, with every check on the way. */
#ifndef HOTCELL_API_RUN_REQUEST_H
#define HOTCELL_API_RUN_REQUEST_H

#include "api/body.h"
#include "service/spec.h"

struct session;

/* Reads one run from `o`. -1 with *refusal. */
int run_request_read(struct body *b, json_t *o, struct spec *ret, struct refusal *refusal);
/* One that is run in a session (or NULL): what it does not say is as that says. */
int run_request_read_in(struct body *b, json_t *o, const struct session *session, struct spec *ret,
	struct refusal *refusal);
/* Whether `path` may name a file of a workspace; not this `reserved` one, if that is not NULL. */
int run_request_path(const char *path, const char *reserved, struct refusal *refusal);
/* The settings that runs and sessions share: isolation, network, limits, env, user, profile. */
int run_request_files(struct body *b, json_t *o, struct spec_file **ret, size_t *ret_count,
	struct refusal *refusal);
void run_request_limits(struct body *b, json_t *o, struct hotcell_limits *ret);
char **run_request_env(struct body *b, json_t *o);
enum hotcell_isolation run_request_isolation(struct body *b, json_t *o);
/* Whether a program for it is there. */
int run_request_installed(const struct hotcell_language *l, struct refusal *refusal);
/* Whether the caller may have this. */
int run_request_allow(const struct call *call, const char *language,
	enum hotcell_isolation isolation, enum hotcell_network network, struct refusal *refusal);
/* `timeout_ms`, as the contract tells of one that is too long. */
int run_request_timeout(
	struct body *b, json_t *o, uint64_t otherwise, uint64_t *ret, struct refusal *refusal);
/* "none" or "host". */
enum hotcell_network run_request_network(struct body *b, json_t *o);

#endif
