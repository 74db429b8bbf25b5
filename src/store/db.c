#include "store/inner.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum {
	APPLICATION = 0x686f7463, /* "hotc": whose database it is, in its header */
	/* Another process that writes keys takes milliseconds; one that was stopped, forever. */
	WRITER_WAITS_MS = 10000,
	/* On the loop's thread. Nobody keeps readers waiting but who repairs a log after a crash. */
	READER_WAITS_MS = 500,
	ROW_MAX = 4 << 20,
	OPEN_TRIES = 1000,
	OPEN_PAUSE_MS = 10,
};

/* ---- errors ---- */

static bool is_full(int code, int sys)
{
	int kind = code & 0xff;

	if (kind == SQLITE_FULL)
		return true;
	/* Only these two set it; what an earlier failure left is to be overlooked. */
	return (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN) &&
	       (sys == ENOSPC || sys == EDQUOT);
}

int db_fail(struct db *db, struct err *e)
{
	int code = sqlite3_extended_errcode(db->sqlite);
	int sys = sqlite3_system_errno(db->sqlite);
	const char *said = sqlite3_errmsg(db->sqlite);

	if (is_full(code, sys)) {
		errno = ENOSPC;
		return err_sys(e, "write to the database");
	}
	switch (code & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_set(e, ERR_SYSTEM,
			"the database hotcell.db is damaged (%s): bring it back from a copy, or move it away to begin with an empty one",
			said);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(e, ERR_SYSTEM,
			"the database hotcell.db is held by another process, and was not let go in time");
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
		errno = sys ? sys : EACCES;
		return err_sys(e,
			"the database hotcell.db and its directory must be readable and writable by this user (%u)",
			(unsigned)geteuid());
	case SQLITE_CONSTRAINT:
		return err_set(e, ERR_INPUT, "it is there already (%s)", said);
	case SQLITE_TOOBIG:
		return err_set(e, ERR_LIMIT, "too large for the database");
	case SQLITE_IOERR:
		errno = sys ? sys : EIO;
		return err_sys(e, "the database hotcell.db (%s)", said);
	default:
		return err_set(e, ERR_SYSTEM, "the database hotcell.db: %s", said);
	}
}

/* ---- statements ---- */

sqlite3_stmt *db_query(struct db *db, enum query which, struct err *e)
{
	sqlite3_stmt **kept = &db->kept[which];

	if (!*kept && sqlite3_prepare_v3(db->sqlite, query_texts[which], -1,
			      SQLITE_PREPARE_PERSISTENT, kept, NULL) != SQLITE_OK) {
		db_fail(db, e);
		return NULL;
	}
	return *kept;
}

int db_step(struct db *db, sqlite3_stmt *query, struct err *e)
{
	switch (sqlite3_step(query)) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return db_fail(db, e);
	}
}

int db_run(struct db *db, enum query which, struct err *e)
{
	auto_query query = db_query(db, which, e);

	return query ? db_step(db, query, e) : -1;
}

void db_bind(sqlite3_stmt *query, int at, const char *text)
{
	sqlite3_bind_text(query, at, text, -1, SQLITE_STATIC);
}

char *db_text(sqlite3_stmt *query, int column)
{
	const unsigned char *text = sqlite3_column_text(query, column);

	return text ? xstrdup((const char *)text) : NULL;
}

void db_id(sqlite3_stmt *query, int column, char ret[STORE_ID_SIZE])
{
	const unsigned char *text = sqlite3_column_text(query, column);

	snprintf(ret, STORE_ID_SIZE, "%s", text ? (const char *)text : "");
}

/* ---- opening ---- */

static int run_text(struct db *db, const char *text, struct err *e)
{
	return sqlite3_exec(db->sqlite, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_fail(db, e);
}

static int read_number(struct db *db, const char *text, int *ret, struct err *e)
{
	sqlite3_stmt *query = NULL;
	int failed = 0;

	if (sqlite3_prepare_v2(db->sqlite, text, -1, &query, NULL) != SQLITE_OK)
		return db_fail(db, e);
	if (sqlite3_step(query) == SQLITE_ROW)
		*ret = sqlite3_column_int(query, 0);
	else
		failed = db_fail(db, e);
	sqlite3_finalize(query);
	return failed;
}

static int open_connection(struct db *db, const char *path, int flags, struct err *e)
{
	/* A connection belongs to one thread at a time, by our own locks. */
	int code = sqlite3_open_v2(path, &db->sqlite, flags | SQLITE_OPEN_NOMUTEX, NULL);

	if (!db->sqlite)
		return err_set(e, ERR_SYSTEM, "no memory for the database");
	if (code != SQLITE_OK)
		return db_fail(db, e);
	sqlite3_extended_result_codes(db->sqlite, 1);
	sqlite3_limit(db->sqlite, SQLITE_LIMIT_LENGTH, ROW_MAX);
	/* What is in the file is not to be run, whoever wrote it. */
	sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return 0;
}

/* Before anything is written to it. */
static int check_version(struct db *db, int *ret_version, struct err *e)
{
	int version = 0;
	int application = 0;
	int tables = 0;

	if (read_number(db, "PRAGMA user_version", &version, e) ||
		read_number(db, "PRAGMA application_id", &application, e) ||
		read_number(db, "SELECT count(*) FROM sqlite_schema", &tables, e))
		return -1;
	if (application != APPLICATION && (tables || version || application))
		return err_set(e, ERR_INPUT,
			"hotcell.db is a database of another program: move it away, or name another directory");
	if (version > QUERY_VERSION)
		return err_set(e, ERR_INPUT,
			"hotcell.db has version %d, and this hotcell knows versions up to %d: use the newer hotcell that made it, or name another directory",
			version, QUERY_VERSION);
	*ret_version = version;
	return 0;
}

static int use_log(struct db *db, struct err *e)
{
	sqlite3_stmt *query = NULL;
	int failed = 0;

	if (sqlite3_prepare_v2(db->sqlite, "PRAGMA journal_mode = WAL", -1, &query, NULL) !=
		SQLITE_OK)
		return db_fail(db, e);
	if (sqlite3_step(query) != SQLITE_ROW)
		failed = db_fail(db, e);
	else if (strcmp((const char *)sqlite3_column_text(query, 0), "wal") != 0)
		failed = err_set(e, ERR_UNAVAILABLE,
			"the file system cannot share memory between processes, which the database needs: name a directory on a local disk");
	sqlite3_finalize(query);
	return failed;
}

static int make_tables(struct db *db, struct err *e)
{
	char end[128];
	int version = 0;

	if (run_text(db, "BEGIN IMMEDIATE", e))
		return -1;
	/* Again: another process may have been quicker. */
	if (check_version(db, &version, e))
		return -1;
	for (int i = version; i < QUERY_VERSION; i++) {
		if (run_text(db, query_steps[i], e))
			return -1;
	}
	snprintf(end, sizeof(end), "PRAGMA user_version = %d; PRAGMA application_id = %d; COMMIT",
		QUERY_VERSION, APPLICATION);
	return run_text(db, end, e);
}

static int prepare(struct db *db, struct err *e)
{
	int version = 0;

	/* All at one moment: another process may be about to make the tables. */
	if (run_text(db, "BEGIN", e) || check_version(db, &version, e) ||
		run_text(db, "COMMIT", e) || use_log(db, e) ||
		run_text(db, "PRAGMA synchronous = FULL", e) ||
		/* What a single large batch made of it need not stay. */
		run_text(db, "PRAGMA journal_size_limit = 16777216", e))
		return -1;
	return version < QUERY_VERSION ? make_tables(db, e) : 0;
}

int db_open_writer(struct db *db, const char *path, struct err *e)
{
	const struct timespec pause = { .tv_nsec = OPEN_PAUSE_MS * 1000000L };

	if (open_connection(db, path, SQLITE_OPEN_READWRITE, e))
		return -1;
	sqlite3_busy_timeout(db->sqlite, WRITER_WAITS_MS);
	/* It falls back on reading without a word. */
	if (sqlite3_db_readonly(db->sqlite, "main") == 1)
		return err_set(e, ERR_SYSTEM,
			"the database hotcell.db must be writable by this user (%u)",
			(unsigned)geteuid());
	/* Two that change the mode of a new database get in each other's way, and are not made to
	 * wait as all others are. */
	for (int i = 0; prepare(db, e); i++) {
		int code = sqlite3_errcode(db->sqlite) & 0xff;

		if (!sqlite3_get_autocommit(db->sqlite))
			sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
		if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || i == OPEN_TRIES)
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int db_open_reader(struct db *db, const char *path, struct err *e)
{
	if (open_connection(db, path, SQLITE_OPEN_READONLY, e))
		return -1;
	sqlite3_busy_timeout(db->sqlite, READER_WAITS_MS);
	return 0;
}

void db_close(struct db *db)
{
	for (int i = 0; i < QUERY_COUNT; i++)
		sqlite3_finalize(db->kept[i]);
	sqlite3_close(db->sqlite);
	*db = (struct db){ 0 };
}
