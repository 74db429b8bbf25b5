/* Sessions: opening, looking at, extending and closing them, and runs in them. */
#include "api/execute.h"
#include "api/handlers.h"
#include "api/run_request.h"
#include "api/session_files.h"
#include "api/session_mounts.h"
#include "api/visit.h"
#include "base/own.h"

#include <string.h>

/* The code of …/bash: a name that nobody's own file has. */
#define ENTRY_BASH ".hotcell-bash.sh"

enum { BASH_TIMEOUT_MS = 30000, USER_MAX = 256 };

/* ---- opening ---- */

static void read_times(struct body *b, struct session_config *c)
{
	const struct config *config = b->call->service->config;

	c->ttl_s = body_integer(b, b->root, "ttl_seconds", 1, config->session_ttl_max_s, c->ttl_s);
	c->idle_timeout_s = body_integer(
		b, b->root, "idle_timeout", 0, config->session_ttl_max_s, c->idle_timeout_s);
}

static int read_strategy(struct body *b, struct session_config *c, struct refusal *refusal)
{
	static const char *const strategies[] = { "per_session", "per_execution", "pool", NULL };
	static const char *const workspaces[] = { "isolated", "shared", NULL };
	int usual;

	c->strategy = (enum session_strategy)body_choice(
		b, b->root, "strategy", strategies, SESSION_PER_SESSION);
	usual = c->strategy == SESSION_PER_SESSION;
	c->is_shared = body_choice(b, b->root, "workspace", workspaces, usual) == 1;
	if (c->strategy == SESSION_POOL && c->is_shared)
		return refuse(refusal, 422, "invalid",
			"workspace \"shared\" is not supported with strategy \"pool\": each run gets another cell "
			"of the pool, whose workspace is wiped; use per_session or per_execution.");
	return 0;
}

static int read_language(struct body *b, struct session_config *c, struct refusal *refusal)
{
	const char *name = body_text(b, b->root, "language");
	const struct hotcell_language *language;

	language = engine_language(b->call->service->engines.current, name ? name : "python");
	if (!language)
		return refuse(refusal, 400, "unknown_language", "unknown language '%s'", name);
	if (run_request_installed(language, refusal))
		return -1;
	c->language = xstrdup(language->id);
	return 0;
}

static int read_names(struct body *b, struct session_config *c, struct refusal *refusal)
{
	const char *user = body_text(b, b->root, "user");
	const char *profile = body_text(b, b->root, "profile");

	c->user = user ? xstrdup(user) : NULL;
	c->profile = profile ? xstrdup(profile) : NULL;
	if (user && strlen(user) > USER_MAX)
		return refuse(refusal, 422, "invalid", "user may have at most %d bytes.", USER_MAX);
	for (size_t i = 0; i < c->files_count; i++)
		if (c->files[i].path && run_request_path(c->files[i].path, NULL, refusal))
			return -1;
	return 0;
}

static int read_config(struct body *b, struct session_config *c, struct refusal *refusal)
{
	struct call *call = b->call;

	*c = (struct session_config){ .ttl_s = call->service->config->session_ttl_s };
	c->isolation = run_request_isolation(b, b->root);
	c->network = run_request_network(b, b->root);
	c->env = run_request_env(b, b->root);
	run_request_limits(b, b->root, &c->limits);
	read_times(b, c);
	if (read_strategy(b, c, refusal) || read_language(b, c, refusal) ||
		session_mounts_read(b, c, refusal) ||
		run_request_files(b, b->root, &c->files, &c->files_count, refusal) ||
		!body_is_good(b, refusal) || read_names(b, c, refusal) ||
		!body_is_good(b, refusal) ||
		run_request_allow(call, c->language, c->isolation, c->network, refusal))
		return -1;
	/* Where only a vm will do, what is left to us must not end in a container. */
	if (c->isolation == HOTCELL_ISOLATION_AUTO)
		c->isolation = rights_auto(&call->caller.rights);
	return 0;
}

struct adding {
	struct session_opening opening;
	struct call *call; /* NULL: the client is gone */
};

static void on_adder_gone(struct call *call, bool complete)
{
	struct adding *adding = call->state;

	(void)complete;
	adding->call = NULL;
}

static void on_ready(
	struct session_opening *opening, struct session *session, const struct err *failure)
{
	struct adding *adding = container_of(opening, struct adding, opening);
	struct call *call = adding->call;

	if (call)
		call->on_end = NULL;
	if (call && failure)
		reply_err(call, failure);
	else if (call)
		reply_json(call, 201, session_describe(session));
	else if (!session->has_ended) /* nobody will ever know its name */
		session_delete(session, NULL, NULL);
	free(adding);
}

static void open_session(struct call *call, struct session_config *config)
{
	struct adding *adding = xalloc(sizeof(*adding));
	struct err e = { 0 };
	struct refusal refusal;
	int status = 0;

	adding->opening.on_ready = on_ready;
	adding->call = call;
	call->state = adding;
	call->on_end = on_adder_gone;
	if (session_new(call->service, &call->caller, config, &adding->opening, &status, &e) == 0)
		return;
	call->on_end = NULL;
	free(adding);
	if (!status) {
		reply_err(call, &e);
		return;
	}
	refuse(&refusal, (unsigned)status, "too_many", "%s", e.text);
	refusal.retry_after_s =
		sessions_retry_after_s(&call->service->sessions, call->caller.owner);
	reply_refusal(call, &refusal);
}

void sessions_add(struct call *call)
{
	struct session_config config;
	struct refusal refusal;
	struct body b;

	if (call->service->is_draining) {
		reply_error(call, 503, "unavailable", "the service is about to end");
		return;
	}
	if (!body_open_or_none(call, &b))
		return;
	if (read_config(&b, &config, &refusal)) {
		session_config_free(&config);
		reply_refusal(call, &refusal);
	} else {
		open_session(call, &config);
	}
	body_free(&b);
}

/* ---- looking ---- */

void sessions_list(struct call *call)
{
	json_t *list = json_array();

	list_each(at, next, &call->service->sessions.all)
	{
		const struct session *session = container_of(at, struct session, link);

		if (strcmp(session->caller.owner, call->caller.owner) == 0 &&
			!session->is_being_deleted)
			json_array_append_new(list, session_describe(session));
	}
	reply_json(call, 200, json_pack("{s:o}", "sessions", list));
}

static void free_visit(struct visit *v)
{
	free(v);
}

static void describe_on_turn(struct visit *v)
{
	session_files(&v->turn, &(struct hotcell_files){ .kind = HOTCELL_FILES_LIST });
}

static void describe_on_found(
	struct visit *v, struct session_found *found, const struct err *failure)
{
	json_t *o;

	if (failure) {
		visit_fail(v, failure);
		return;
	}
	if (v->call) {
		o = session_describe(v->session);
		json_object_set_new(o, "state", json_string("idle")); /* but for us */
		json_object_set_new(o, "files", session_files_json(found, false));
		reply_json(v->call, 200, o);
	}
	session_found_free(found);
	visit_end(v);
}

static bool is_at_work(const struct session *session)
{
	return !list_is_empty(&session->turns) ||
	       (session->turn && session->turn != &session->own_turn);
}

/* With its files, if it has the time to look for them. */
void sessions_get(struct call *call)
{
	struct session *session = visit_find(call);
	struct visit *v;
	json_t *o;

	if (!session)
		return;
	if (is_at_work(session)) {
		o = session_describe(session);
		json_object_set_new(o, "files", json_null());
		reply_json(call, 200, o);
		return;
	}
	v = xalloc(sizeof(*v));
	v->on_turn = describe_on_turn;
	v->on_found = describe_on_found;
	v->on_free = free_visit;
	visit_begin(v, call, session);
}

/* ---- extending ---- */

/* A call that waits for the store. */
struct saving {
	struct call *call;
	struct session *session;
};

static void on_saver_gone(struct call *call, bool complete)
{
	struct saving *saving = call->state;

	(void)complete;
	saving->call = NULL;
}

static struct saving *saving_new(struct call *call, struct session *session)
{
	struct saving *saving = xalloc(sizeof(*saving));

	saving->call = call;
	saving->session = session;
	session_hold(session);
	call->state = saving;
	call->on_end = on_saver_gone;
	return saving;
}

/* Whose call it was; NULL: nobody's any more. */
static struct call *saving_end(struct saving *saving)
{
	struct call *call = saving->call;

	if (call)
		call->on_end = NULL;
	session_release(saving->session);
	free(saving);
	return call;
}

static void on_changed(void *context, const struct err *e)
{
	struct saving *saving = context;
	json_t *o = session_describe(saving->session);
	struct call *call = saving_end(saving);

	if (call && e)
		reply_err(call, e);
	else if (call)
		reply_json(call, 200, json_incref(o));
	json_decref(o);
}

void sessions_change(struct call *call)
{
	struct session *session = visit_find(call);
	struct session_config new_times;
	struct refusal refusal;
	const json_t *ttl;
	struct body b;
	bool extends;

	if (!session || !body_open(call, &b))
		return;
	new_times = session->config;
	ttl = json_object_get(b.root, "ttl_seconds");
	read_times(&b, &new_times);
	extends = ttl && !json_is_null(ttl);
	if (!body_is_good(&b, &refusal)) {
		reply_refusal(call, &refusal);
		body_free(&b);
		return;
	}
	body_free(&b);
	session->config.ttl_s = new_times.ttl_s;
	session->config.idle_timeout_s = new_times.idle_timeout_s;
	session->last_used_s = service_now_s();
	if (extends)
		session->expires_s = session->last_used_s + (double)new_times.ttl_s;
	session_save(session, on_changed, saving_new(call, session));
}

/* ---- closing ---- */

static void on_removed(void *context, const struct err *e)
{
	struct call *call = saving_end(context);

	if (call && e)
		reply_err(call, e);
	else if (call)
		reply_nothing(call, 204);
}

void sessions_remove(struct call *call)
{
	struct session *session = visit_find(call);
	const char *keeps = http_query(call->x, "keep_generated");

	if (!session)
		return;
	if (keeps && strcmp(keeps, "true") != 0 && strcmp(keeps, "false") != 0)
		reply_error(call, 422, "invalid", "keep_generated must be true or false");
	else if (keeps && *keeps == 't')
		session_keep_begin(call, session);
	else
		session_delete(session, on_removed, saving_new(call, session));
}

/* ---- runs ---- */

static void execute_in(struct call *call, bool streams)
{
	struct session *session = visit_find(call);
	struct body b;

	if (!session || !body_open(call, &b))
		return;
	execute_body(call, &b, session, streams);
	body_free(&b);
}

void sessions_execute(struct call *call)
{
	execute_in(call, false);
}

void sessions_stream(struct call *call)
{
	execute_in(call, true);
}

static int read_bash(
	struct body *b, const struct session *session, struct spec *ret, struct refusal *refusal)
{
	const struct config *config = b->call->service->config;
	const struct session_config *c = &session->config;
	uint64_t usual_ms =
		BASH_TIMEOUT_MS < config->timeout_max_ms ? BASH_TIMEOUT_MS : config->timeout_max_ms;
	json_t *cmd = body_bytes(b, b->root, "cmd", true);

	*ret = (struct spec){
		.language = xstrdup("bash"),
		.entry = xstrdup(ENTRY_BASH),
		.env = run_request_env(b, b->root),
		.isolation = c->isolation,
		.network = c->network,
		.limits = c->limits,
		.max_output = config->output_max_bytes,
		.reuse = config->reuse,
		.user = c->user ? xstrdup(c->user) : NULL,
		.session_id = xstrdup(session->id),
		.is_bash = true,
	};
	if (cmd) {
		ret->code_len = json_string_length(cmd);
		ret->code = xalloc(ret->code_len + 1);
		memcpy(ret->code, json_string_value(cmd), ret->code_len);
	}
	if (run_request_timeout(b, b->root, usual_ms, &ret->limits.wall_ms, refusal) ||
		!body_is_good(b, refusal))
		return -1;
	return run_request_allow(b->call, ret->language, c->isolation, c->network, refusal);
}

void sessions_bash(struct call *call)
{
	struct session *session = visit_find(call);
	struct refusal refusal;
	struct spec spec;
	struct body b;

	if (!session || !body_open(call, &b))
		return;
	if (read_bash(&b, session, &spec, &refusal)) {
		spec_free(&spec);
		reply_refusal(call, &refusal);
	} else {
		execute_submit(call, &spec, session, false);
	}
	body_free(&b);
}

void sessions_interrupt(struct call *call)
{
	struct session *session = visit_find(call);

	if (!session)
		return;
	if (!session->job || session->job->state != JOB_RUNNING) {
		reply_error(call, 409, "idle", "Nothing runs in session '%s'.", session->id);
		return;
	}
	job_interrupt(session->job);
	reply_json(
		call, 202, json_pack("{s:s, s:s}", "id", session->job->id, "state", "interrupted"));
}
