/* remote: a run on a server, from the same options as one on this machine.
 *
 *	options --remote_request--> JSON --POST …/stream--> events --remote_run--> our output
 *	                                                      result --remote_report--> exit status
 *	                                                      files  --remote_files--> --output-dir */
#ifndef HOTCELL_CLI_REMOTE_H
#define HOTCELL_CLI_REMOTE_H

#include "cli/client.h"
#include "cli/options.h"

/* Files that were stored for a run, and are removed behind it. */
struct remote_uploads {
	char (*ids)[CLIENT_ID_SIZE];
	size_t count;
};

/* The body for POST /v1/execute and the like; NULL with *e. May ask the server for its languages, and store
 * files there. */
json_t *remote_request_make(
	struct client *c, struct run_options *o, struct remote_uploads *uploads, struct err *e);
void remote_uploads_remove(struct client *c, struct remote_uploads *uploads);

/* Files as the list `files` of a request: those of `inputs`, and what is in them. NULL with *e. */
json_t *remote_inputs_json(struct client *c, const struct hotcell_input *inputs, size_t count,
	struct remote_uploads *uploads, struct err *e);
json_t *remote_limits_json(const struct hotcell_limits *limits);
/* Texts "NAME=value" as an object. NULL with *e. */
json_t *remote_env_json(const char *const *env, unsigned count, struct err *e);
/* An open file of this machine that is to be sent; its size is in *ret_size. */
int remote_inputs_open(const char *path, int *ret_fd, uint64_t *ret_size, struct err *e);
const char *remote_isolation_name(enum hotcell_isolation isolation);

/* A directory that generated files are written to, and to no place outside of it. */
int remote_files_open_dir(const char *path, int *ret_fd, struct err *e);
/* Fetches what the URL path `from` gives into `path` beneath `dir_fd`, at most `most` bytes. */
struct remote_get {
	const char *from;
	int dir_fd;
	const char *path;
	uint64_t most;
};
int remote_files_get(struct client *c, const struct remote_get *get, struct err *e);
/* The same to where people say; NULL: to our own output, unless that is a terminal. */
int remote_files_save(struct client *c, const char *from, const char *to, struct err *e);
/* All of a result's `files` to `dir_fd`; those that cannot be had are complained of. -1: there were such. */
int remote_files_fetch(struct client *c, json_t *files, int dir_fd, uint64_t most);

/* Remarks, --json and --stats; then the exit status. `result` is complete but for what is missing from it. */
int remote_report(const struct run_options *o, json_t *result);
/* The exit status that `hotcell run` has for such a result. */
int remote_exit_status(json_t *result);

/* Runs it and returns the exit status. */
int remote_run(struct run_options *o);

#endif
