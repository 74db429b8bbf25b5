#include "store/queries.h"

/* Times are seconds since 1970. Never change a step that was released: add one. */
const char *const query_steps[QUERY_VERSION] = {
	"CREATE TABLE files ("
	"	id TEXT NOT NULL PRIMARY KEY,"
	"	owner TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	size INTEGER NOT NULL,"
	"	created REAL NOT NULL,"
	"	expires REAL NOT NULL" /* 0 = never */
	") STRICT;"
	"CREATE INDEX files_by_owner ON files (owner, created);"
	"CREATE INDEX files_by_expiry ON files (expires) WHERE expires > 0;"

	"CREATE TABLE sessions ("
	"	id TEXT NOT NULL PRIMARY KEY,"
	"	owner TEXT NOT NULL,"
	"	config TEXT NOT NULL,"
	"	lost TEXT," /* why */
	"	lost_at REAL NOT NULL,"
	"	created REAL NOT NULL,"
	"	expires REAL NOT NULL"
	") STRICT;"
	"CREATE INDEX sessions_by_loss ON sessions (lost_at) WHERE lost IS NOT NULL;"

	"CREATE TABLE keys ("
	"	id TEXT NOT NULL PRIMARY KEY,"
	"	name TEXT NOT NULL,"
	"	hash BLOB NOT NULL UNIQUE,"
	"	rights TEXT NOT NULL,"
	"	created REAL NOT NULL,"
	"	revoked REAL NOT NULL" /* 0 = it is good */
	") STRICT;"
	"CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked = 0;"

	"CREATE TABLE languages ("
	"	id TEXT NOT NULL PRIMARY KEY,"
	"	owner TEXT NOT NULL,"
	"	yaml TEXT NOT NULL,"
	"	created REAL NOT NULL"
	") STRICT;"

	"CREATE TABLE runs ("
	"	id TEXT NOT NULL,"
	"	owner TEXT NOT NULL,"
	"	session TEXT,"
	"	summary TEXT NOT NULL,"
	"	started REAL NOT NULL,"
	"	PRIMARY KEY (started, id)" /* by time: a new one is written behind the last */
	") STRICT, WITHOUT ROWID;"
	"CREATE UNIQUE INDEX runs_by_id ON runs (id);"
	"CREATE INDEX runs_by_owner ON runs (owner, started, id);",
};

const char *const query_texts[QUERY_COUNT] = {
	/* At once the one who writes: to become so later can fail in the middle. */
	[QUERY_BEGIN] = "BEGIN IMMEDIATE",
	[QUERY_COMMIT] = "COMMIT",
	[QUERY_ROLLBACK] = "ROLLBACK",
	[QUERY_OP_BEGIN] = "SAVEPOINT op",
	[QUERY_OP_UNDO] = "ROLLBACK TO op",
	[QUERY_OP_END] = "RELEASE op",

	[QUERY_FILE_ADD] = "INSERT INTO files (id, owner, name, size, created, expires)"
			   " VALUES (?, ?, ?, ?, ?, ?)",
	[QUERY_FILE_REMOVE] = "DELETE FROM files WHERE id = ? RETURNING owner, size",
	[QUERY_FILE_FIND] =
		"SELECT id, owner, name, size, created, expires FROM files WHERE id = ?",
	[QUERY_FILE_LIST] = "SELECT id, owner, name, size, created, expires FROM ("
			    " SELECT *, rowid AS place FROM files"
			    " WHERE owner = ?1 AND (expires = 0 OR expires > ?2)"
			    " ORDER BY created DESC, rowid DESC LIMIT ?3) ORDER BY created, place",
	[QUERY_FILE_EXPIRED] = "SELECT id FROM files WHERE expires > 0 AND expires <= ? LIMIT ?",
	[QUERY_FILE_EXPIRED_BYTES] =
		"SELECT total(size) FROM files"
		" WHERE +owner = ? AND expires > 0 AND expires <= ?", /* +: by expiry */
	[QUERY_FILE_OWNERS] = "SELECT owner, count(*), sum(size) FROM files GROUP BY owner",
	[QUERY_FILE_IDS] = "SELECT id FROM files WHERE id >= ? AND id < ? ORDER BY id",

	[QUERY_SESSION_PUT] = "REPLACE INTO sessions"
			      " (id, owner, config, lost, lost_at, created, expires)"
			      " VALUES (?, ?, ?, ?, ?, ?, ?)",
	[QUERY_SESSION_REMOVE] = "DELETE FROM sessions WHERE id = ?",
	[QUERY_SESSION_FIND] =
		"SELECT id, owner, config, lost, created, expires FROM sessions WHERE id = ?",
	[QUERY_SESSION_LOSE] = "UPDATE sessions SET lost = ?, lost_at = ? WHERE lost IS NULL",
	[QUERY_SESSION_FORGET] = "DELETE FROM sessions WHERE lost IS NOT NULL AND lost_at < ?",

	[QUERY_KEY_ADD] = "INSERT INTO keys (id, name, hash, rights, created, revoked)"
			  " VALUES (?, ?, ?, ?, ?, ?)",
	[QUERY_KEY_NAMED] = "SELECT id FROM keys WHERE name = ? AND revoked = 0",
	[QUERY_KEY_REVOKE] =
		"UPDATE keys SET revoked = ?1 WHERE (id = ?2 OR name = ?2) AND revoked = 0",
	[QUERY_KEY_FIND] = "SELECT id, name, rights, created, revoked FROM keys"
			   " WHERE hash = ? AND revoked = 0",
	[QUERY_KEY_LIST] = "SELECT id, name, rights, created, revoked FROM keys"
			   " ORDER BY revoked > 0, created, id LIMIT ?",
	[QUERY_KEY_ANY] = "SELECT 1 FROM keys LIMIT 1",

	[QUERY_LANGUAGE_PUT] =
		"REPLACE INTO languages (id, owner, yaml, created) VALUES (?, ?, ?, ?)",
	[QUERY_LANGUAGE_REMOVE] = "DELETE FROM languages WHERE id = ?",
	[QUERY_LANGUAGE_LIST] =
		"SELECT id, owner, yaml, created FROM languages ORDER BY id LIMIT ?",

	[QUERY_RUN_ADD] = "REPLACE INTO runs (id, owner, session, summary, started)"
			  " VALUES (?, ?, ?, ?, ?)",
	[QUERY_RUN_FIND] = "SELECT id, owner, session, summary, started FROM runs WHERE id = ?",
	[QUERY_RUN_LIST] = "SELECT id, owner, session, summary, started FROM runs"
			   " WHERE owner = ? ORDER BY started DESC, id DESC LIMIT ?",
	[QUERY_RUN_TRIM] = "DELETE FROM runs WHERE id IN ("
			   " SELECT id FROM runs ORDER BY started DESC, id DESC LIMIT ? OFFSET ?)",
};
