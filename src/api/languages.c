/* Languages: those that there are, and those that are registered while the service runs. */
#include "api/handlers.h"

#include "api/body.h"
#include "base/own.h"
#include "service/languages.h"

#include <string.h>

static json_t *strings(const char *const *list)
{
	json_t *o = json_array();

	for (; *list; list++)
		json_array_append_new(o, json_string_nocheck(*list));
	return o;
}

static json_t *isolations(const struct call *call, const struct hotcell_language *l)
{
	json_t *o = json_array();

	if (l->vm && call->service->has_kvm)
		json_array_append_new(o, json_string("vm"));
	json_array_append_new(o, json_string("container"));
	if (call->service->config->allow_process)
		json_array_append_new(o, json_string("process"));
	return o;
}

/* Whether a cell of it waits. */
static bool is_warm(const struct call *call, const char *id)
{
	size_t at = 0;
	const struct pool *pool;

	while ((pool = map_next(&call->service->pools.by_key, &at)))
		if (pool->idle_count && pool->wish.profile && strcmp(pool->wish.language, id) == 0)
			return true;
	return false;
}

/* Null: a program of that name is there, but has not been asked yet. */
static json_t *is_installed(const struct call *call, const struct hotcell_language *l)
{
	const struct engine *n = call->service->engines.current;

	if (l->installed && !l->version && n->asked < n->languages_count)
		return json_null();
	return json_boolean(l->installed);
}

static json_t *describe(const struct call *call, const struct hotcell_language *l)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:b, s:o, s:b, s:o, s:o, s:o, s:b, s:b, s:s, s:b}",
		"id", l->id, "name", l->name, "version",
		l->version ? json_string_nocheck(l->version) : json_null(), "installed",
		is_installed(call, l), "allowed",
		rights_allow_language(&call->caller.rights, l->id), "isolation",
		isolations(call, l), "warm", is_warm(call, l->id), "profiles", strings(l->profiles),
		"aliases", strings(l->aliases), "extensions", strings(l->extensions), "compiles",
		l->compiles, "keeps_state", l->keeps_state, "install", l->install, "registered",
		languages_is_registered(call->service, l->id));
}

void languages_list(struct call *call)
{
	const struct engine *n = call->service->engines.current;
	json_t *list = json_array();

	for (size_t i = 0; i < n->languages_count; i++)
		json_array_append_new(list, describe(call, &n->languages[i]));
	reply_json(call, 200, json_pack("{s:o}", "languages", list));
}

/* ---- registering ---- */

struct change {
	struct languages_change base;
	struct call *call; /* NULL: the client is gone */
	bool is_removal;
};

static void on_client_gone(struct call *call, bool complete)
{
	struct change *change = call->state;

	(void)complete;
	change->call = NULL;
}

static void on_changed(struct languages_change *base, const char *id, const struct err *e)
{
	struct change *change = container_of(base, struct change, base);
	struct call *call = change->call;
	const struct hotcell_language *l;

	if (call) {
		call->on_end = NULL;
		l = engine_language(call->service->engines.current, id);
		if (e)
			reply_err(call, e);
		else if (change->is_removal)
			reply_nothing(call, 204);
		else
			reply_json(call, 201, l ? describe(call, l) : json_pack("{s:s}", "id", id));
	}
	free(change);
}

static struct change *change_new(struct call *call, bool is_removal)
{
	struct change *change = xalloc(sizeof(*change));

	change->call = call;
	change->is_removal = is_removal;
	change->base.on_changed = on_changed;
	call->state = change;
	call->on_end = on_client_gone;
	return change;
}

/* What is refused at once. */
static void refuse_change(struct call *call, struct change *change, const struct err *e)
{
	call->on_end = NULL;
	free(change);
	if (e->kind == ERR_LIMIT)
		reply_error(call, 409, "busy", "%s", e->text);
	else
		reply_err(call, e);
}

void languages_add(struct call *call)
{
	struct body b;
	struct err e = { 0 };
	struct refusal refusal;
	struct change *change;

	if (!body_open(call, &b))
		return;
	/* In a language file, which is how the rest is judged, anything may be a name. */
	body_text(&b, b.root, "yaml");
	body_text(&b, b.root, "id");
	body_text(&b, b.root, "name");
	if (body_is_good(&b, &refusal)) {
		change = change_new(call, false);
		if (languages_register(
			    call->service, b.root, call->caller.owner, &change->base, &e))
			refuse_change(call, change, &e);
	} else {
		reply_refusal(call, &refusal);
	}
	body_free(&b);
}

void languages_remove(struct call *call)
{
	struct err e = { 0 };
	struct change *change = change_new(call, true);

	if (languages_unregister(call->service, call->params[0], &change->base, &e))
		refuse_change(call, change, &e);
}
