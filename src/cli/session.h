/* session: `hotcell session …`. cmd_session.c has its words, the session_*.c what they do. */
#ifndef HOTCELL_CLI_SESSION_H
#define HOTCELL_CLI_SESSION_H

#include "cli/verbs.h"
#include "hotcell.h"

enum { SESSION_LIST_MAX = 256 };

struct session_command {
	struct verbs verbs; /* words[0] is the session's id, but for new and list */
	struct server_options server;
	struct client *client;
	bool json;
	const char *output;  /* get */
	bool generated;      /* files */
	bool keep_generated; /* close */
	uint64_t ttl_s;      /* new, extend */
	/* ---- new ---- */
	const char *language;
	const char *strategy;
	const char *workspace;
	const char *profile;
	const char *user;
	enum hotcell_isolation isolation;
	enum hotcell_network network;
	uint64_t idle_timeout_s;
	struct hotcell_limits limits; /* its wall_ms: bash */
	const char *env[SESSION_LIST_MAX];
	unsigned env_count;
	struct hotcell_input inputs[SESSION_LIST_MAX];
	unsigned inputs_count;
	char *owned[SESSION_LIST_MAX];
};

/* ---- session_verbs.c ---- */
int session_new(void *command);
int session_list(void *command);
int session_show(void *command);
int session_bash(void *command);
int session_interrupt(void *command);
int session_extend(void *command);
int session_close(void *command);

/* ---- session_files.c ---- */
int session_files(void *command);
int session_put(void *command);
int session_get(void *command);
int session_remove(void *command);

/* "/v1/sessions/ID" and what stands behind: to be freed. */
char *session_path(const struct session_command *s, const char *behind);
/* Prints and releases what the server said; 0, or the exit status. */
int session_print_json(json_t *value);

#endif
