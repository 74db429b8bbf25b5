#include "api/visit.h"

#include "base/buf.h"

struct session *visit_find(struct call *call)
{
	struct hotcell_error e;
	struct session *session =
		session_find(call->service, call->params[0], call->caller.owner, &e);

	if (!session)
		reply_failure(call, &e);
	return session;
}

bool visit_may_wait(struct call *call, const struct session *session)
{
	struct refusal refusal;

	if (!session_is_crowded(session))
		return true;
	refuse(&refusal, 429, "busy", "%u wait for session '%s' already; try again later",
		session->turns_count, session->id);
	refusal.retry_after_s = 1;
	reply_refusal(call, &refusal);
	return false;
}

static void forget(struct visit *v)
{
	struct session *session = v->session;

	session_turn_forget(&v->turn);
	v->on_free(v);
	session_release(session);
}

void visit_end(struct visit *v)
{
	if (v->call)
		v->call->on_end = NULL;
	forget(v);
}

void visit_fail(struct visit *v, const struct err *e)
{
	if (v->call)
		reply_err(v->call, e);
	visit_end(v);
}

static void on_client_gone(struct call *call, bool complete)
{
	struct visit *v = call->state;

	(void)complete;
	v->call = NULL;
	/* What it has begun in its turn, it ends. */
	if (v->session->turn != &v->turn)
		forget(v);
}

static void on_turn(struct session_turn *turn, const char *gone)
{
	struct visit *v = container_of(turn, struct visit, turn);

	if (!gone) {
		v->on_turn(v);
		return;
	}
	if (v->call)
		reply_error(v->call, 404, "not_found", "Session '%s' not found: %s", v->session->id,
			gone);
	visit_end(v);
}

static void on_files(
	struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	struct visit *v = container_of(turn, struct visit, turn);

	v->on_found(v, found, failure);
}

void visit_begin(struct visit *v, struct call *call, struct session *session)
{
	v->call = call;
	v->session = session;
	session_hold(session);
	call->state = v;
	call->on_end = on_client_gone;
	v->turn.on_turn = on_turn;
	v->turn.on_files = on_files;
	if (v->is_first)
		session_wait_first(session, &v->turn);
	else
		session_wait(session, &v->turn);
}
