/* client: HTTP to a service.
 *
 * Whatever comes back is bounded, and what is told of it to people is plain text. Redirections are not
 * followed: they would take the key elsewhere. */
#ifndef HOTCELL_CLI_CLIENT_H
#define HOTCELL_CLI_CLIENT_H

#include "base/buf.h"
#include "base/err.h"
#include "cli/server_options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct client;

enum { CLIENT_ID_SIZE = 64 };

/* Finds the server; connects when it is asked something. */
int client_open(const struct server_options *options, struct client **ret, struct err *e);
/* Another connection to the same one, which no signal disturbs. */
struct client *client_again(const struct client *c);
void client_free(struct client *c);
/* What people call the server. */
const char *client_name(const struct client *c);

/* From now on Ctrl-C and friends, which `signal_fd` tells of, end what is asked. */
void client_watch_signals(struct client *c, int signal_fd);
/* Whether it was one of them that did. */
bool client_was_interrupted(const struct client *c);

struct client_request {
	const char *method;
	const char
		*path; /* "/v1/runs?limit=3"; what comes from outside is escaped: client_escape() */
	json_t *json;  /* the body; stays the caller's. Or */
	int body_fd;   /* a file, if has_file: sent as it is, or, with part_name, */
	bool has_file; /* as the field `file` of a form, under that name */
	uint64_t body_size;
	const char *part_name;
	unsigned patience_s; /* silence after which it is given up; 0: 60 */
	bool has_patience;   /* there is no such end: a run is silent as long as it likes */
	/* Bytes of a reply that is no refusal, as they come. Non-zero: no more of them. */
	int (*on_bytes)(void *context, const char *data, size_t len, struct err *e);
	/* A signal came. True: go on nonetheless, but no longer than patience_s from now. */
	bool (*on_interrupt)(void *context);
	void *context;
};

struct client_reply {
	long status;
	struct buf body;             /* if there is no on_bytes */
	char run_id[CLIENT_ID_SIZE]; /* X-Run-Id; "" if there is none */
};

/* 0 with a status of 200 to 299; *ret is then, and only then, to be freed. -1 with *e: it could not be
 * reached, or has refused, in its own words (ERR_NOT_FOUND: with 404). run_id and status are filled in as
 * soon as they are known. */
int client_ask(
	struct client *c, const struct client_request *q, struct client_reply *ret, struct err *e);
void client_reply_free(struct client_reply *reply);

/* The same where a JSON object comes back; NULL with *e. `q` may be NULL: a GET. */
json_t *client_ask_json(
	struct client *c, const char *method, const char *path, json_t *body, struct err *e);
/* Where nothing of interest does. */
int client_tell(
	struct client *c, const char *method, const char *path, json_t *body, struct err *e);

/* For one name of a path, or (with slashes kept) for several: to be freed. */
char *client_escape(const char *text, bool keep_slashes);
/* Whether it can be an id: of letters, digits and '-'. */
bool client_is_id(const char *text);

#endif
