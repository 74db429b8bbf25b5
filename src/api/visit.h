/* visit: a call that does something with a session's files.
 *
 *	visit_begin() ──its turn──▶ on_turn: session_files() ──▶ on_found ──▶ … ──▶ an answer, and visit_end()
 *
 * The client may go away meanwhile: then v->call is NULL. What was begun goes on; after it there is nothing to do but
 * visit_end(). */
#ifndef HOTCELL_API_VISIT_H
#define HOTCELL_API_VISIT_H

#include "api/api.h"
#include "service/sessions.h"

struct visit {
	struct session_turn turn;
	struct session *session; /* held */
	struct call *call;       /* NULL: the client is gone */
	bool is_first;           /* it waits for nobody, and ends what runs */
	void (*on_turn)(struct visit *v);
	/* As session_turn.on_files. */
	void (*on_found)(struct visit *v, struct session_found *found, const struct err *failure);
	/* Frees what the visit is a part of. */
	void (*on_free)(struct visit *v);
};

/* The session that the call's path names. NULL: there is none, and that is answered. */
struct session *visit_find(struct call *call);
/* Whether another one may wait for it. False: answered. */
bool visit_may_wait(struct call *call, const struct session *session);
/* The callbacks are set. on_turn may be called at once, and the visit be over. */
void visit_begin(struct visit *v, struct call *call, struct session *session);
/* The call, if there is still one, was answered. */
void visit_end(struct visit *v);
/* The call is answered with what went wrong, if there is still one. */
void visit_fail(struct visit *v, const struct err *e);

#endif
