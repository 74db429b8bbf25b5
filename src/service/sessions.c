#include "service/sessions.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "service/job.h"
#include "service/mirror.h"
#include "service/service.h"
#include "service/session_inner.h"

#include <string.h>

#define WHY_EXPIRED       "it has expired"
#define WHY_BEING_DELETED "it is being deleted"

enum { RETRY_MAX_S = 3600 };

void session_config_free(struct session_config *c)
{
	struct spec spec = { .files = c->files, .files_count = c->files_count, .env = c->env };

	free(c->language);
	free(c->user);
	free(c->profile);
	for (size_t i = 0; i < c->mounts_count; i++) {
		free((void *)(uintptr_t)c->mounts[i].source);
		free((void *)(uintptr_t)c->mounts[i].name);
	}
	free(c->mounts);
	spec_free(&spec);
	*c = (struct session_config){ 0 };
}

/* ---- turns ---- */

static void give_turn(struct session *session, struct session_turn *turn)
{
	list_remove(&turn->link);
	session->turns_count--;
	if (!session->has_ended) {
		session->turn = turn;
		turn->on_turn(turn, NULL);
		return;
	}
	turn->session = NULL;
	turn->on_turn(turn, session->why);
	session_release(session);
}

/* Whoever is told may be done at once, and bring us here again: the first one goes on. */
static void next_turn(struct session *session)
{
	if (session->gives_turns)
		return;
	session_hold(session);
	session->gives_turns = true;
	while (!session->turn && !list_is_empty(&session->turns))
		give_turn(session, container_of(session->turns.next, struct session_turn, link));
	session->gives_turns = false;
	if (session->has_ended && !session->turn)
		session_drop_place(session);
	session_release(session);
}

bool session_is_crowded(const struct session *session)
{
	return session->turns_count >= SESSION_TURNS_MAX;
}

static void wait_before(struct session *session, struct session_turn *turn, struct list *other)
{
	turn->session = session;
	session_hold(session);
	list_init(&turn->link);
	list_add_last(other, &turn->link);
	session->turns_count++;
}

void session_wait(struct session *session, struct session_turn *turn)
{
	wait_before(session, turn, &session->turns);
	next_turn(session);
}

void session_wait_first(struct session *session, struct session_turn *turn)
{
	session_hold(session);
	wait_before(session, turn, session->turns.next);
	if (session->job)
		job_cancel(session->job);
	next_turn(session);
	session_release(session);
}

void session_turn_end(struct session_turn *turn)
{
	struct session *session = turn->session;

	if (!session || session->turn != turn)
		return;
	session->turn = NULL;
	turn->session = NULL;
	session->last_used_s = service_now_s();
	next_turn(session);
	session_release(session);
}

void session_turn_forget(struct session_turn *turn)
{
	struct session *session = turn->session;

	if (!session)
		return;
	if (session->turn == turn) {
		session_turn_end(turn);
		return;
	}
	list_remove(&turn->link);
	session->turns_count--;
	turn->session = NULL;
	session_release(session);
}

/* ---- which there are ---- */

void sessions_open(struct sessions *all, struct service *s)
{
	auto_free char *dir = session_mirrors_dir(s);

	all->service = s;
	list_init(&all->all);
	list_init(&all->ending);
	mirror_sweep(dir);
}

unsigned sessions_count(const struct sessions *all, const char *owner)
{
	unsigned count = 0;

	list_each(at, next, &all->all) count +=
		strcmp(container_of(at, struct session, link)->caller.owner, owner) == 0;
	return count;
}

unsigned sessions_retry_after_s(const struct sessions *all, const char *owner)
{
	bool has_any = sessions_count(all, owner) > 0;
	double soonest_s = RETRY_MAX_S;

	list_each(at, next, &all->all)
	{
		const struct session *session = container_of(at, struct session, link);
		double left_s = session->expires_s - service_now_s();

		if ((!has_any || strcmp(session->caller.owner, owner) == 0) && left_s < soonest_s)
			soonest_s = left_s;
	}
	return soonest_s > 1 ? (unsigned)soonest_s : 1;
}

/* It lives on for those who came before, if there are any. */
static bool is_expired(struct session *session)
{
	if (service_now_s() <= session->expires_s)
		return false;
	if (!session->turn && list_is_empty(&session->turns))
		session_end(session, WHY_EXPIRED);
	return true;
}

/* What became of the cell that it keeps; NULL: all is well. */
static const char *cell_failure(const struct session *session)
{
	if (session->config.strategy != SESSION_PER_SESSION || !session->cell ||
		hotcell_cell_state(session->cell) != HOTCELL_CELL_GONE)
		return NULL;
	return hotcell_cell_failure(session->cell);
}

static bool is_owned(const struct session *session, const char *owner)
{
	return session && strcmp(session->caller.owner, owner) == 0;
}

/* What became of it, as far as anybody knows; "" if not at all. */
static void find_lost(struct service *s, const char *id, const char *owner, char *ret, size_t size)
{
	const struct session *session = map_get(&s->sessions.lost, id);
	struct store_session row = { 0 };
	struct err ignored = { 0 };

	*ret = '\0';
	if (is_owned(session, owner))
		snprintf(ret, size, "%s", session->why);
	else if (store_is_id(id) && store_find_session(s->store, id, owner, &row, &ignored) == 0)
		snprintf(ret, size, "%s", row.lost ? row.lost : "");
	store_session_free(&row);
}

struct session *session_find(
	struct service *s, const char *id, const char *owner, struct hotcell_error *e)
{
	struct session *session = map_get(&s->sessions.by_id, id);
	const char *failure = is_owned(session, owner) ? cell_failure(session) : NULL;
	char why[200] = WHY_EXPIRED;

	if (is_owned(session, owner) && session->is_being_deleted) {
		snprintf(why, sizeof(why), "%s", WHY_BEING_DELETED);
	} else if (failure) {
		snprintf(why, sizeof(why), "%s", failure);
		session_end(session, why);
	} else if (is_owned(session, owner)) {
		if (!is_expired(session))
			return session;
	} else {
		find_lost(s, id, owner, why, sizeof(why));
	}
	e->kind = HOTCELL_ERROR_NOT_FOUND;
	snprintf(e->text, sizeof(e->text), "Session '%.100s' not found%s%s", id, *why ? ": " : "",
		why);
	return NULL;
}

static int check_count(
	struct service *s, const struct caller *caller, int *ret_status, struct err *e)
{
	uint64_t most = caller->rights.max_sessions;

	*ret_status = 429;
	if (s->sessions.by_id.count >= s->config->sessions_max)
		return err_set(e, ERR_LIMIT,
			"There are %zu sessions already, as many as this service allows.",
			s->sessions.by_id.count);
	if (most && sessions_count(&s->sessions, caller->owner) >= most)
		return err_set(e, ERR_LIMIT,
			"This key has %llu sessions already, as many as it may have.",
			(unsigned long long)most);
	*ret_status = 0;
	return 0;
}

/* ---- as rows ---- */

static void save(struct session *session, const char *lost, store_done *done, void *context)
{
	json_t *config = session_describe_config(session);
	auto_free char *text = json_dumps(config, JSON_COMPACT);
	struct store_session row = {
		.owner = session->caller.owner,
		.config_json = text,
		.lost = (char *)(uintptr_t)lost,
		.created_s = session->created_s,
		.expires_s = session->expires_s,
	};

	json_decref(config);
	memcpy(row.id, session->id, sizeof(row.id));
	store_put_session(session->service->store, &row, done, context);
}

static void set_gone(const struct session *session, struct err *ret)
{
	err_set(ret, ERR_NOT_FOUND, "Session '%s' not found: %s", session->id,
		session->has_ended ? session->why : WHY_BEING_DELETED);
}

/* Behind its removal a row would stay for ever. */
void session_save(struct session *session, store_done *done, void *context)
{
	struct err gone = { 0 };

	if (!session->is_being_deleted && !session->has_ended) {
		save(session, NULL, done, context);
		return;
	}
	set_gone(session, &gone);
	done(context, &gone);
}

/* ---- beginning ---- */

static void end(struct session *session, const char *why);

/* Nobody was told of one that failed: nothing is written of it. */
static void opened(struct session *session, const struct err *failure)
{
	struct session_opening *opening = take_ptr(&session->opening);

	session_hold(session);
	if (failure)
		end(session, failure->text);
	opening->on_ready(opening, session, failure);
	session_turn_end(&session->own_turn);
	session_release(session);
}

static void on_saved(void *context, const struct err *e)
{
	opened(context, e);
}

static void on_files_put(
	struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	struct session *session = turn->session;

	session_found_free(found);
	free(take_ptr(&session->inputs));
	if (failure)
		opened(session, failure);
	else
		session_save(session, on_saved, session);
}

static void on_cell_up(
	struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	struct session *session = turn->session;

	session_found_free(found);
	if (failure) {
		opened(session, failure);
		return;
	}
	session_drop_brief_cell(session, "it was a trial");
	turn->on_files = on_files_put;
	session_put_files(session);
}

/* With its first turn, so that whoever comes meanwhile waits: its files go in, its row is written. Only in the cell
 * is it seen whether its mounts can be had, or why there are no vms: that is waited for. */
static void on_own_turn(struct session_turn *turn, const char *gone)
{
	struct session *session = turn->session;

	if (gone)
		return;
	if (!session_depends_on_cell(session)) {
		session_put_files(session);
		return;
	}
	turn->on_files = on_cell_up;
	session_files_in_cell(turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_LIST });
}

static void begin(struct session *session)
{
	log_info("session.opened", { "id", .text = session->id },
		{ "owner", .text = session->caller.owner },
		{ "language", .text = session->config.language },
		{ "strategy", .text = session_strategy_name(session) });
	session->own_turn.on_turn = on_own_turn;
	session->own_turn.on_files = on_files_put;
	session_wait(session, &session->own_turn);
}

int session_new(struct service *s, const struct caller *caller, struct session_config *config,
	struct session_opening *opening, int *ret_status, struct err *e)
{
	struct session *session;

	if (check_count(s, caller, ret_status, e)) {
		session_config_free(config);
		return -1;
	}
	session = xalloc(sizeof(*session));
	session->service = s;
	store_make_id(session->id);
	session->caller = *caller;
	session->config = *config;
	*config = (struct session_config){ 0 };
	session->opening = opening;
	session->created_s = session->last_used_s = service_now_s();
	session->expires_s = session->created_s + (double)session->config.ttl_s;
	session->references = 1;
	session->got_fd = -1;
	list_init(&session->link);
	list_init(&session->turns);
	list_init(&session->own_turn.link);
	session->engine = s->engines.current;
	engine_hold(session->engine);
	if (session_make_place(session, e)) {
		session_release(session);
		return -1;
	}
	map_put(&s->sessions.by_id, session->id, session);
	list_add_last(&s->sessions.all, &session->link);
	begin(session);
	return 0;
}

/* ---- the end ---- */

static void forget(struct session *session)
{
	struct sessions *all = &session->service->sessions;

	map_remove(&all->by_id, session->id);
	list_remove(&session->link);
	list_add_last(&all->ending, &session->link);
}

/* What runs is cancelled, what waits is told; the cell goes with the last who holds it. */
static void end(struct session *session, const char *why)
{
	if (session->has_ended)
		return;
	session->has_ended = true;
	snprintf(session->why, sizeof(session->why), "%s", why);
	session_note_cell_end(session, why);
	log_info("session.closed", { "id", .text = session->id }, { "reason", .text = why },
		{ "runs", .number = (int64_t)session->runs });
	forget(session);
	if (session->job)
		job_cancel(session->job);
	next_turn(session);
	session_release(session);
}

static void on_lost_saved(void *context, const struct err *e)
{
	struct session *session = context;

	(void)e;
	map_remove(&session->service->sessions.lost, session->id);
	session_release(session);
}

void session_end(struct session *session, const char *why)
{
	if (session->has_ended)
		return;
	/* Nor is it written why one ended that is being deleted: its row is on its way out. */
	if (!session->is_being_deleted) {
		session_hold(session);
		map_put(&session->service->sessions.lost, session->id, session);
		save(session, why, on_lost_saved, session);
	}
	end(session, why);
}

struct deletion {
	struct session *session;
	store_done *done;
	void *context;
};

static void on_removed(void *context, const struct err *e)
{
	struct deletion *d = context;
	/* One that opens has no row yet, and will have none. */
	const struct err *failure = e && e->kind == ERR_NOT_FOUND ? NULL : e;

	d->session->is_being_deleted = false;
	/* One that nobody waits for is not told that it failed either, and would stay for nobody. */
	if (!failure || !d->done)
		end(d->session, "it was deleted");
	if (d->done)
		d->done(d->context, failure);
	session_release(d->session);
	free(d);
}

void session_delete(struct session *session, store_done *done, void *context)
{
	struct deletion *d;
	struct err gone = { 0 };

	if (session->is_being_deleted) {
		set_gone(session, &gone);
		if (done)
			done(context, &gone);
		return;
	}
	d = xalloc(sizeof(*d));
	*d = (struct deletion){ session, done, context };
	session->is_being_deleted = true;
	session_hold(session);
	store_remove_session(session->service->store, session->id, on_removed, d);
}

static const char *reason_to_end(const struct session *session, double now_s)
{
	const struct session_config *c = &session->config;

	if (session->is_being_deleted)
		return NULL;
	if (cell_failure(session))
		return cell_failure(session);
	if (session->turn || !list_is_empty(&session->turns))
		return NULL;
	if (now_s > session->expires_s)
		return WHY_EXPIRED;
	if (c->idle_timeout_s && now_s > session->last_used_s + (double)c->idle_timeout_s)
		return "it was idle for too long";
	return NULL;
}

/* Ending one tells others, who may end another one: after each from the beginning. */
static bool end_one(struct sessions *all, double now_s)
{
	list_each(at, next, &all->all)
	{
		struct session *session = container_of(at, struct session, link);
		const char *why = reason_to_end(session, now_s);
		char text[200];

		if (!why)
			continue;
		snprintf(text, sizeof(text), "%s", why);
		session_end(session, text);
		return true;
	}
	return false;
}

void sessions_tick(struct sessions *all)
{
	double now_s = service_now_s();

	while (end_one(all, now_s))
		;
}

/* Whoever has the turn is not waited for. */
static void close_one(struct session *session)
{
	session_hold(session);
	session_end(session, "the service has ended");
	while (!list_is_empty(&session->turns))
		give_turn(session, container_of(session->turns.next, struct session_turn, link));
	session_files_abandon(session);
	session_drop_place(session);
	session_release(session);
}

void sessions_close(struct sessions *all)
{
	while (!list_is_empty(&all->all))
		close_one(container_of(all->all.next, struct session, link));
	while (!list_is_empty(&all->ending))
		close_one(container_of(all->ending.next, struct session, link));
	map_free(&all->by_id);
}
