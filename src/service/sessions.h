/* sessions: cells and workspaces that outlive a run.
 *
 *	strategy        cell                       workspace
 *	per_session     one, kept with the         shared: in that cell; what a run leaves, the next one finds
 *	                interpreter's variables    isolated: the session's files, anew for each run
 *	per_execution   a new one for each run     shared or isolated, likewise
 *	pool            a warm one for each run    isolated
 *
 * What is not in a cell is in a directory of the service's (mirror.h): all but the files of per_session, shared.
 * One thing at a time is done in a session, in the order in which it was asked for: struct session_turn.
 *
 *	OPENING --cell and files are there--> LIVE --deleted, expired, cell gone--> ENDED
 *
 * One that has ended is found no more; its cell and its files go when nobody has the turn, the rest of it when
 * nobody holds it. */
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

struct session_file {
	char *path;
	const char *kind; /* as in struct hotcell_file */
	uint64_t size_bytes;
	bool generated; /* left by a run, not put there */
	bool is_executable;
	char *target; /* of a symlink, whatever the program chose; or NULL */
};

/* What was asked for. */
struct session_found {
	struct session_file *files; /* LIST: sorted by path */
	size_t count;
	bool is_incomplete;
	int fd; /* GET: from its start; else -1 */
	uint64_t size_bytes;
};

struct session_turn {
	struct list link;
	struct session *session; /* while it waits, and while it is its turn */
	/* Its turn; session_turn_end() gives it on. `gone`: the session has ended, there will be no turn. */
	void (*on_turn)(struct session_turn *turn, const char *gone);
	/* What session_files() came to. `found` is for it to free, and NULL on failure. */
	void (*on_files)(
		struct session_turn *turn, struct session_found *found, const struct err *failure);
};

/* A cell that it has, or had. */
struct session_cell {
	const char *isolation;
	double created_s;
	double ended_s; /* 0: it lives */
	char why[160];
	uint64_t runs;
};

enum {
	SESSION_CELLS_MAX = 32,  /* that are remembered */
	SESSION_TURNS_MAX = 256, /* that wait; further ones are sent away */
};

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
	struct hotcell_mount *mounts; /* its strings too */
	size_t mounts_count;
	struct spec_file *files;
	size_t files_count;
	uint64_t ttl_s;
	uint64_t idle_timeout_s; /* 0: none */
};

struct session {
	struct list link; /* among all, in order of creation; or among those that end */
	struct service *service;
	char id[STORE_ID_SIZE];
	struct caller caller;
	struct session_config config;
	struct engine *engine;
	struct hotcell_cell *cell; /* per_session's; or that of the run that goes on */
	struct mirror *mirror;     /* its files, unless they are in the cell */
	struct session_cell cells[SESSION_CELLS_MAX]; /* the last ones */
	unsigned cells_count;                         /* of all that there were */
	struct list turns;
	unsigned turns_count;
	struct session_turn *turn; /* whose it is */
	bool gives_turns;          /* next_turn() is at it */
	struct job *job;           /* that has it */
	double created_s;
	double last_used_s;
	double expires_s;
	uint64_t runs;
	bool keeps_state;
	bool has_state; /* the interpreter has run, and is there */
	bool is_being_deleted; /* the store is asked to forget it, and has not answered: nobody else finds it */
	bool has_ended;
	char why[200]; /* it has */
	unsigned references;
	struct session_turn own_turn; /* while it opens, and after a run that it tidies up behind */
	struct session_opening *opening;
	struct hotcell_input *inputs; /* it begins with */
	struct engine_op op;          /* what whoever has the turn does with files in the cell */
	enum hotcell_files_kind doing;
	int got_fd;
};

struct sessions {
	struct service *service;
	struct map by_id;
	struct list all;
	struct list ending; /* no more of those, but with a cell or files */
	struct map lost;    /* likewise: why, is not written yet */
};

void sessions_open(struct sessions *all, struct service *s);
void sessions_close(struct sessions *all);
/* Every second. */
void sessions_tick(struct sessions *all);

struct session_opening {
	/* Its files are in place and it is durable; or it is no more. May come before session_new() has returned. */
	void (*on_ready)(struct session_opening *opening, struct session *session,
		const struct err *failure);
};
/* Takes what the config holds. -1 with *e, and HTTP's status in *ret_status (0: by the error). */
int session_new(struct service *s, const struct caller *caller, struct session_config *config,
	struct session_opening *opening, int *ret_status, struct err *e);
/* NULL with *e: there is none of that name and owner; the text says what became of it. */
struct session *session_find(
	struct service *s, const char *id, const char *owner, struct hotcell_error *e);
/* Ends it, as its owner wishes, once the store has forgotten it; if that fails it lives on. Until then it is found no
 * more, and nothing is written of it. `done` as of the store; at once, if another one is at it. */
void session_delete(struct session *session, store_done *done, void *context);
/* Ends it otherwise: what runs is cancelled, what waits is told. `why` for those who come late. */
void session_end(struct session *session, const char *why);
void session_hold(struct session *session);
void session_release(struct session *session);
/* Durable when `done` is called. One that is being deleted, or has ended, is not written: `done` is told at once. */
void session_save(struct session *session, store_done *done, void *context);
unsigned sessions_count(const struct sessions *all, const char *owner);
/* When the next of an owner's sessions ends by itself, or of all if it has none: at most so many seconds from now. */
unsigned sessions_retry_after_s(const struct sessions *all, const char *owner);
/* Without its files. */
json_t *session_describe(const struct session *session);
void session_config_free(struct session_config *config);

/* ---- turns ---- */
/* Whether so many wait that no other one should. */
bool session_is_crowded(const struct session *session);
/* turn->on_turn may be called at once. The session is held as long as it takes. */
void session_wait(struct session *session, struct session_turn *turn);
/* Before all others; what runs is cancelled. */
void session_wait_first(struct session *session, struct session_turn *turn);
void session_turn_end(struct session_turn *turn);
/* One that waits no more. */
void session_turn_forget(struct session_turn *turn);

/* ---- files: session_files.c ---- */
/* For whose turn it is: something with the session's files, wherever they are. turn->on_files is told, at once or
 * later. The inputs must stay until then; `fd` does not matter. */
void session_files(struct session_turn *turn, const struct hotcell_files *what);
/* Accepts NULL. */
void session_found_free(struct session_found *found);

/* ---- for jobs ---- */
void session_enter(struct session *session, struct job *job);
void session_forget(struct session *session, struct job *job);
struct engine *session_engine(struct session *session);
/* The cell and the files for a run in it. */
int session_fill_request(struct session *session, struct job *job, struct hotcell_request *q,
	struct hotcell_error *e);
/* Whether what the run has left stays with the session; then it was taken in. */
bool session_takes_files(struct session *session, struct job *job);
/* It is over, however it was: the next one's turn. */
void session_run_ended(struct session *session, struct job *job);

#endif
