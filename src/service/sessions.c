#include "service/sessions.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "service/job.h"
#include "service/mirror.h"
#include "service/service.h"
#include "service/session_inner.h"

#include <string.h>

static const char *const strategies[] = { "per_session", "per_execution", "pool" };
static const char *const isolations[] = { "auto", "process", "container", "vm" };

void session_config_free(struct session_config *c)
{
	struct spec spec = { .files = c->files, .files_count = c->files_count, .env = c->env };

	free(c->language);
	free(c->user);
	free(c->profile);
	spec_free(&spec);
	*c = (struct session_config){ 0 };
}

static void session_free(struct session *session)
{
	size_t at = 0;
	char *state;

	while ((state = map_next(&session->known_files, &at)))
		free(state);
	map_free(&session->known_files);
	hotcell_cell_free(session->cell);
	mirror_close(session->mirror);
	if (session->engine)
		engine_release(session->engine);
	session_config_free(&session->config);
	free(session);
}

void session_hold(struct session *session)
{
	session->references++;
}

void session_release(struct session *session)
{
	if (--session->references == 0)
		session_free(session);
}

/* ---- turns ---- */

static void next_turn(struct session *session)
{
	while (!session->turn && !list_is_empty(&session->turns)) {
		struct session_turn *turn = container_of(session->turns.next, struct session_turn, link);

		list_remove(&turn->link);
		if (!session->has_ended)
			session->turn = turn;
		turn->on_turn(turn, session->has_ended ? session->why : NULL);
	}
}

void session_wait(struct session *session, struct session_turn *turn)
{
	turn->session = session;
	list_init(&turn->link);
	list_add_last(&session->turns, &turn->link);
	session_hold(session);
	next_turn(session);
	session_release(session);
}

void session_turn_end(struct session_turn *turn)
{
	struct session *session = turn->session;

	if (session->turn != turn)
		return;
	session->turn = NULL;
	session->last_used_s = service_now_s();
	session_hold(session);
	next_turn(session);
	session_release(session);
}

void session_turn_forget(struct session_turn *turn)
{
	if (turn->session && turn->session->turn == turn)
		session_turn_end(turn);
	else if (turn->session)
		list_remove(&turn->link);
}

/* ---- which there are ---- */

void sessions_open(struct sessions *all, struct service *s)
{
	auto_free char *dir = session_mirrors_dir(s);

	all->service = s;
	list_init(&all->all);
	mirror_sweep(dir);
}

unsigned sessions_count(const struct sessions *all, const char *owner)
{
	unsigned count = 0;

	list_each(at, next, &all->all)
		count += strcmp(container_of(at, struct session, link)->caller.owner, owner) == 0;
	return count;
}

struct session *session_find(struct service *s, const char *id, const char *owner, struct hotcell_error *e)
{
	struct session *session = map_get(&s->sessions.by_id, id);
	struct store_session row = { 0 };
	struct err ignored = { 0 };
	bool was_there;

	if (session && strcmp(session->caller.owner, owner) == 0)
		return session;
	was_there = store_is_id(id) && store_find_session(s->store, id, owner, &row, &ignored) == 0;
	e->kind = HOTCELL_ERROR_NOT_FOUND;
	snprintf(e->text, sizeof(e->text), "Session '%.100s' not found%s%s", id,
		was_there && row.lost ? ": " : "", was_there && row.lost ? row.lost : "");
	if (was_there)
		store_session_free(&row);
	return NULL;
}

static int check_count(struct service *s, const struct caller *caller, int *ret_status, struct hotcell_error *e)
{
	uint64_t most = caller->rights.max_sessions;

	e->kind = HOTCELL_ERROR_LIMIT;
	*ret_status = 429;
	if (s->sessions.by_id.count >= s->config->sessions_max) {
		snprintf(e->text, sizeof(e->text), "There are %zu sessions already, as many as this service allows.",
			s->sessions.by_id.count);
		return -1;
	}
	if (most && sessions_count(&s->sessions, caller->owner) >= most) {
		snprintf(e->text, sizeof(e->text), "This key has %llu sessions already, as many as it may have.",
			(unsigned long long)most);
		return -1;
	}
	*ret_status = 0;
	return 0;
}

/* ---- as rows ---- */

static json_t *describe_config(const struct session *session)
{
	const struct session_config *c = &session->config;
	const struct hotcell_limits *l = &c->limits;
	json_t *env = json_object();

	for (char **at = c->env; at && *at; at++) {
		auto_free char *name = xstrdup(*at);
		char *equals = strchr(name, '=');

		*equals = '\0';
		json_object_set_new_nocheck(env, name, json_string_nocheck(equals + 1));
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:{s:I, s:I, s:I, s:I, s:f}, s:I, s:I}", "language",
		c->language, "isolation", isolations[c->isolation], "strategy", strategies[c->strategy],
		"workspace", c->is_shared ? "shared" : "isolated", "network",
		c->network == HOTCELL_NETWORK_HOST ? "host" : "none", "env", env, "limits", "memory_bytes",
		(json_int_t)l->memory_bytes, "cpu_ms", (json_int_t)l->cpu_ms, "processes",
		(json_int_t)l->processes, "disk_bytes", (json_int_t)l->disk_bytes, "cpus",
		(double)l->cpus_milli / 1000, "ttl_seconds", (json_int_t)c->ttl_s, "idle_timeout",
		(json_int_t)c->idle_timeout_s);
}

static json_t *describe_cells(const struct session *session)
{
	unsigned first = session->cells_count > SESSION_CELLS_MAX ? session->cells_count - SESSION_CELLS_MAX : 0;
	json_t *list = json_array();

	for (unsigned i = first; i < session->cells_count; i++) {
		const struct session_cell *c = &session->cells[i % SESSION_CELLS_MAX];

		json_array_append_new(list,
			json_pack("{s:s, s:f, s:o, s:o, s:I}", "isolation", c->isolation, "created", c->created_s,
				"ended", c->ended_s > 0 ? json_real(c->ended_s) : json_null(), "reason",
				*c->why ? json_string(c->why) : json_null(), "runs", (json_int_t)c->runs));
	}
	return list;
}

static const char *state_name(const struct session *session)
{
	if (session->job && session->job->state == JOB_RUNNING)
		return "running";
	return session->turn ? "busy" : "idle";
}

json_t *session_describe(const struct session *session)
{
	return json_pack("{s:s, s:o, s:s, s:f, s:f, s:f, s:I, s:b, s:o, s:o}", "session_id", session->id,
		"config", describe_config(session), "state", state_name(session), "created_at",
		session->created_s, "last_used_at", session->last_used_s, "expires_at", session->expires_s,
		"runs", (json_int_t)session->runs, "has_state", session->has_state, "cells",
		describe_cells(session), "user",
		session->config.user ? json_string_nocheck(session->config.user) : json_null());
}

static void save(struct session *session, const char *lost, store_done *done, void *context)
{
	json_t *config = describe_config(session);
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

void session_save(struct session *session, store_done *done, void *context)
{
	save(session, NULL, done, context);
}

/* ---- beginning ---- */

static void opened(struct session *session, const struct hotcell_error *failure)
{
	struct session_opening *opening = take_ptr(&session->opening);

	if (failure)
		session_end(session, failure->text);
	if (opening)
		opening->on_ready(opening, failure);
	session_turn_end(&session->own_turn);
	session_release(session);
}

static void on_saved(void *context, const struct err *e)
{
	struct session *session = context;
	struct hotcell_error failure = { .kind = HOTCELL_ERROR_SYSTEM };

	if (e)
		snprintf(failure.text, sizeof(failure.text), "%s", e->text);
	opened(session, e ? &failure : NULL);
}

static void on_own_turn(struct session_turn *turn, const char *gone)
{
	(void)turn;
	(void)gone;
}

/* With its first turn, so that whoever comes meanwhile waits: its files go in, its row is written. */
static void begin(struct session *session)
{
	session_hold(session);
	session->own_turn.on_turn = on_own_turn;
	session_wait(session, &session->own_turn);
	log_info("session.opened", { "id", .text = session->id }, { "owner", .text = session->caller.owner },
		{ "language", .text = session->config.language },
		{ "strategy", .text = strategies[session->config.strategy] });
	session_put_files(session);
}

void session_files_are_put(struct session *session, const struct hotcell_error *failure)
{
	if (failure)
		opened(session, failure);
	else
		session_save(session, on_saved, session);
}

struct session *session_new(struct service *s, const struct caller *caller, struct session_config *config,
	struct session_opening *opening, int *ret_status, struct hotcell_error *e)
{
	struct session *session;

	if (check_count(s, caller, ret_status, e)) {
		session_config_free(config);
		return NULL;
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
	list_init(&session->turns);
	list_init(&session->own_turn.link);
	session->engine = s->engines.current;
	engine_hold(session->engine);
	if (session_make_place(session, e)) {
		session_release(session);
		return NULL;
	}
	map_put(&s->sessions.by_id, session->id, session);
	list_add_last(&s->sessions.all, &session->link);
	begin(session);
	return session;
}

/* ---- the end ---- */

static void forget(struct session *session)
{
	list_remove(&session->link);
	map_remove(&session->service->sessions.by_id, session->id);
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
	if (!session->turn)
		next_turn(session);
	session_release(session);
}

void session_end(struct session *session, const char *why)
{
	if (!session->has_ended)
		save(session, why, NULL, NULL);
	end(session, why);
}

void session_delete(struct session *session, store_done *done, void *context)
{
	store_remove_session(session->service->store, session->id, done, context);
	end(session, "it was deleted");
}

static const char *reason_to_end(const struct session *session, double now_s)
{
	const struct session_config *c = &session->config;

	if (session->cell && hotcell_cell_state(session->cell) == HOTCELL_CELL_GONE)
		return hotcell_cell_failure(session->cell);
	if (session->turn || !list_is_empty(&session->turns))
		return NULL;
	if (now_s > session->expires_s)
		return "it has expired";
	if (c->idle_timeout_s && now_s > session->last_used_s + (double)c->idle_timeout_s)
		return "it was idle for too long";
	return NULL;
}

void sessions_tick(struct sessions *all)
{
	double now_s = service_now_s();

	list_each(at, next, &all->all)
	{
		struct session *session = container_of(at, struct session, link);
		const char *why = reason_to_end(session, now_s);

		if (why) {
			char text[200];

			snprintf(text, sizeof(text), "%s", why);
			session_end(session, text);
			return; /* ending one may end others: the rest in a second */
		}
	}
}

void sessions_close(struct sessions *all)
{
	while (!list_is_empty(&all->all))
		session_end(container_of(all->all.next, struct session, link), "the service has ended");
	map_free(&all->by_id);
}
