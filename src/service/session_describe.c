/* What a session is like, as JSON. */
#include "service/session_inner.h"

#include "base/own.h"
#include "service/job.h"
#include "wire/limits.h"

#include <string.h>

const char *session_strategy_name(const struct session *session)
{
	static const char *const names[] = { "per_session", "per_execution", "pool" };

	return names[session->config.strategy];
}

static json_t *describe_mounts(const struct session_config *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->mounts_count; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:b}", "source", c->mounts[i].source, "name",
				      c->mounts[i].name, "read_only", 1));
	return list;
}

/* What holds, as it may be asked for. */
static json_t *describe_limits(const struct hotcell_limits *l)
{
	uint64_t output_bytes =
		l->output_bytes ? l->output_bytes : limit_table[LIMIT_OUTPUT_BYTES].by_default;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "memory_bytes",
		(json_int_t)l->memory_bytes, "cpu_ms", (json_int_t)l->cpu_ms, "processes",
		(json_int_t)l->processes, "disk_bytes", (json_int_t)l->disk_bytes, "output_bytes",
		(json_int_t)output_bytes, "cpus",
		l->cpus_milli ? json_real((double)l->cpus_milli / 1000) : json_null());
}

json_t *session_describe_config(const struct session *session)
{
	static const char *const isolations[] = { "auto", "process", "container", "vm" };
	const struct session_config *c = &session->config;
	json_t *env = json_object();

	for (char **at = c->env; at && *at; at++) {
		auto_free char *name = xstrdup(*at);
		char *equals = strchr(name, '=');

		*equals = '\0';
		json_object_set_new_nocheck(env, name, json_string_nocheck(equals + 1));
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:o}", "language",
		c->language, "isolation", isolations[c->isolation], "strategy",
		session_strategy_name(session), "workspace", c->is_shared ? "shared" : "isolated",
		"network", c->network == HOTCELL_NETWORK_HOST ? "host" : "none", "env", env,
		"limits", describe_limits(&c->limits), "ttl_seconds", (json_int_t)c->ttl_s,
		"idle_timeout", (json_int_t)c->idle_timeout_s, "mounts", describe_mounts(c));
}

static json_t *describe_cells(const struct session *session)
{
	unsigned first = session->cells_count > SESSION_CELLS_MAX ?
				 session->cells_count - SESSION_CELLS_MAX :
				 0;
	json_t *list = json_array();

	for (unsigned i = first; i < session->cells_count; i++) {
		const struct session_cell *c = &session->cells[i % SESSION_CELLS_MAX];

		json_array_append_new(
			list, json_pack("{s:s, s:f, s:o, s:o, s:I}", "isolation", c->isolation,
				      "created", c->created_s, "ended",
				      c->ended_s > 0 ? json_real(c->ended_s) : json_null(),
				      "reason", *c->why ? json_string(c->why) : json_null(), "runs",
				      (json_int_t)c->runs));
	}
	return list;
}

static const char *state_name(const struct session *session)
{
	if (session->job && session->job->state == JOB_RUNNING)
		return "running";
	if (session->opening)
		return "opening";
	return session->turn && session->turn != &session->own_turn ? "busy" : "idle";
}

json_t *session_describe(const struct session *session)
{
	return json_pack("{s:s, s:o, s:s, s:f, s:f, s:f, s:I, s:b, s:o, s:o}", "session_id",
		session->id, "config", session_describe_config(session), "state",
		state_name(session), "created_at", session->created_s, "last_used_at",
		session->last_used_s, "expires_at", session->expires_s, "runs",
		(json_int_t)session->runs, "has_state", session->has_state, "cells",
		describe_cells(session), "user",
		session->config.user ? json_string_nocheck(session->config.user) : json_null());
}
