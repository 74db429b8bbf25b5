/* store: what a service must not forget: files, sessions, keys, languages, and the history of runs.
 *
 *	DIR/hotcell.db      SQLite (WAL): an index of all of it
 *	DIR/files/ab/ID     the bytes of stored files, one each
 *
 * Reading is a call on the loop's thread: rows are few and in memory. Writing is a job for the
 * store's own thread, which takes all that waits in one transaction, syncs it to the disk once, and
 * then tells each caller by way of the loop: store_fd() becomes readable, store_dispatch() calls
 * `done`. What was told to be done outlives a kill -9 and a power cut. History is the exception: it
 * waits for up to a second, for others like it.
 *
 * A file's bytes are collected in a file without a name, so that a crash leaves nothing; it gets its
 * name when its row is written. All functions belong to the loop's thread. */
#ifndef HOTCELL_STORE_STORE_H
#define HOTCELL_STORE_STORE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum {
	STORE_ID_SIZE = 37,       /* a UUID of version 4, with its NUL */
	STORE_NAME_MAX = 4096,    /* bytes of a name or an owner */
	STORE_JSON_MAX = 1 << 20, /* bytes of JSON or YAML */
	STORE_LIST_MAX = 10000,   /* rows of any list */
};

/* e is NULL if all went well; e->sys_errno is ENOSPC if the disk, or our share of it, is full;
 * ERR_LIMIT if something is over one of the limits above. Never called before the function that was
 * given it has returned. */
typedef void store_done(void *context, const struct err *e);

/* For the service, of which a directory has one at a time. Makes the directory and the tables if
 * need be (mode 0700, 0600), removes bytes without a row and rows without bytes. Refuses a database
 * of a newer version than ours. */
int store_open(const char *dir, struct store **ret, struct err *e);
/* For the command line, beside a service that may run: keys only, and nothing is removed. What root
 * makes belongs to whom the directory belongs to. */
int store_open_keys(const char *dir, struct store **ret, struct err *e);
/* Writes what waits; every `done` is called. Accepts NULL. */
void store_close(struct store *s);
int store_fd(const struct store *s);
void store_dispatch(struct store *s);
/* How many writes were not told about yet. */
unsigned store_queued(const struct store *s);

void store_make_id(char ret[STORE_ID_SIZE]);
/* Begins with the time, so that history grows at its end and nowhere else: five pages less to write for each run. */
void store_make_run_id(char ret[STORE_ID_SIZE]);
/* Whether it has the form of one: what has not is never looked for. */
bool store_is_id(const char *text);

/* ---- files ---- */

struct store_file {
	char id[STORE_ID_SIZE];
	char *owner;         /* the id of a key */
	char *name;          /* as its owner called it: any UTF-8 */
	uint64_t size_bytes; /* store_add_file() looks for itself */
	double created_s;    /* since 1970 */
	double expires_s;    /* 0 = never */
};

/* A file without a name to write bytes into. -1 with *e. */
int store_open_blob(struct store *s, struct err *e);
/* Keeps `blob_fd` (which it takes and closes) as file->id; copies *file. */
void store_add_file(struct store *s, const struct store_file *file, int blob_fd, store_done *done,
	void *context);
/* `done` may be NULL here and below. Tells ERR_NOT_FOUND if there is none: so two who remove the
 * same file are told different things. */
void store_remove_file(struct store *s, const char *id, store_done *done, void *context);
/* 0, or -1 with ERR_NOT_FOUND: not there, another owner's (NULL = anyone's), or expired. */
int store_find_file(
	struct store *s, const char *id, const char *owner, struct store_file *ret, struct err *e);
/* Where its bytes are; to be freed. They may go away before they are opened. */
char *store_file_path(const struct store *s, const char *id);
/* Its bytes, for reading. */
int store_open_file(struct store *s, const char *id, struct err *e);
/* An owner's files, oldest first; the newest STORE_LIST_MAX. */
int store_list_files(struct store *s, const char *owner, struct store_file **ret, size_t *ret_count,
	struct err *e);
/* How much an owner has stored, in files that have not expired; those on their way included. */
uint64_t store_owner_bytes(struct store *s, const char *owner);
/* Removes what has expired by now. */
void store_expire_files(struct store *s);
void store_file_free(struct store_file *file);
void store_files_free(struct store_file *files, size_t count);

/* ---- sessions: what there was, so that a client can be told what became of it ---- */

struct store_session {
	char id[STORE_ID_SIZE];
	char *owner;
	char *config_json;
	char *lost; /* why it is no more; NULL while it lives */
	double created_s;
	double expires_s;
};

/* Adds it, or replaces what is there. */
void store_put_session(
	struct store *s, const struct store_session *session, store_done *done, void *context);
void store_remove_session(struct store *s, const char *id, store_done *done, void *context);
int store_find_session(struct store *s, const char *id, const char *owner,
	struct store_session *ret, struct err *e);
/* All that live are lost from now on: the service has started, and has no cell of theirs. Forgets those that were
 * lost before `older_than_s`. */
int store_lose_sessions(struct store *s, const char *why, double older_than_s, struct err *e);
/* The second half of it alone, from time to time. */
void store_forget_sessions(struct store *s, double older_than_s);
void store_session_free(struct store_session *session);

/* ---- keys ---- */

struct store_key {
	char id[STORE_ID_SIZE];
	char *name;
	char *rights_json; /* quotas and rights, as the service understands them */
	double created_s;
	double revoked_s; /* 0 = it is good */
};

/* Keys are changed by the command line, beside a service that runs: these wait until it is durable.
 * `hash` is 32 bytes. ERR_INPUT if the name is taken by a key that is good, or looks like an id. */
int store_add_key(
	struct store *s, const struct store_key *key, const uint8_t hash[32], struct err *e);
/* By name or id. */
int store_revoke_key(struct store *s, const char *name, double now_s, struct err *e);
/* The key with this hash that is not revoked. */
int store_find_key(struct store *s, const uint8_t hash[32], struct store_key *ret, struct err *e);
int store_list_keys(struct store *s, struct store_key **ret, size_t *ret_count, struct err *e);
/* Whether there ever was one: a revoked one counts, or to revoke the last would let everybody in. True also if that
 * cannot be read, so that no door opens. Of a few milliseconds ago: every request asks. */
bool store_has_keys(struct store *s);
void store_key_free(struct store_key *key);
void store_keys_free(struct store_key *keys, size_t count);

/* ---- languages that were registered at run time ---- */

struct store_language {
	char *id;
	char *owner;
	char *yaml;
	double created_s;
};

void store_put_language(
	struct store *s, const struct store_language *language, store_done *done, void *context);
void store_remove_language(struct store *s, const char *id, store_done *done, void *context);
int store_list_languages(
	struct store *s, struct store_language **ret, size_t *ret_count, struct err *e);
void store_languages_free(struct store_language *languages, size_t count);

/* ---- history ---- */

struct store_run {
	char id[STORE_ID_SIZE];
	char *owner;
	char *session;      /* or NULL */
	char *summary_json; /* never code or output */
	double started_s;
};

/* Batched: written within a second, or lost with the process. While the disk is full they wait, up
 * to some 64 MiB. */
void store_add_run(struct store *s, const struct store_run *run);
int store_find_run(
	struct store *s, const char *id, const char *owner, struct store_run *ret, struct err *e);
/* The newest first; waiting ones included. */
int store_list_runs(struct store *s, const char *owner, unsigned limit, struct store_run **ret,
	size_t *ret_count, struct err *e);
/* Forgets all but the newest `keep`. */
void store_trim_runs(struct store *s, uint64_t keep);
void store_run_free(struct store_run *run);
void store_runs_free(struct store_run *runs, size_t count);

#endif
