/* sessions: cells and workspaces that outlive a run.
 *
 *	strategy        cell                       workspace
 *	per_session     one, kept with the         in that cell; isolated: emptied before each run
 *	                interpreter's variables
 *	per_execution   a new one for each run     isolated: the session's files, anew each time;
 *	                                           shared: what a run leaves, the next one finds
 *	pool            a warm one for each run    isolated: likewise
 *
 * What is not in a cell is in a directory of the service's (mirror.h). One thing at a time is done in a session,
 * in the order in which it was asked for: struct session_turn.
 *
 *	OPENING --cell and files are there--> LIVE --deleted, expired, cell gone--> ENDED
 */
#ifndef HOTCELL_SERVICE_SESSIONS_H
#define HOTCELL_SERVICE_SESSIONS_H

#include "base/list.h"
#include "base/map.h"
#include "service/caller.h"
#include "service/engine.h"
#include "service/spec.h"

#include <jansson.h>

struct service;
struct job;
struct session;

enum session_strategy { SESSION_PER_SESSION, SESSION_PER_EXECUTION, SESSION_POOL };

struct session_turn {
	struct list link;
	struct session *session;
	/* Its turn; session_turn_end() gives it on. `gone`: the session has ended, there will be no turn. */
	void (*on_turn)(struct session_turn *turn, const char *gone);
};

/* A cell that it has, or had. */
struct session_cell {
	const char *isolation;
	double created_s;
	double ended_s; /* 0: it lives */
	char why[160];
	uint64_t runs;
};

enum { SESSION_CELLS_MAX = 32 };

/* What it is to be like. */
struct session_config {
	char *language;
	enum hotcell_isolation isolation;
	enum session_strategy strategy;
	bool is_shared;
	char **env; /* NULL-terminated, or NULL */
	enum hotcell_network network;
	struct hotcell_limits limits;
	char *user;
	char *profile;
	struct spec_file *files;
	size_t files_count;
	uint64_t ttl_s;
	uint64_t idle_timeout_s; /* 0: none */
};

struct session {
	struct list link; /* among all, in order of creation */
	struct service *service;
	char id[STORE_ID_SIZE];
	struct caller caller;
	struct session_config config;
	struct engine *engine;
	struct hotcell_cell *cell;   /* per_session */
	struct mirror *mirror;       /* else */
	struct session_cell cells[SESSION_CELLS_MAX]; /* the last ones */
	unsigned cells_count;                         /* of all that there were */
	struct list turns;
	struct session_turn *turn; /* whose it is */
	struct job *job;           /* that has it */
	double created_s;
	double last_used_s;
	double expires_s;
	uint64_t runs;
	struct map known_files; /* by path: what was there when the last run ended */
	bool keeps_state;
	bool has_state; /* the interpreter has run, and is there */
	bool has_ended;
	char why[200]; /* it has */
	unsigned references;
	/* While it opens, and after a run that it tidies up behind. */
	struct session_turn own_turn;
	struct session_opening *opening;
	struct engine_op op;
	struct hotcell_input *inputs;
};

struct sessions {
	struct service *service;
	struct map by_id;
	struct list all;
};

void sessions_open(struct sessions *all, struct service *s);
void sessions_close(struct sessions *all);
/* Every second. */
void sessions_tick(struct sessions *all);

/* Takes what the config holds. The session is there at once; on_ready is told when its files are in place and it is
 * durable. -1 with *e, and HTTP's status in *ret_status (0: by the error). */
struct session_opening {
	void (*on_ready)(struct session_opening *opening, const struct hotcell_error *failure);
};
struct session *session_new(struct service *s, const struct caller *caller, struct session_config *config,
	struct session_opening *opening, int *ret_status, struct hotcell_error *e);
/* NULL with *e: there is none of that name and owner; the text says what became of it. */
struct session *session_find(struct service *s, const char *id, const char *owner, struct hotcell_error *e);
/* Ends it, as its owner wishes. */
void session_delete(struct session *session, store_done *done, void *context);
/* Ends it otherwise: what runs is cancelled, what waits is told. `why` for those who come late. */
void session_end(struct session *session, const char *why);
void session_hold(struct session *session);
void session_release(struct session *session);
/* Durable when `done` is called. */
void session_save(struct session *session, store_done *done, void *context);
unsigned sessions_count(const struct sessions *all, const char *owner);
json_t *session_describe(const struct session *session);
void session_config_free(struct session_config *config);

/* ---- turns ---- */
void session_wait(struct session *session, struct session_turn *turn);
void session_turn_end(struct session_turn *turn);
/* One that waits no more. */
void session_turn_forget(struct session_turn *turn);

/* ---- for jobs ---- */
void session_enter(struct session *session, struct job *job);
void session_forget(struct session *session, struct job *job);
struct engine *session_engine(struct session *session);
/* The cell and the files for a run in it. */
int session_fill_request(struct session *session, struct job *job, struct hotcell_request *q, struct hotcell_error *e);
/* Whether what the run has left stays with the session; then it was taken in. */
bool session_takes_files(struct session *session, struct job *job);
/* It is over, however it was: the next one's turn. */
void session_run_ended(struct session *session, struct job *job);

#endif
