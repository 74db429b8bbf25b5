#include "cli/cli.h"
#include "cli/remote.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "base/utf8.h"
#include "cli/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { TEXT_MAX = 256 << 20, SHEBANG_MAX = 255 };

/* ---- what a server cannot do ---- */

static int refuse_option(struct err *e, const char *option, const char *why)
{
	return err_set(e, ERR_INPUT, "--%s cannot be had from a server: %s", option, why);
}

static int check_options(const struct run_options *o, struct err *e)
{
	const struct hotcell_request *q = &o->request;

	if (q->trace)
		return refuse_option(e, "trace", "it is for runs on this machine");
	if (o->dirs_count)
		return refuse_option(e, "languages", "languages are the server's");
	if (q->limits.file_bytes)
		return refuse_option(e, "file-size", "use --disk");
	if (q->limits.open_files)
		return refuse_option(e, "open-files", "that is the server's to say");
	if (!o->session_id)
		return 0;
	if (q->isolation || q->network || q->profile)
		return err_set(e, ERR_INPUT,
			"a session has its isolation, network and profile from 'hotcell session new'");
	return 0;
}

/* ---- single fields ---- */

const char *remote_isolation_name(enum hotcell_isolation isolation)
{
	static const char *const names[] = {
		[HOTCELL_ISOLATION_AUTO] = "auto",
		[HOTCELL_ISOLATION_PROCESS] = "process",
		[HOTCELL_ISOLATION_CONTAINER] = "container",
		[HOTCELL_ISOLATION_VM] = "vm",
	};

	return names[isolation];
}

/* NULL with *e if it is not UTF-8, which is all that JSON can carry. */
static json_t *text_json(const char *what, const char *data, size_t len, struct err *e)
{
	if (utf8_valid(data, len))
		return json_stringn_nocheck(data, len);
	err_set(e, ERR_INPUT, "%s is not UTF-8, and only that can be sent to a server", what);
	return NULL;
}

json_t *remote_env_json(const char *const *env, unsigned count, struct err *e)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < count; i++) {
		const char *value = strchr(env[i], '=') + 1;
		auto_free char *name = xasprintf("%.*s", (int)(value - 1 - env[i]), env[i]);
		json_t *text = text_json("a setting of --env", value, strlen(value), e);

		if (text && utf8_valid(name, strlen(name))) {
			json_object_set_new_nocheck(o, name, text);
			continue;
		}
		if (text)
			err_set(e, ERR_INPUT, "a name of --env is not UTF-8");
		json_decref(text);
		json_decref(o);
		return NULL;
	}
	return o;
}

static json_t *args_json(const struct run_options *o, struct err *e)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < o->args_count; i++) {
		json_t *text = text_json("an argument", o->args[i], strlen(o->args[i]), e);

		if (!text) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, text);
	}
	return list;
}

static void set_number(json_t *o, const char *name, uint64_t value)
{
	if (value)
		json_object_set_new(o, name, json_integer((json_int_t)value));
}

/* timeout_ms is a field of the run itself. */
json_t *remote_limits_json(const struct hotcell_limits *l)
{
	json_t *o = json_object();

	set_number(o, "cpu_ms", l->cpu_ms);
	set_number(o, "memory_bytes", l->memory_bytes);
	set_number(o, "processes", l->processes);
	set_number(o, "disk_bytes", l->disk_bytes);
	set_number(o, "output_bytes", l->output_bytes);
	if (l->cpus_milli)
		json_object_set_new(o, "cpus", json_real((double)l->cpus_milli / 1000));
	return o;
}

/* ---- the language ---- */

static bool ends_with(const char *name, const char *ending)
{
	size_t len = strlen(ending);
	size_t name_len = strlen(name);

	return len && name_len > len && strcasecmp(name + name_len - len, ending) == 0;
}

/* Endings are written ".py". */
static bool has_ending(json_t *language, const char *name)
{
	json_t *endings = json_object_get(language, "extensions");

	for (size_t i = 0; i < json_array_size(endings); i++) {
		const char *ending = json_string_value(json_array_get(endings, i));

		if (ending && ends_with(name, ending))
			return true;
	}
	return false;
}

/* The interpreter of "#!/usr/bin/env python3" or "#!/bin/bash", without a version: "python". "" if none. */
static void read_shebang(const char *code, size_t len, char *ret, size_t size)
{
	char line[SHEBANG_MAX + 1];
	char *rest;
	const char *word;

	ret[0] = '\0';
	if (len < 2 || strncmp(code, "#!", 2) != 0)
		return;
	snprintf(line, sizeof(line), "%.*s", (int)(len > SHEBANG_MAX ? SHEBANG_MAX : len), code);
	line[strcspn(line, "\r\n")] = '\0';
	word = strtok_r(line + 2, " \t", &rest);
	if (word && strcmp(path_base(word), "env") == 0)
		do
			word = strtok_r(NULL, " \t", &rest);
		while (word && (word[0] == '-' || strchr(word, '=')));
	if (!word)
		return;
	snprintf(ret, size, "%s", path_base(word));
	for (size_t end = strlen(ret); end > 1 && strchr("0123456789.", ret[end - 1]); end--)
		ret[end - 1] = '\0';
}

static bool is_called(json_t *language, const char *name)
{
	json_t *aliases = json_object_get(language, "aliases");
	const char *id = json_string_value(json_object_get(language, "id"));

	if (id && strcasecmp(id, name) == 0)
		return true;
	for (size_t i = 0; i < json_array_size(aliases); i++) {
		const char *alias = json_string_value(json_array_get(aliases, i));

		if (alias && strcasecmp(alias, name) == 0)
			return true;
	}
	return false;
}

/* The server's languages tell, as those of this machine do for a run on it. */
static json_t *guess_language(
	struct client *c, const char *entry, const char *code, size_t code_len, struct err *e)
{
	json_t *root = client_ask_json(c, "GET", "/v1/languages", NULL, e);
	json_t *list = json_object_get(root, "languages");
	json_t *found = NULL;
	char program[64];

	if (!root)
		return NULL;
	read_shebang(code ? code : "", code ? code_len : 0, program, sizeof(program));
	for (size_t i = 0; entry && !found && i < json_array_size(list); i++)
		if (has_ending(json_array_get(list, i), path_base(entry)))
			found = json_object_get(json_array_get(list, i), "id");
	for (size_t i = 0; *program && !found && i < json_array_size(list); i++)
		if (is_called(json_array_get(list, i), program))
			found = json_object_get(json_array_get(list, i), "id");
	if (json_is_string(found))
		json_incref(found);
	else
		err_set(e, ERR_INPUT,
			"neither an ending nor a #! line tells the server's language; give -l LANG");
	json_decref(root);
	return json_is_string(found) ? found : NULL;
}

/* ---- code and input ---- */

/* All of a file, "-" being our own input. */
static int read_whole(const char *path, const char *what, struct buf *ret, struct err *e)
{
	bool is_ours = strcmp(path, "-") == 0;
	auto_close int fd = is_ours ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	do {
		n = read(fd, buf_reserve(ret, 65536), 65536);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "%s '%s'", what, path);
		if (n > 0)
			ret->len += (size_t)n;
		if (ret->len > TEXT_MAX)
			return err_set(e, ERR_LIMIT, "%s '%s': more than %d MiB", what, path,
				TEXT_MAX >> 20);
	} while (n);
	buf_add(ret, "", 0);
	return 0;
}

/* FILE goes as code under its own name; what is not UTF-8 goes as a file. */
static int take_code_file(struct run_options *o, struct err *e)
{
	const char *name = path_base(o->code_file);

	if (read_whole(o->code_file, "read", &o->code, e))
		return -1;
	if (!o->request.entry)
		o->request.entry = name;
	if (utf8_valid(o->code.data, o->code.len) && strcmp(o->request.entry, name) == 0) {
		o->request.code = o->code.data;
		o->request.code_len = o->code.len;
		return 0;
	}
	if (o->request.last_line)
		return err_set(e, ERR_INPUT, "--last-line: '%s' is not UTF-8, or not what is run",
			o->code_file);
	o->inputs[o->request.inputs_count++] =
		(struct hotcell_input){ .host_path = o->code_file, .path = name };
	return 0;
}

static int add_code(json_t *root, struct run_options *o, struct err *e)
{
	struct hotcell_request *q = &o->request;
	json_t *code;

	if (q->code) {
		if (!q->code_len)
			q->code_len = strlen(q->code);
		code = text_json("the code", q->code, q->code_len, e);
		if (!code)
			return -1;
		json_object_set_new(root, "code", code);
	}
	if (q->entry && !utf8_valid(q->entry, strlen(q->entry)))
		return err_set(e, ERR_INPUT, "the name of what is run is not UTF-8");
	if (q->entry)
		json_object_set_new(root, "entry_point", json_string_nocheck(q->entry));
	return 0;
}

static int add_stdin(json_t *root, const struct run_options *o, struct err *e)
{
	auto_buf struct buf input = { 0 };
	json_t *text;

	if (!o->stdin_path)
		return 0;
	if (read_whole(o->stdin_path, "stdin", &input, e))
		return -1;
	text = text_json("the program's input", input.data, input.len, e);
	if (!text)
		return -1;
	json_object_set_new(root, "stdin", text);
	return 0;
}

static int add_language(json_t *root, struct client *c, const struct run_options *o, struct err *e)
{
	const struct hotcell_request *q = &o->request;
	/* A file that is not sent as code still has its first line to tell. */
	const char *code = q->code ? q->code : o->code.data;
	json_t *language;

	if (q->language && !utf8_valid(q->language, strlen(q->language)))
		return err_set(e, ERR_INPUT, "the language's name is not UTF-8");
	if (!q->language && o->session_id)
		return 0;
	language = q->language ? json_string_nocheck(q->language) :
				 guess_language(
					 c, q->entry, code, q->code ? q->code_len : o->code.len, e);
	if (!language)
		return -1;
	json_object_set_new(root, "language", language);
	return 0;
}

/* ---- all of it ---- */

static void add_walls(json_t *root, const struct run_options *o)
{
	const struct hotcell_request *q = &o->request;
	json_t *limits = remote_limits_json(&q->limits);

	if (q->isolation != HOTCELL_ISOLATION_AUTO)
		json_object_set_new(
			root, "isolation", json_string(remote_isolation_name(q->isolation)));
	if (q->network == HOTCELL_NETWORK_HOST)
		json_object_set_new(root, "network", json_string("host"));
	set_number(root, "timeout_ms", q->limits.wall_ms);
	if (json_object_size(limits))
		json_object_set(root, "limits", limits);
	json_decref(limits);
}

static int add_words(json_t *root, const struct run_options *o, struct err *e)
{
	json_t *args = args_json(o, e);
	json_t *env = args ? remote_env_json(o->env, o->env_count, e) : NULL;
	const char *profile = o->request.profile;

	if (env && o->args_count)
		json_object_set(root, "args", args);
	if (env && o->env_count)
		json_object_set(root, "env", env);
	json_decref(args);
	if (!env)
		return -1;
	json_decref(env);
	if (profile && !utf8_valid(profile, strlen(profile)))
		return err_set(e, ERR_INPUT, "the profile's name is not UTF-8");
	if (profile)
		json_object_set_new(root, "profile", json_string_nocheck(profile));
	json_object_set_new(root, "last_line_interactive", json_boolean(o->request.last_line));
	return 0;
}

static int add_files(json_t *root, struct client *c, const struct run_options *o,
	struct remote_uploads *uploads, struct err *e)
{
	json_t *files =
		remote_inputs_json(c, o->request.inputs, o->request.inputs_count, uploads, e);

	if (!files)
		return -1;
	if (json_array_size(files))
		json_object_set(root, "files", files);
	json_decref(files);
	return 0;
}

json_t *remote_request_make(
	struct client *c, struct run_options *o, struct remote_uploads *uploads, struct err *e)
{
	json_t *root = json_object();
	int failed = check_options(o, e);

	if (!failed && o->code_file && strcmp(o->code_file, "-") != 0)
		failed = take_code_file(o, e);
	/* Files last: what is stored for nothing would have to be removed. */
	if (!failed && add_code(root, o, e) == 0 && add_stdin(root, o, e) == 0 &&
		add_words(root, o, e) == 0 && add_language(root, c, o, e) == 0) {
		add_walls(root, o);
		failed = add_files(root, c, o, uploads, e);
		if (!failed)
			return root;
	}
	json_decref(root);
	return NULL;
}
