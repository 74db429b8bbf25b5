#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/json.h"
#include "cli/plain.h"
#include "cli/remote.h"
#include "cli/session.h"

#include "base/own.h"
#include "base/utf8.h"

#include <string.h>
#include <time.h>

char *session_path(const struct session_command *s, const char *behind)
{
	auto_free char *id = client_escape(s->verbs.words[0], false);

	return xasprintf("/v1/sessions/%s%s", id, behind);
}

int session_print_json(json_t *value)
{
	return json_print(value) ? EXIT_HOTCELL : 0;
}

static const char *text_of(json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

static double number_of(json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

/* Text from outside, and a line end. */
static void print_line(const char *text)
{
	auto_free char *plain = plain_text(text ? text : "");

	puts(plain);
}

/* ---- new ---- */

static int set_text(json_t *o, const char *name, const char *text, struct err *e)
{
	if (text && !utf8_valid(text, strlen(text)))
		return err_set(e, ERR_INPUT, "--%s is not UTF-8", name);
	if (text)
		json_object_set_new(o, name, json_string_nocheck(text));
	return 0;
}

static void set_number(json_t *o, const char *name, uint64_t value)
{
	if (value)
		json_object_set_new(o, name, json_integer((json_int_t)value));
}

static int add_parts(json_t *body, const struct session_command *s, struct remote_uploads *uploads,
	struct err *e)
{
	json_t *env = remote_env_json(s->env, s->env_count, e);
	json_t *files =
		env ? remote_inputs_json(s->client, s->inputs, s->inputs_count, uploads, e) : NULL;
	json_t *limits = remote_limits_json(&s->limits);

	if (files && s->env_count)
		json_object_set(body, "env", env);
	if (files && s->inputs_count)
		json_object_set(body, "files", files);
	if (json_object_size(limits))
		json_object_set(body, "limits", limits);
	json_decref(env);
	json_decref(limits);
	if (!files)
		return -1;
	json_decref(files);
	return 0;
}

static json_t *make_body(
	const struct session_command *s, struct remote_uploads *uploads, struct err *e)
{
	json_t *body = json_object();

	if (s->isolation != HOTCELL_ISOLATION_AUTO)
		json_object_set_new(
			body, "isolation", json_string(remote_isolation_name(s->isolation)));
	if (s->network == HOTCELL_NETWORK_HOST)
		json_object_set_new(body, "network", json_string("host"));
	set_number(body, "ttl_seconds", s->ttl_s);
	set_number(body, "idle_timeout", s->idle_timeout_s);
	if (set_text(body, "language", s->language, e) == 0 &&
		set_text(body, "strategy", s->strategy, e) == 0 &&
		set_text(body, "workspace", s->workspace, e) == 0 &&
		set_text(body, "profile", s->profile, e) == 0 &&
		set_text(body, "user", s->user, e) == 0 && add_parts(body, s, uploads, e) == 0)
		return body;
	json_decref(body);
	return NULL;
}

int session_new(void *command)
{
	struct session_command *s = command;
	struct remote_uploads uploads = { 0 };
	struct err e = { 0 };
	json_t *body = make_body(s, &uploads, &e);
	json_t *made = body ? client_ask_json(s->client, "POST", "/v1/sessions", body, &e) : NULL;

	json_decref(body);
	remote_uploads_remove(s->client, &uploads);
	if (!made)
		return verbs_fail(s->client, &e);
	if (s->json)
		return session_print_json(made);
	print_line(text_of(made, "session_id"));
	json_decref(made);
	return 0;
}

/* ---- looking ---- */

static void add_row(struct columns *table, json_t *o, double now)
{
	json_t *config = json_object_get(o, "config");
	char shown[32];

	columns_add(table, text_of(o, "session_id"));
	columns_add(table, text_of(o, "state"));
	columns_add(table, text_of(config, "language"));
	columns_add(table, text_of(config, "isolation"));
	columns_add(table, text_of(config, "strategy"));
	columns_addf(table, "%.0f", number_of(o, "runs"));
	columns_add(table, columns_span(now - number_of(o, "last_used_at"), shown));
	columns_add(table, columns_span(number_of(o, "expires_at") - now, shown));
}

int session_list(void *command)
{
	struct session_command *s = command;
	struct columns table = { .heads = { "ID", "STATE", "LANGUAGE", "ISOLATION", "STRATEGY",
					 "RUNS", "LAST USED", "ENDS IN" } };
	struct err e = { 0 };
	json_t *root = client_ask_json(s->client, "GET", "/v1/sessions", NULL, &e);
	json_t *list = json_object_get(root, "sessions");

	if (!root)
		return verbs_fail(s->client, &e);
	if (s->json)
		return session_print_json(root);
	for (size_t i = 0; i < json_array_size(list); i++)
		add_row(&table, json_array_get(list, i), (double)time(NULL));
	columns_print(&table);
	json_decref(root);
	return 0;
}

static void show_value(const char *name, json_t *value)
{
	auto_free char *shown = json_is_string(value) ? xstrdup(json_string_value(value)) :
							json_dumps(value, JSON_ENCODE_ANY);
	auto_free char *plain = plain_text(shown ? shown : "");
	auto_free char *plain_name = plain_text(name);

	printf("%-14s %s\n", plain_name, plain);
}

static void show_time(const char *name, json_t *value)
{
	time_t when = (time_t)json_number_value(value);
	struct tm broken;
	char text[64] = "-";

	if (json_is_number(value) && localtime_r(&when, &broken))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &broken);
	printf("%-14s %s\n", name, text);
}

/* Everything: what we know by name first, the lists last. */
static void show_session(json_t *o)
{
	static const char *const times[] = { "created_at", "last_used_at", "expires_at" };
	static const char *const plain[] = { "session_id", "state", "runs", "has_state", "user" };
	json_t *config = json_object_get(o, "config");
	json_t *cells = json_object_get(o, "cells");
	json_t *files = json_object_get(o, "files");
	const char *name;
	json_t *value;
	size_t i;

	for (i = 0; i < COUNT(plain); i++)
		if (json_object_get(o, plain[i]))
			show_value(plain[i], json_object_get(o, plain[i]));
	for (i = 0; i < COUNT(times); i++)
		show_time(times[i], json_object_get(o, times[i]));
	json_object_foreach(config, name, value)
	{
		show_value(name, value);
	}
	json_array_foreach(cells, i, value)
	{
		show_value("cell", value);
	}
	json_array_foreach(files, i, value)
	{
		show_value("file", json_object_get(value, "path"));
	}
}

int session_show(void *command)
{
	struct session_command *s = command;
	auto_free char *path = session_path(s, "");
	struct err e = { 0 };
	json_t *o = client_ask_json(s->client, "GET", path, NULL, &e);

	if (!o)
		return verbs_fail(s->client, &e);
	if (s->json)
		return session_print_json(o);
	show_session(o);
	json_decref(o);
	return 0;
}

/* ---- doing ---- */

static void print_stream(json_t *o, const char *name, FILE *to)
{
	json_t *text = json_object_get(o, name);

	if (json_is_string(text))
		fwrite(json_string_value(text), 1, json_string_length(text), to);
}

static int ask_bash(struct session_command *s, json_t *body, json_t **ret, struct err *e)
{
	auto_free char *path = session_path(s, "/bash");
	struct client_request q = {
		.method = "POST", .path = path, .json = body, .has_patience = true
	};
	struct client_reply reply;

	if (client_ask(s->client, &q, &reply, e))
		return -1;
	*ret = json_loadb(
		reply.body.data ? reply.body.data : "", reply.body.len, JSON_ALLOW_NUL, NULL);
	client_reply_free(&reply);
	return json_is_object(*ret) ? 0 :
				      err_set(e, ERR_PROTOCOL, "that is no answer of hotcell's");
}

/* Ctrl-C ends it, too: the server cancels what nobody waits for. */
int session_bash(void *command)
{
	struct session_command *s = command;
	const char *cmd = s->verbs.words[1];
	json_t *body = json_object();
	json_t *result = NULL;
	struct err e = { 0 };
	int status;

	set_number(body, "timeout_ms", s->limits.wall_ms);
	if (set_text(body, "cmd", cmd, &e) || ask_bash(s, body, &result, &e)) {
		json_decref(body);
		json_decref(result);
		return verbs_fail(s->client, &e);
	}
	json_decref(body);
	status = remote_exit_status(result);
	if (s->json) {
		int failed = session_print_json(result);

		return failed ? failed : status;
	}
	print_stream(result, "stdout", stdout);
	fflush(stdout);
	print_stream(result, "stderr", stderr);
	if (status == EXIT_TIMEOUT)
		fprintf(stderr, "hotcell: timeout\n");
	json_decref(result);
	return status;
}

static int tell(struct session_command *s, const char *method, const char *path)
{
	struct err e = { 0 };
	json_t *o;

	if (!s->json)
		return client_tell(s->client, method, path, NULL, &e) ? verbs_fail(s->client, &e) :
									0;
	o = client_ask_json(s->client, method, path, NULL, &e);
	return o ? session_print_json(o) : verbs_fail(s->client, &e);
}

int session_interrupt(void *command)
{
	struct session_command *s = command;
	auto_free char *path = session_path(s, "/interrupt");

	return tell(s, "POST", path);
}

int session_extend(void *command)
{
	struct session_command *s = command;
	auto_free char *path = session_path(s, "");
	json_t *body = json_object();
	struct err e = { 0 };
	json_t *o;

	set_number(body, "ttl_seconds", s->ttl_s);
	set_number(body, "idle_timeout", s->idle_timeout_s);
	if (!json_object_size(body)) {
		json_decref(body);
		return complain("extend by how much? Give --ttl TIME or --idle-timeout TIME");
	}
	o = client_ask_json(s->client, "PATCH", path, body, &e);
	json_decref(body);
	if (!o)
		return verbs_fail(s->client, &e);
	if (s->json)
		return session_print_json(o);
	show_time("expires_at", json_object_get(o, "expires_at"));
	json_decref(o);
	return 0;
}

static void print_kept(json_t *list)
{
	struct columns table = { .heads = { "ID", "SIZE", "PATH" } };
	char shown[32];

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *o = json_array_get(list, i);

		columns_add(&table, text_of(o, "file_id"));
		columns_add(&table, columns_size(number_of(o, "size_bytes"), shown));
		columns_add(&table, text_of(o, "path"));
	}
	columns_print(&table);
}

int session_close(void *command)
{
	struct session_command *s = command;
	auto_free char *path = session_path(s, s->keep_generated ? "?keep_generated=true" : "");
	struct err e = { 0 };
	json_t *o;

	if (!s->keep_generated)
		return client_tell(s->client, "DELETE", path, NULL, &e) ?
			       verbs_fail(s->client, &e) :
			       0;
	o = client_ask_json(s->client, "DELETE", path, NULL, &e);
	if (!o)
		return verbs_fail(s->client, &e);
	if (s->json)
		return session_print_json(o);
	print_kept(json_object_get(o, "files"));
	json_decref(o);
	return 0;
}
