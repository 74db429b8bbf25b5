/* store, from the inside.
 *
 *	loop's thread                               writer's thread
 *	reads     s->reader                         waits for s->waiting, or for history that is due
 *	writes    struct op --s->waiting-->         writer.c: bytes, then all rows in one transaction
 *	          done()    <--s->finished--        then the eventfd
 *
 * s->lock guards the lists between the two. s->writing guards s->writer, the connection that
 * writes: keys and lost sessions are written by whoever asks, who waits. */
#ifndef HOTCELL_STORE_INNER_H
#define HOTCELL_STORE_INNER_H

#include "base/buf.h"
#include "base/own.h"
#include "store/queries.h"
#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>

/* ---- db.c: a connection to the database ---- */

struct db {
	sqlite3 *sqlite;
	sqlite3_stmt *kept[QUERY_COUNT]; /* prepared when first used */
};

/* The one that writes makes and renews tables. Half-open is closed by db_close() too. */
int db_open_writer(struct db *db, const char *path, struct err *e);
int db_open_reader(struct db *db, const char *path, struct err *e);
void db_close(struct db *db);

/* A statement to bind and step; NULL with *e. Only one of each can be in use at a time. */
sqlite3_stmt *db_query(struct db *db, enum query which, struct err *e);
/* 1 = there is a row, 0 = no more, -1 with *e. */
int db_step(struct db *db, sqlite3_stmt *query, struct err *e);
/* For statements without arguments and rows. */
int db_run(struct db *db, enum query which, struct err *e);
/* Puts what the database said last into words. */
int db_fail(struct db *db, struct err *e);

void db_bind(sqlite3_stmt *query, int at, const char *text);
/* To be freed; NULL if it is NULL. */
char *db_text(sqlite3_stmt *query, int column);
void db_id(sqlite3_stmt *query, int column, char ret[STORE_ID_SIZE]);

/* A read that is not reset would keep the log from being taken into the database. */
static inline void own_query(sqlite3_stmt **query)
{
	if (!*query)
		return;
	sqlite3_reset(*query);
	sqlite3_clear_bindings(*query);
}
#define auto_query __attribute__((cleanup(own_query))) sqlite3_stmt *

/* ---- writer.c: what is to be written, and the thread that does ---- */

/* A file whose row is gone, or will be with the transaction. */
struct removed {
	char id[STORE_ID_SIZE];
	char *owner;
	uint64_t size_bytes;
};

struct op {
	struct op *next;
	/* Its rows, on the writer's thread, within a transaction. May be called a second time if
	 * the first one came to nothing. */
	int (*write)(struct store *s, struct op *op, struct err *e);
	/* On the loop's thread, before done(). Or NULL. */
	void (*finish)(struct store *s, struct op *op);
	store_done *done; /* or NULL */
	void *context;

	bool failed;
	bool has_rows; /* nothing failed before its rows were due */
	struct err err;

	/* What it is about; each kind of op has some of it. */
	char *id;
	struct store_file file;
	struct store_session session;
	struct store_language language;
	double time_s;
	uint64_t count;

	int blob_fd;    /* or -1 */
	bool blob_kept; /* has its name */
	struct removed *removed;
	size_t removed_count;
	bool has_more; /* did a part; the rest is another op's */
};

struct op_list {
	struct op *head;
	struct op *tail;
};

struct op *op_new(int (*write)(struct store *s, struct op *op, struct err *e), store_done *done,
	void *context);
/* It will not be written, and be told so. */
void op_fail(struct op *op, const struct err *e);
void op_add_removed(struct op *op, const char *id, sqlite3_stmt *query, int owner, int size);

/* Takes it. */
void writer_submit(struct store *s, struct op *op);
int writer_start(struct store *s, struct err *e);
/* Writes what waits; all is told before. */
void writer_stop(struct store *s);

/* ---- the store ---- */

struct waiting_run {
	struct waiting_run *next;
	struct store_run run;
	size_t bytes;
};

struct run_list {
	struct waiting_run *head;
	struct waiting_run *tail;
	size_t bytes;
	unsigned count;
};

struct store {
	char *dir;
	int dir_fd;
	int files_fd;
	bool files_synced; /* all directories in it are known to be on the disk; the writer's */
	int event_fd;
	struct db reader;
	void *owners;  /* owners.c */
	bool has_keys; /* as it was at keys_looked_us; 0: not known */
	int64_t keys_looked_us;
	unsigned outstanding; /* ops that were not told about yet */
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t writing;
	struct db writer;

	pthread_mutex_t lock;
	pthread_cond_t wake; /* by the monotonic clock */
	struct op_list waiting;
	struct op_list finished;
	struct run_list runs_waiting;
	struct run_list runs_writing; /* the writer's: no list that it holds is changed by others */
	int64_t runs_due_us;          /* when those that wait are written */
	bool stopping;
};

/* Since 1970. */
double store_now_s(void);
/* Between these two the caller is the only one who writes. The second commits, or takes all back if
 * `failed`; gives -1 if so, or if that fails. */
int store_begin(struct store *s, struct err *e);
int store_end(struct store *s, bool failed, struct err *e);
/* Runs a query that removes what has this id. ERR_NOT_FOUND if nothing has. */
int store_write_removed(
	struct store *s, enum query which, const char *what, const char *id, struct err *e);
/* ERR_INPUT if it is NULL, ERR_LIMIT if it is longer than `max` bytes. */
int store_check_text(const char *what, const char *text, size_t max, struct err *e);

/* ---- blobs.c: bytes ---- */

/* Gives each op that has a blob its file: synced, named, its directory synced. */
void blobs_keep(struct store *s, struct op *batch);
/* Takes the name of each away again, if the op failed. */
void blobs_settle(struct store *s, struct op *batch);
/* The bytes of files whose rows are gone. */
void blobs_remove(struct store *s, const struct op *op);
/* The same, so that their room can be used at once. */
void blobs_remove_now(struct store *s, const struct op *op);
/* Bytes without rows, rows without bytes. */
int blobs_sweep(struct store *s, struct err *e);

/* ---- owners.c: how much each has stored, on the loop's thread ---- */

void owners_add(struct store *s, const char *owner, uint64_t files, uint64_t bytes);
/* One file less. */
void owners_take(struct store *s, const char *owner, uint64_t bytes);
uint64_t owners_bytes(const struct store *s, const char *owner);
void owners_free(struct store *s);
/* files.c: as the database has it. */
int files_count_owners(struct store *s, struct err *e);

/* ---- runs.c: history, for the writer's thread ---- */

/* Whether some are to be written now. Under s->lock. */
bool runs_are_due(const struct store *s);
/* Takes a number of those that wait and writes them; they wait again if that fails. */
void runs_write(struct store *s);
void runs_free(struct run_list *list);

#endif
