#include "store/inner.h"

#include <string.h>

void store_session_free(struct store_session *session)
{
	free(session->owner);
	free(session->config_json);
	free(session->lost);
	session->owner = session->config_json = session->lost = NULL;
}

/* ---- writing ---- */

static int write_put(struct store *s, struct op *op, struct err *e)
{
	const struct store_session *session = &op->session;
	auto_query query = db_query(&s->writer, QUERY_SESSION_PUT, e);

	if (!query)
		return -1;
	db_bind(query, 1, session->id);
	db_bind(query, 2, session->owner);
	db_bind(query, 3, session->config_json);
	db_bind(query, 4, session->lost);
	sqlite3_bind_double(query, 5, session->lost ? op->time_s : 0);
	sqlite3_bind_double(query, 6, session->created_s);
	sqlite3_bind_double(query, 7, session->expires_s);
	return db_step(&s->writer, query, e);
}

static int check_session(const struct store_session *session, struct err *e)
{
	if (!store_is_id(session->id))
		return err_set(e, ERR_INPUT, "the session's id has not the form of one");
	if (store_check_text("session's owner", session->owner, STORE_NAME_MAX, e) ||
		store_check_text("session's config", session->config_json, STORE_JSON_MAX, e))
		return -1;
	if (!session->lost)
		return 0;
	return store_check_text("reason of a session's end", session->lost, STORE_NAME_MAX, e);
}

void store_put_session(
	struct store *s, const struct store_session *session, store_done *done, void *context)
{
	struct op *op = op_new(write_put, done, context);
	struct err e;

	if (check_session(session, &e)) {
		op_fail(op, &e);
		writer_submit(s, op);
		return;
	}
	op->session = *session;
	op->session.owner = xstrdup(session->owner);
	op->session.config_json = xstrdup(session->config_json);
	op->session.lost = session->lost ? xstrdup(session->lost) : NULL;
	op->time_s = store_now_s();
	writer_submit(s, op);
}

static int write_removed(struct store *s, struct op *op, struct err *e)
{
	return store_write_removed(s, QUERY_SESSION_REMOVE, "session", op->id, e);
}

void store_remove_session(struct store *s, const char *id, store_done *done, void *context)
{
	struct op *op = op_new(write_removed, done, context);

	op->id = xstrdup(id);
	writer_submit(s, op);
}

/* ---- losing ---- */

static int forget_older(struct store *s, double older_than_s, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_SESSION_FORGET, e);

	if (!query)
		return -1;
	sqlite3_bind_double(query, 1, older_than_s);
	return db_step(&s->writer, query, e);
}

static int lose_all(struct store *s, const char *why, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_SESSION_LOSE, e);

	if (!query)
		return -1;
	db_bind(query, 1, why);
	sqlite3_bind_double(query, 2, store_now_s());
	return db_step(&s->writer, query, e);
}

int store_lose_sessions(struct store *s, const char *why, double older_than_s, struct err *e)
{
	bool failed;

	if (store_check_text("reason of a session's end", why, STORE_NAME_MAX, e) ||
		store_begin(s, e))
		return -1;
	failed = lose_all(s, why, e) || forget_older(s, older_than_s, e);
	return store_end(s, failed, e);
}

static int write_forgotten(struct store *s, struct op *op, struct err *e)
{
	return forget_older(s, op->time_s, e);
}

void store_forget_sessions(struct store *s, double older_than_s)
{
	struct op *op = op_new(write_forgotten, NULL, NULL);

	op->time_s = older_than_s;
	writer_submit(s, op);
}

/* ---- reading ---- */

static void read_session(sqlite3_stmt *query, struct store_session *ret)
{
	db_id(query, 0, ret->id);
	ret->owner = db_text(query, 1);
	ret->config_json = db_text(query, 2);
	ret->lost = db_text(query, 3);
	ret->created_s = sqlite3_column_double(query, 4);
	ret->expires_s = sqlite3_column_double(query, 5);
}

int store_find_session(struct store *s, const char *id, const char *owner,
	struct store_session *ret, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_SESSION_FIND, e);
	struct store_session session = { 0 };
	int found;

	if (!query)
		return -1;
	if (!store_is_id(id))
		return err_set(e, ERR_NOT_FOUND, "there is no such session");
	db_bind(query, 1, id);
	found = db_step(&s->reader, query, e);
	if (found < 0)
		return -1;
	if (found)
		read_session(query, &session);
	if (!found || (owner && strcmp(owner, session.owner) != 0)) {
		store_session_free(&session);
		return err_set(e, ERR_NOT_FOUND, "there is no session '%s'", id);
	}
	*ret = session;
	return 0;
}
