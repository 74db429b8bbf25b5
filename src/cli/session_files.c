#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/remote.h"
#include "cli/session.h"

#include "base/own.h"
#include "base/path.h"

#include <string.h>

static char *file_path(const struct session_command *s, const char *name)
{
	auto_free char *escaped = client_escape(name, true);
	auto_free char *behind = xasprintf("/files/%s", escaped);

	return session_path(s, behind);
}

static void print_list(json_t *list)
{
	struct columns table = { .heads = { "KIND", "SIZE", "GENERATED", "PATH" } };
	char shown[32];

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *o = json_array_get(list, i);

		columns_add(&table, json_string_value(json_object_get(o, "kind")));
		columns_add(&table,
			columns_size(json_number_value(json_object_get(o, "size_bytes")), shown));
		columns_add(&table, json_is_true(json_object_get(o, "generated")) ? "yes" : "no");
		columns_add(&table, json_string_value(json_object_get(o, "path")));
	}
	columns_print(&table);
}

int session_files(void *command)
{
	struct session_command *s = command;
	auto_free char *path = session_path(s, s->generated ? "/files?generated=true" : "/files");
	struct err e = { 0 };
	json_t *root = client_ask_json(s->client, "GET", path, NULL, &e);

	if (!root)
		return verbs_fail(s->client, &e);
	if (s->json)
		return session_print_json(root);
	print_list(json_object_get(root, "files"));
	if (json_is_true(json_object_get(root, "incomplete")))
		complain("there are too many files, or too deep ones, to list all");
	json_decref(root);
	return 0;
}

/* ID FILE [PATH] */
int session_put(void *command)
{
	struct session_command *s = command;
	const char *host = s->verbs.words[1];
	auto_free char *path =
		file_path(s, s->verbs.count > 2 ? s->verbs.words[2] : path_base(host));
	struct client_request q = { .method = "PUT", .path = path, .has_file = true };
	struct client_reply reply;
	auto_close int fd = -1;
	struct err e = { 0 };

	if (remote_inputs_open(host, &fd, &q.body_size, &e))
		return complain("%s", e.text);
	q.body_fd = fd;
	if (client_ask(s->client, &q, &reply, &e))
		return verbs_fail(s->client, &e);
	client_reply_free(&reply);
	return 0;
}

int session_get(void *command)
{
	struct session_command *s = command;
	auto_free char *path = file_path(s, s->verbs.words[1]);
	struct err e = { 0 };

	if (remote_files_save(s->client, path, s->output, &e))
		return verbs_fail(s->client, &e);
	return 0;
}

int session_remove(void *command)
{
	struct session_command *s = command;
	int status = 0;

	for (unsigned i = 1; i < s->verbs.count && !client_was_interrupted(s->client); i++) {
		auto_free char *path = file_path(s, s->verbs.words[i]);
		struct err e = { 0 };

		if (client_tell(s->client, "DELETE", path, NULL, &e))
			status = verbs_fail(s->client, &e);
	}
	return status;
}
