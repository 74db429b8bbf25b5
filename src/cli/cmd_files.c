#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/json.h"
#include "cli/plain.h"
#include "cli/remote.h"
#include "cli/verbs.h"

#include "base/own.h"
#include "base/path.h"

#include <string.h>
#include <time.h>

enum { KEY_JSON = 0x200 };
enum { OPTION_JSON, OPTION_OUTPUT };

struct files {
	struct verbs verbs;
	struct server_options server;
	struct client *client;
	bool json;
	const char *output;
};

/* ---- what is done ---- */

/* What the server says of the new file; NULL with *e. */
static json_t *add_one(struct client *c, const char *path, struct err *e)
{
	auto_close int fd = -1;
	struct client_request q = { .method = "POST",
		.path = "/v1/files",
		.has_file = true,
		.part_name = path_base(path) };
	struct client_reply reply;
	json_t *root;

	if (remote_inputs_open(path, &fd, &q.body_size, e))
		return NULL;
	q.body_fd = fd;
	if (client_ask(c, &q, &reply, e))
		return NULL;
	root = json_loadb(reply.body.data ? reply.body.data : "", reply.body.len, 0, NULL);
	client_reply_free(&reply);
	if (!json_is_string(json_object_get(root, "file_id"))) {
		json_decref(root);
		root = NULL;
		err_set(e, ERR_PROTOCOL, "the server gives no id");
	}
	return root;
}

static int files_add(void *command)
{
	struct files *f = command;
	json_t *list = json_array();
	struct err e = { 0 };
	int status = 0;

	for (unsigned i = 0; i < f->verbs.count && !status; i++) {
		json_t *added = add_one(f->client, f->verbs.words[i], &e);

		if (!added) {
			err_wrap(&e, "'%s'", f->verbs.words[i]);
			status = verbs_fail(f->client, &e);
			break;
		}
		json_array_append_new(list, added);
		if (!f->json) {
			auto_buf struct buf line = { 0 };

			plain_add(&line, json_string_value(json_object_get(added, "file_id")),
				json_string_length(json_object_get(added, "file_id")));
			puts(line.data);
		}
	}
	if (f->json && json_print(json_pack("{s:O}", "files", list)))
		status = EXIT_HOTCELL;
	json_decref(list);
	return status;
}

static void print_list(json_t *list)
{
	struct columns table = { .heads = { "ID", "SIZE", "AGE", "NAME" } };
	double now = (double)time(NULL);
	char shown[32];

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *o = json_array_get(list, i);

		columns_add(&table, json_string_value(json_object_get(o, "file_id")));
		columns_add(&table,
			columns_size(json_number_value(json_object_get(o, "size_bytes")), shown));
		columns_add(&table,
			columns_span(
				now - json_number_value(json_object_get(o, "upload_time")), shown));
		columns_add(&table, json_string_value(json_object_get(o, "filename")));
	}
	columns_print(&table);
}

static int files_list(void *command)
{
	struct files *f = command;
	struct err e = { 0 };
	json_t *root = client_ask_json(f->client, "GET", "/v1/files", NULL, &e);
	int status = 0;

	if (!root)
		return verbs_fail(f->client, &e);
	if (!f->json)
		print_list(json_object_get(root, "files"));
	else if (json_print(json_incref(root)))
		status = EXIT_HOTCELL;
	json_decref(root);
	return status;
}

static char *path_of(const char *id)
{
	auto_free char *escaped = client_escape(id, false);

	return xasprintf("/v1/files/%s", escaped);
}

static int files_get(void *command)
{
	struct files *f = command;
	auto_free char *path = path_of(f->verbs.words[0]);
	struct err e = { 0 };

	if (remote_files_save(f->client, path, f->output, &e))
		return verbs_fail(f->client, &e);
	return 0;
}

/* All that are named, though one of them be gone. */
static int files_remove(void *command)
{
	struct files *f = command;
	int status = 0;

	for (unsigned i = 0; i < f->verbs.count && !client_was_interrupted(f->client); i++) {
		auto_free char *path = path_of(f->verbs.words[i]);
		struct err e = { 0 };

		if (client_tell(f->client, "DELETE", path, NULL, &e))
			status = verbs_fail(f->client, &e);
	}
	return status;
}

static const struct verb verbs[] = {
	{ "add", "FILE...", 1, VERBS_WORDS_MAX, 1 << OPTION_JSON, files_add,
		"store files; prints their ids" },
	{ "list", "", 0, 0, 1 << OPTION_JSON, files_list, "list stored files" },
	{ "get", "ID", 1, 1, 1 << OPTION_OUTPUT, files_get,
		"print a file, or write it to -o FILE" },
	{ "rm", "ID...", 1, VERBS_WORDS_MAX, 0, files_remove, "remove files" },
	{ 0 },
};

/* ---- the command line ---- */

static const struct argp_option table[] = {
	{ "json", KEY_JSON, NULL, 0, "print JSON", 1 },
	{ "output", 'o', "FILE", 0, "where get writes to; '-' is standard output", 1 },
	{ 0 },
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct files *f = state->input;

	switch (key) {
	case KEY_JSON:
		f->json = true;
		verbs_see(&f->verbs, OPTION_JSON, "json");
		return 0;
	case 'o':
		f->output = value;
		verbs_see(&f->verbs, OPTION_OUTPUT, "output");
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &f->server;
		return 0;
	case ARGP_KEY_ARG:
		verbs_take_word(state, &f->verbs, value);
		return 0;
	case ARGP_KEY_END:
		verbs_check(state, &f->verbs);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_files(int argc, char **argv)
{
	static const struct argp_child children[] = { { &server_options_argp, 0, NULL, 2 }, { 0 } };
	auto_free char *doc =
		verbs_describe(verbs, "Files that a service keeps, for runs and from them:",
			"The service removes a file after a while: its setting file_ttl_s.");
	struct argp argp = { table, on_option, "COMMAND [WORD...]", doc, children, NULL, NULL };
	static char name[] = "hotcell files";
	struct files f = { .verbs = { .table = verbs } };
	int status;

	argv[0] = name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, &f);
	status = verbs_run(&f.verbs, &f.server, &f.client, &f);
	free(f.verbs.words);
	return status;
}
