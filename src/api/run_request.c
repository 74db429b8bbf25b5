#include "api/run_request.h"

#include "base/base64.h"
#include "base/map.h"
#include "base/own.h"
#include "base/path.h"
#include "language/language.h"

#include <openssl/evp.h>
#include <string.h>

enum {
	FILES_MAX = 10000,
	WORDS_MAX = 500,
	SPEC_NAME_MAX = 256,
	OUTPUT_LEAST = 1024,
	MEMORY_LEAST = 4 << 20
};

/* The program of a request that names no entry point: existing clients read it in tracebacks. */
#define ENTRY_PYTHON "__main__.py"

/* ---- single fields ---- */

enum hotcell_isolation run_request_isolation(struct body *b, json_t *o)
{
	static const char *const names[] = { "auto", "process", "container", "vm", NULL };

	return (enum hotcell_isolation)body_choice(
		b, o, "isolation", names, HOTCELL_ISOLATION_AUTO);
}

enum hotcell_network run_request_network(struct body *b, json_t *o)
{
	static const char *const names[] = { "none", "host", NULL };

	return body_choice(b, o, "network", names, 0) == 1 ? HOTCELL_NETWORK_HOST :
							     HOTCELL_NETWORK_DEFAULT;
}

static enum config_reuse read_reuse(struct body *b, json_t *o, const struct config *config)
{
	static const char *const names[] = { "same-owner", "never", "always", NULL };

	return (enum config_reuse)body_choice(b, o, "reuse", names, (int)config->reuse);
}

/* Other fields that nobody knows are passed over, for clients that say more than we understand. But whoever misspells a
 * limit would have none. */
static void refuse_unknown_limit(struct body *b, json_t *limits)
{
	static const char *const known[] = { "cpu_ms", "memory_bytes", "processes", "disk_bytes",
		"output_bytes", "cpus" };
	const char *name;
	json_t *value;

	json_object_foreach(limits, name, value)
	{
		bool is_known = false;

		for (size_t i = 0; i < COUNT(known); i++)
			is_known = is_known || strcmp(name, known[i]) == 0;
		if (!is_known) {
			body_complain(b, name, "extra_forbidden", value,
				"There is no such limit: cpu_ms, memory_bytes, processes, disk_bytes, output_bytes and cpus are limits");
			return;
		}
	}
}

/* What is not said stays as it is. */
static void read_limits(struct body *b, json_t *o, struct hotcell_limits *ret)
{
	const struct config *c = b->call->service->config;
	json_t *limits = body_object(b, o, "limits");
	uint64_t cpus_max = c->cpus_max_milli ? c->cpus_max_milli : 1024000;
	json_t *cpus;

	if (!limits)
		return;
	body_enter(b, "limits");
	refuse_unknown_limit(b, limits);
	ret->cpu_ms = body_integer(b, limits, "cpu_ms", 1, c->cpu_max_ms, ret->cpu_ms);
	ret->memory_bytes = body_integer(
		b, limits, "memory_bytes", MEMORY_LEAST, c->memory_max_bytes, ret->memory_bytes);
	ret->processes = body_integer(b, limits, "processes", 1, c->processes_max, ret->processes);
	ret->disk_bytes =
		body_integer(b, limits, "disk_bytes", 1 << 16, c->disk_max_bytes, ret->disk_bytes);
	ret->output_bytes = body_integer(
		b, limits, "output_bytes", OUTPUT_LEAST, UINT32_MAX, ret->output_bytes);
	cpus = json_object_get(limits, "cpus");
	if (json_is_number(cpus) && json_number_value(cpus) >= 0.01 &&
		json_number_value(cpus) * 1000 <= (double)cpus_max)
		ret->cpus_milli = (uint64_t)(json_number_value(cpus) * 1000);
	else if (cpus && !json_is_null(cpus))
		body_complain(b, "cpus", "value_error", cpus,
			"Value error, want a number from 0.01 to %g", (double)cpus_max / 1000);
	body_leave(b);
}

void run_request_limits(struct body *b, json_t *o, struct hotcell_limits *ret)
{
	service_default_limits(b->call->service->config, ret);
	read_limits(b, o, ret);
}

static bool is_setting_name(const char *name)
{
	return *name && !strchr(name, '=') && strlen(name) <= SPEC_NAME_MAX;
}

char **run_request_env(struct body *b, json_t *o)
{
	json_t *env = body_object(b, o, "env");
	size_t count = 0;
	char **list;
	const char *name;
	json_t *value;

	if (!env || json_object_size(env) == 0)
		return NULL;
	if (json_object_size(env) > WORDS_MAX) {
		body_complain(b, "env", "too_long", json_null(), "There may be at most %d settings",
			WORDS_MAX);
		return NULL;
	}
	list = xalloc((json_object_size(env) + 1) * sizeof(*list));
	body_enter(b, "env");
	json_object_foreach(env, name, value)
	{
		const char *text = body_text(b, env, name);

		if (!is_setting_name(name))
			body_complain(b, name, "value_error", value,
				"Value error, it is no name for a setting");
		else if (text)
			list[count++] = xasprintf("%s=%s", name, text);
		else if (json_is_null(value))
			body_complain(
				b, name, "string_type", value, "Input should be a valid string");
	}
	body_leave(b);
	return list;
}

static char **read_args(struct body *b, json_t *o)
{
	json_t *args = body_list(b, o, "args", WORDS_MAX);
	char **list;
	size_t count = 0;
	size_t i;
	json_t *value;

	if (!args || json_array_size(args) == 0)
		return NULL;
	list = xalloc((json_array_size(args) + 1) * sizeof(*list));
	body_enter(b, "args");
	json_array_foreach(args, i, value)
	{
		body_enter_item(b, i);
		if (!json_is_string(value))
			body_complain(
				b, NULL, "string_type", value, "Input should be a valid string");
		else if (strlen(json_string_value(value)) != json_string_length(value))
			body_complain(b, NULL, "value_error", value,
				"Value error, it must not contain NUL");
		else
			list[count++] = xstrdup(json_string_value(value));
		body_leave(b);
	}
	body_leave(b);
	return list;
}

/* ---- files ---- */

int run_request_path(const char *path, const char *reserved, struct refusal *refusal)
{
	struct err e = { 0 };

	if (!*path)
		return refuse(refusal, 422, "path", "File path must not be empty.");
	if (path[0] == '/')
		return refuse(refusal, 422, "path", "File paths must be relative.");
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
			return refuse(refusal, 422, "path", "File paths must not contain '..'.");
	}
	if (reserved && strcmp(path, reserved) == 0)
		return refuse(refusal, 422, "path",
			"File path '%s' is reserved for the execution entrypoint.", path);
	if (path_check_relative(path, strlen(path), &e))
		return refuse(refusal, 422, "path", "%s", e.text);
	return 0;
}

/* What is a file for one cannot be a directory for another. Of two for one path the later one wins: chat applications
 * send all that was attached, and names repeat. */
static int check_nesting(const struct spec *spec, struct refusal *refusal)
{
	struct map paths = { 0 };
	int failed = 0;

	for (size_t i = 0; i < spec->files_count; i++)
		map_put(&paths, spec->files[i].path, spec->files[i].path);
	if (spec->entry)
		map_put(&paths, spec->entry, spec->entry);
	for (size_t i = 0; i <= spec->files_count && !failed; i++) {
		auto_free char *path = xstrdup(i < spec->files_count ? spec->files[i].path :
					       spec->entry           ? spec->entry :
								       "");

		for (char *at = strchr(path, '/'); at && !failed; at = strchr(at + 1, '/')) {
			*at = '\0';
			if (map_get(&paths, path))
				failed = refuse(refusal, 422, "path",
					"File path '%s' cannot be a file and a directory.", path);
			*at = '/';
		}
	}
	map_free(&paths);
	return failed;
}

static int find_stored(
	const struct call *call, const char *id, struct spec_file *ret, struct refusal *refusal)
{
	struct store_file file = { 0 };
	struct err e = { 0 };

	if (!store_is_id(id) ||
		store_find_file(call->service->store, id, call->caller.owner, &file, &e))
		return refuse(refusal, 404, "not_found",
			"File with ID '%s' not found for path '%s'.", id, ret->path);
	store_file_free(&file);
	ret->host_path = store_file_path(call->service->store, id);
	return 0;
}

static int decode_base64(json_t *text, struct spec_file *ret, struct refusal *refusal)
{
	struct buf bytes = { 0 };

	if (!base64_decode(json_string_value(text), json_string_length(text), &bytes)) {
		buf_free(&bytes);
		return refuse(refusal, 422, "invalid", "content_base64 of '%s' is not base64.",
			ret->path);
	}
	ret->data_len = bytes.len;
	ret->data = buf_take(&bytes);
	return 0;
}

/* One of file_id, content_base64, content. */
static int read_file(struct body *b, json_t *o, struct spec_file *ret, struct refusal *refusal)
{
	json_t *path = body_bytes(b, o, "path", true);
	const char *id = body_text(b, o, "file_id");
	json_t *encoded = body_bytes(b, o, "content_base64", false);
	json_t *plain = body_bytes(b, o, "content", false);

	if (!path || b->errors)
		return 0;
	if (!id && !encoded && !plain) {
		body_complain(b, "file_id", "missing", o,
			"Field required: one of file_id, content, content_base64");
		return 0;
	}
	if (!!id + !!encoded + !!plain > 1) {
		body_complain(b, NULL, "value_error", o,
			"Value error, only one of file_id, content, content_base64 may be given");
		return 0;
	}
	if (strlen(json_string_value(path)) != json_string_length(path))
		return refuse(refusal, 422, "path", "File paths must not contain NUL.");
	ret->path = xstrdup(json_string_value(path));
	if (id)
		return find_stored(b->call, id, ret, refusal);
	if (encoded)
		return decode_base64(encoded, ret, refusal);
	ret->data_len = json_string_length(plain);
	ret->data = xalloc(ret->data_len + 1);
	memcpy(ret->data, json_string_value(plain), ret->data_len);
	return 0;
}

int run_request_files(struct body *b, json_t *o, struct spec_file **ret, size_t *ret_count,
	struct refusal *refusal)
{
	json_t *list = body_list(b, o, "files", FILES_MAX);
	size_t i;
	json_t *item;
	int failed = 0;

	if (!list)
		return 0;
	*ret = xalloc((json_array_size(list) + 1) * sizeof(**ret));
	body_enter(b, "files");
	json_array_foreach(list, i, item)
	{
		if (body_enter_object(b, i, item))
			failed = read_file(b, item, &(*ret)[(*ret_count)++], refusal);
		body_leave(b);
		if (failed)
			break;
	}
	body_leave(b);
	return failed;
}

/* ---- what may be asked for ---- */

int run_request_allow(const struct call *call, const char *language,
	enum hotcell_isolation isolation, enum hotcell_network network, struct refusal *refusal)
{
	const struct config *c = call->service->config;
	const struct rights *rights = &call->caller.rights;

	if (isolation == HOTCELL_ISOLATION_PROCESS && !c->allow_process)
		return refuse(refusal, 403, "forbidden",
			"isolation 'process' is none at all, and this service does not allow it (setting allow_process).");
	if (network == HOTCELL_NETWORK_HOST && !c->allow_host_network)
		return refuse(refusal, 403, "forbidden",
			"network 'host' is not allowed by this service (setting allow_host_network).");
	if (!rights_allow_isolation(rights, isolation))
		return refuse(refusal, 403, "forbidden",
			"This key may not ask for an isolation that weak.");
	if (!rights_allow_network(rights, network))
		return refuse(refusal, 403, "forbidden", "This key may not have a network.");
	if (!rights_allow_language(rights, language))
		return refuse(refusal, 403, "forbidden", "This key may not run %s.", language);
	return 0;
}

int run_request_timeout(
	struct body *b, json_t *o, uint64_t otherwise, uint64_t *ret, struct refusal *refusal)
{
	uint64_t most = b->call->service->config->timeout_max_ms;

	*ret = body_integer(b, o, "timeout_ms", 1, INT64_MAX, otherwise);
	if (*ret > most && !b->errors)
		return refuse(refusal, 422, "invalid", "timeout_ms exceeds maximum of %llu ms",
			(unsigned long long)most);
	return 0;
}

/* ---- all of it ---- */

int run_request_installed(const struct hotcell_language *l, struct refusal *refusal)
{
	if (l->installed)
		return 0;
	return refuse(refusal, 400, "not_installed", "%s is not installed%s%s", l->name,
		*l->install ? ": " : "", l->install);
}

static int check_language(const struct call *call, struct spec *spec,
	const struct hotcell_language **ret, struct refusal *refusal)
{
	*ret = engine_language(call->service->engines.current, spec->language);
	if (!*ret)
		return refuse(
			refusal, 400, "unknown_language", "unknown language '%s'", spec->language);
	if (run_request_installed(*ret, refusal))
		return -1;
	free(spec->language);
	spec->language = xstrdup((*ret)->id);
	return 0;
}

/* The same request of the same owner, whatever the order of its keys. */
static char *make_cache_key(const struct call *call, json_t *o)
{
	char *text = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
	struct buf all = { 0 };
	uint8_t hash[32];
	struct buf hex = { 0 };

	buf_addf(&all, "%s\n%s", call->caller.owner, text);
	EVP_Digest(all.data, all.len, hash, NULL, EVP_sha256(), NULL);
	for (size_t i = 0; i < sizeof(hash); i++)
		buf_addf(&hex, "%02x", hash[i]);
	buf_free(&all);
	free(text);
	return buf_take(&hex);
}

static void read_code(struct body *b, json_t *o, struct spec *spec)
{
	bool has_entry = json_is_string(json_object_get(o, "entry_point"));
	json_t *code = body_bytes(b, o, "code", !has_entry);
	json_t *input = body_bytes(b, o, "stdin", false);
	const char *entry = body_text(b, o, "entry_point");

	if (code) {
		spec->code_len = json_string_length(code);
		spec->code = xalloc(spec->code_len + 1);
		memcpy(spec->code, json_string_value(code), spec->code_len);
	}
	if (input) {
		spec->stdin_len = json_string_length(input);
		spec->stdin_data = xalloc(spec->stdin_len + 1);
		memcpy(spec->stdin_data, json_string_value(input), spec->stdin_len);
	}
	if (entry)
		spec->entry = xstrdup(entry);
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static int check_names(const struct spec *spec, struct refusal *refusal)
{
	if (spec->user && strlen(spec->user) > SPEC_NAME_MAX)
		return refuse(
			refusal, 422, "invalid", "user may have at most %d bytes.", SPEC_NAME_MAX);
	if (spec->entry && run_request_path(spec->entry, NULL, refusal))
		return -1;
	for (size_t i = 0; i < spec->files_count; i++)
		if (run_request_path(spec->files[i].path, spec->code ? spec->entry : NULL, refusal))
			return -1;
	return check_nesting(spec, refusal);
}

/* A run may be stricter than the config, not laxer. */
static int check_reuse(
	const struct config *config, enum config_reuse reuse, struct refusal *refusal)
{
	if (reuse == CONFIG_REUSE_NEVER || config->reuse == CONFIG_REUSE_ALWAYS ||
		reuse == config->reuse)
		return 0;
	return refuse(refusal, 403, "forbidden",
		"This service does not reuse machines that much (setting reuse).");
}

/* Said by default for all languages, it is meant for those that can. */
static bool wants_last_line(
	json_t *o, const struct spec *spec, const struct hotcell_language *language)
{
	bool is_said = json_is_true(json_object_get(o, "last_line_interactive"));

	return spec->last_line && spec->code && (is_said || language->last_line);
}

static int finish_reading(
	struct body *b, json_t *o, bool may_cache, struct spec *spec, struct refusal *refusal)
{
	const struct call *call = b->call;
	const struct hotcell_language *language;

	if (check_language(call, spec, &language, refusal))
		return -1;
	spec->last_line = wants_last_line(o, spec, language);
	if (!spec->entry && spec->code && strcmp(language->id, "python") == 0)
		spec->entry = xstrdup(ENTRY_PYTHON);
	if (json_array_size(json_object_get(o, "dependencies")))
		return refuse(refusal, 400, "dependencies",
			"dependencies cannot be installed by this version; it runs what is installed on the machine.");
	if (run_request_allow(call, language->id, spec->isolation, spec->network, refusal) ||
		check_names(spec, refusal) ||
		check_reuse(call->service->config, spec->reuse, refusal))
		return -1;
	/* Where only a vm will do, what is left to us must not end in a container. */
	if (spec->isolation == HOTCELL_ISOLATION_AUTO)
		spec->isolation = rights_auto(&call->caller.rights);
	if (may_cache && !spec->session_id && !spec->detach)
		spec->cache_key = make_cache_key(call, o);
	return 0;
}

/* What a session has is what its runs have. */
static int take_from_session(const struct session *session, struct body *b, json_t *o,
	struct spec *spec, struct refusal *refusal)
{
	const struct session_config *c = &session->config;

	if (spec->isolation != HOTCELL_ISOLATION_AUTO && spec->isolation != c->isolation)
		return refuse(refusal, 422, "invalid", "A run has the isolation of its session.");
	if (spec->network == HOTCELL_NETWORK_HOST && c->network != HOTCELL_NETWORK_HOST)
		return refuse(refusal, 422, "invalid", "A run has the network of its session.");
	spec->isolation = c->isolation;
	spec->network = c->network;
	spec->limits = c->limits;
	read_limits(b, o, &spec->limits);
	free(spec->session_id);
	spec->session_id = xstrdup(session->id);
	if (!spec->user)
		spec->user = copy(c->user);
	return 0;
}

int run_request_read(struct body *b, json_t *o, struct spec *ret, struct refusal *refusal)
{
	return run_request_read_in(b, o, NULL, ret, refusal);
}

int run_request_read_in(struct body *b, json_t *o, const struct session *session, struct spec *ret,
	struct refusal *refusal)
{
	const struct config *config = b->call->service->config;
	const char *language = body_text(b, o, "language");
	const char *usual = session ? session->config.language : "python";
	bool may_cache = body_bool(b, o, "cache", false);
	int failed;

	*ret = (struct spec){
		.language = xstrdup(language ? language : usual),
		.isolation = run_request_isolation(b, o),
		.network = run_request_network(b, o),
		.max_output = config->output_max_bytes,
		.detach = body_bool(b, o, "detach", false),
		.last_line = body_bool(b, o, "last_line_interactive", true),
		.reuse = read_reuse(b, o, config),
		.profile = copy(body_text(b, o, "profile")),
		.user = copy(body_text(b, o, "user")),
		.session_id = copy(body_text(b, o, "session_id")),
		.args = read_args(b, o),
		.env = run_request_env(b, o),
	};
	read_code(b, o, ret);
	body_list(b, o, "dependencies", WORDS_MAX);
	if (!session)
		read_limits(b, o, &ret->limits);
	failed = session && take_from_session(session, b, o, ret, refusal);
	failed = failed ||
		 run_request_timeout(
			 b, o, config->timeout_default_ms, &ret->limits.wall_ms, refusal) ||
		 run_request_files(b, o, &ret->files, &ret->files_count, refusal);
	failed = failed || !body_is_good(b, refusal) ||
		 finish_reading(b, o, may_cache, ret, refusal);
	if (failed)
		spec_free(ret);
	return failed ? -1 : 0;
}
