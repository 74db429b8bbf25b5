#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote.h"
#include "cli/show.h"
#include "cli/sse.h"

#include "base/own.h"
#include "cli/plain.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

enum {
	CANCEL_S = 5, /* time that a server has to end a run that was cancelled */
	JSON_OUTPUT_MAX =
		1000000 /* of a stream in the object, unless --max-output says otherwise */
};

/* A run that goes on over there. */
struct remote {
	struct run_options *options;
	struct client *client;
	struct client_reply reply; /* its run_id is known before its end */
	struct sse events;
	struct show show;
	struct buf kept[2]; /* --json: what it printed */
	json_t *result;     /* of its last event */
	char failure[512];  /* or why there is none */
	bool was_cancelled;
};

/* ---- what comes ---- */

static void keep_output(struct remote *r, bool is_err, const char *data, size_t len)
{
	uint64_t room = r->show.most - r->kept[is_err].len;

	if (len > room) {
		len = (size_t)room;
		r->show.was_cut[is_err] = true;
	}
	buf_add(&r->kept[is_err], data, len);
}

static int take_output(struct remote *r, json_t *data, struct err *e)
{
	json_t *text = json_object_get(data, "data");
	const char *stream = json_string_value(json_object_get(data, "stream"));
	bool is_err = stream && strcmp(stream, "stderr") == 0;

	if (!json_is_string(text))
		return err_set(e, ERR_PROTOCOL, "the server sends output that is no text");
	if (r->options->json) {
		keep_output(r, is_err, json_string_value(text), json_string_length(text));
		return 0;
	}
	show_output(&r->show, is_err, json_string_value(text), json_string_length(text));
	return r->show.error ? err_set(e, ERR_GONE, "nobody reads") : 0;
}

static int on_event(void *context, const char *name, const char *data, size_t len, struct err *e)
{
	struct remote *r = context;
	json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, NULL);
	const char *message = json_string_value(json_object_get(root, "message"));
	int failed = 0;

	if (!json_is_object(root))
		failed = err_set(
			e, ERR_PROTOCOL, "the server sends an event that is no JSON object");
	else if (strcmp(name, "output") == 0)
		failed = take_output(r, root, e);
	else if (strcmp(name, "result") == 0 && !r->result)
		r->result = json_incref(root);
	else if (strcmp(name, "error") == 0)
		snprintf(
			r->failure, sizeof(r->failure), "%s", message ? message : "the run failed");
	json_decref(root);
	return failed;
}

static int on_bytes(void *context, const char *data, size_t len, struct err *e)
{
	struct remote *r = context;

	return sse_feed(&r->events, data, len, e);
}

/* ---- Ctrl-C ---- */

/* The first one cancels the run, whose result still comes; the second one leaves at once, as does the first
 * if we do not know yet what it is called: the server cancels what nobody waits for. */
static bool on_interrupt(void *context)
{
	struct remote *r = context;
	auto_free char *path = xasprintf("/v1/runs/%s", r->reply.run_id);
	struct client_request q = { .method = "DELETE", .path = path, .patience_s = CANCEL_S };
	struct client_reply reply;
	struct client *again;
	struct err e;

	if (r->was_cancelled || !*r->reply.run_id)
		return false;
	r->was_cancelled = true;
	r->show.interrupted = false;
	again = client_again(r->client);
	if (client_ask(again, &q, &reply, &e) == 0)
		client_reply_free(&reply);
	client_free(again);
	return true;
}

/* ---- its end ---- */

static void add_output(struct remote *r)
{
	static const char *const names[] = { "stdout", "stderr" };
	json_t *cut = json_object_get(r->result, "truncated");

	for (int i = 0; i < 2; i++) {
		const char *data = r->kept[i].data ? r->kept[i].data : "";

		if (r->options->json)
			json_object_set_new(r->result, names[i], json_text(data, r->kept[i].len));
		/* The server cuts what it keeps; what it sends is whole, and cut here. */
		if (json_is_object(cut))
			json_object_set_new(cut, names[i], json_boolean(r->show.was_cut[i]));
	}
}

static int finish(struct remote *r, int out_dir)
{
	const struct run_options *o = r->options;
	uint64_t most = o->request.limits.disk_bytes ? o->request.limits.disk_bytes : UINT64_MAX;
	int status;

	add_output(r);
	status = remote_report(o, r->result);
	if (out_dir >= 0)
		remote_files_fetch(r->client, json_object_get(r->result, "files"), out_dir, most);
	return status;
}

/* There is no result. */
static int fail(const struct remote *r, const struct err *e)
{
	auto_free char *words = plain_text(*r->failure ? r->failure : e->text);

	if (r->show.error == EPIPE)
		return 128 + SIGPIPE; /* as a program without us would have ended */
	if (r->show.error)
		return complain("write the program's output: %s", strerror(r->show.error));
	if (client_was_interrupted(r->client)) {
		if (!r->options->quiet)
			fprintf(stderr, "hotcell: cancelled\n");
		return 128 + SIGINT;
	}
	return complain("%s", *words ? words : "the server ended the stream before the run's end");
}

/* ---- all of it ---- */

static char *path_of(const struct run_options *o)
{
	auto_free char *id = NULL;

	if (!o->session_id)
		return xstrdup("/v1/execute/stream");
	id = client_escape(o->session_id, false);
	return xasprintf("/v1/sessions/%s/execute/stream", id);
}

static int ask(struct remote *r, json_t *body, int out_dir)
{
	auto_free char *path = path_of(r->options);
	struct client_request q = {
		.method = "POST",
		.path = path,
		.json = body,
		.has_patience = true,
		.patience_s = CANCEL_S,
		.on_bytes = on_bytes,
		.on_interrupt = on_interrupt,
		.context = r,
	};
	struct err e = { 0 };

	if (client_ask(r->client, &q, &r->reply, &e) == 0)
		client_reply_free(&r->reply);
	return r->result && !r->show.error ? finish(r, out_dir) : fail(r, &e);
}

static uint64_t most_output(const struct run_options *o)
{
	if (o->max_output_given)
		return o->request.max_output;
	return o->json ? JSON_OUTPUT_MAX : UINT64_MAX;
}

static int run(struct run_options *o, struct client *client, int out_dir)
{
	struct remote r = { .options = o, .client = client };
	struct remote_uploads uploads = { 0 };
	struct err e = { 0 };
	json_t *body;
	int status;

	r.show = (struct show){ .most = most_output(o), .signal_fd = show_catch_signals() };
	r.events = (struct sse){ .on_event = on_event, .context = &r };
	client_watch_signals(client, r.show.signal_fd);
	body = remote_request_make(client, o, &uploads, &e);
	if (body)
		status = ask(&r, body, out_dir);
	else
		status = client_was_interrupted(client) ? 128 + SIGINT : complain("%s", e.text);
	remote_uploads_remove(client, &uploads);
	json_decref(body);
	json_decref(r.result);
	sse_free(&r.events);
	buf_free(&r.kept[0]);
	buf_free(&r.kept[1]);
	return status;
}

int remote_run(struct run_options *o)
{
	auto_close int out_dir = -1;
	struct client *client;
	struct err e = { 0 };
	int status;

	if (o->request.output_dir && remote_files_open_dir(o->request.output_dir, &out_dir, &e))
		return complain("%s", e.text);
	if (client_open(&o->server, &client, &e))
		return complain("%s", e.text);
	status = run(o, client, out_dir);
	client_free(client);
	return status;
}
