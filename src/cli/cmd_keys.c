/* Keys are changed in the store itself, beside a service that may be running; it sees the change at the next request. */
#include "cli/cli.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/json.h"
#include "cli/key_languages.h"
#include "config/config.h"
#include "service/key.h"
#include "service/rights.h"
#include "store/store.h"

#include <argp.h>
#include <string.h>
#include <time.h>

enum key {
	KEY_RUNS = 0x100,
	KEY_SESSIONS,
	KEY_BYTES,
	KEY_ISOLATION,
	KEY_LANGUAGES,
	KEY_NETWORK,
	KEY_ADMIN,
	KEY_JSON,
	KEY_STATE_DIR,
	KEY_CONFIG,
};

enum { NAME_LEN_MAX = 64, SETTINGS_MAX = 16 };

struct keys_options {
	const char *action;
	const char *name;
	struct rights rights;
	const char *for_add; /* an option that was given and is for `add` only */
	bool json;
	char *settings[SETTINGS_MAX]; /* --state-dir and --config, for config to read */
	int settings_count;
};

static const struct argp_option table[] = {
	{ NULL, 0, NULL, 0, "What a new key may do:", 1 },
	{ "runs-per-minute", KEY_RUNS, "N", 0, "runs within a minute. Default: any number", 1 },
	{ "max-sessions", KEY_SESSIONS, "N", 0, "sessions at one time. Default: any number", 1 },
	{ "max-bytes", KEY_BYTES, "SIZE", 0, "stored files together. Default: any size", 1 },
	{ "max-isolation", KEY_ISOLATION, "KIND", 0,
		"the weakest isolation that it may ask for: vm, container (default) or process",
		1 },
	{ "languages", KEY_LANGUAGES, "LIST", 0, "ids of languages, with commas. Default: all", 1 },
	{ "network", KEY_NETWORK, "KIND", 0, "none (default), or host", 1 },
	{ "admin", KEY_ADMIN, NULL, 0, "it may register and remove languages", 1 },
	{ NULL, 0, NULL, 0, "All:", 2 },
	{ "json", KEY_JSON, NULL, 0, "print JSON", 2 },
	{ "state-dir", KEY_STATE_DIR, "PATH", 0, "the service's directory, as with hotcell serve",
		2 },
	{ "config", KEY_CONFIG, "FILE", 0, "the service's settings, as with hotcell serve", 2 },
	{ 0 },
};

/* ---- the command line ---- */

static void set_count(struct argp_state *state, const char *name, const char *value, uint64_t *ret)
{
	struct err e;

	if (units_parse_count(value, ret, &e) || *ret > 1000000)
		argp_error(state, "%s = '%s': want a number from 1 to 1000000", name, value);
}

static void set_languages(struct argp_state *state, struct rights *r, const char *value)
{
	auto_free char *copy = xstrdup(value);
	char *rest = copy;
	struct err e;

	while (rest)
		if (rights_add_language(r, strsep(&rest, ","), &e))
			argp_error(state, "%s", e.text);
}

static void add_setting(
	struct argp_state *state, struct keys_options *o, const char *name, char *value)
{
	if (o->settings_count == SETTINGS_MAX)
		argp_error(state, "too many options");
	o->settings[o->settings_count++] = xasprintf("--%s=%s", name, value);
}

static void take_word(struct argp_state *state, struct keys_options *o, const char *word)
{
	if (!o->action)
		o->action = word;
	else if (!o->name)
		o->name = word;
	else
		argp_error(state, "unexpected '%s'", word);
}

/* Names end up in logs and tables. */
static bool is_name(const char *name)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@+-";
	size_t len = strlen(name);

	return len > 0 && len <= NAME_LEN_MAX && name[0] != '-' && strspn(name, letters) == len;
}

static void check_complete(struct argp_state *state, const struct keys_options *o)
{
	bool add = o->action && strcmp(o->action, "add") == 0;
	bool list = o->action && strcmp(o->action, "list") == 0;
	bool revoke = o->action && strcmp(o->action, "revoke") == 0;

	if (!o->action)
		argp_error(state, "what is to be done? Give add NAME, list, or revoke NAME");
	if (!add && !list && !revoke)
		argp_error(state, "unknown action '%s': want add, list or revoke", o->action);
	if (o->for_add && !add)
		argp_error(state, "%s is for 'hotcell keys add'", o->for_add);
	if (o->json && revoke)
		argp_error(state, "--json is for 'hotcell keys add' and 'hotcell keys list'");
	if (list && o->name)
		argp_error(state, "unexpected '%s'", o->name);
	if (!list && !o->name)
		argp_error(state, "which key? Give its NAME");
	if (add && o->name && !is_name(o->name))
		argp_error(state,
			"name = '%.80s': want 1 to %d letters, digits and any of . _ @ + -",
			o->name, NAME_LEN_MAX);
}

static error_t on_right(
	int key, const char *value, struct argp_state *state, struct keys_options *o)
{
	switch (key) {
	case KEY_RUNS:
		o->for_add = "--runs-per-minute";
		set_count(state, "runs-per-minute", value, &o->rights.runs_per_minute);
		return 0;
	case KEY_SESSIONS:
		o->for_add = "--max-sessions";
		set_count(state, "max-sessions", value, &o->rights.max_sessions);
		return 0;
	case KEY_BYTES: {
		struct err e;

		o->for_add = "--max-bytes";
		if (units_parse_size(value, &o->rights.max_stored_bytes, &e) ||
			o->rights.max_stored_bytes > 1ULL << 60)
			argp_error(state, "max-bytes = '%s': want a size such as 64k, 256M or 1G",
				value);
		return 0;
	}
	case KEY_ISOLATION:
		o->for_add = "--max-isolation";
		if (rights_parse_isolation(value, &o->rights.weakest_isolation))
			argp_error(state, "max-isolation = '%s': want vm, container or process",
				value);
		return 0;
	case KEY_LANGUAGES:
		o->for_add = "--languages";
		set_languages(state, &o->rights, value);
		return 0;
	case KEY_NETWORK:
		o->for_add = "--network";
		if (rights_parse_network(value, &o->rights.network))
			argp_error(state, "network = '%s': want none or host", value);
		return 0;
	case KEY_ADMIN:
		o->for_add = "--admin";
		o->rights.admin = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct keys_options *o = state->input;

	switch (key) {
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_STATE_DIR:
		add_setting(state, o, "state-dir", value);
		return 0;
	case KEY_CONFIG:
		add_setting(state, o, "config", value);
		return 0;
	case ARGP_KEY_ARG:
		take_word(state, o, value);
		return 0;
	case ARGP_KEY_END:
		check_complete(state, o);
		return 0;
	default:
		return on_right(key, value, state, o);
	}
}

/* ---- the store ---- */

/* *ret is NULL if there is no store yet and `make` does not ask for one. */
static int open_store(const struct config *c, bool make, struct store **ret, struct err *e)
{
	int failed = 0;

	*ret = NULL;
	if (make)
		failed = config_make_state_dir(c, e);
	if (!failed && (make || access(c->state_dir, F_OK) == 0))
		failed = store_open_keys(c->state_dir, ret, e);
	else if (!failed) /* no service was there yet, or it is misspelled */
		fprintf(stderr, "hotcell: there is no directory '%s' (state_dir)\n", c->state_dir);
	return failed;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- what it does ---- */

static int print_new(const struct keys_options *o, const struct store_key *key, const char *text)
{
	if (o->json)
		return json_print(json_pack(
			"{s:s, s:s, s:s}", "id", key->id, "name", key->name, "key", text));
	puts(text);
	if (stdout_finish())
		return -1;
	fprintf(stderr, "hotcell: key '%s' is good from now on. It is shown this once.\n",
		key->name);
	return 0;
}

static int add_key(struct store *s, const struct keys_options *o, struct err *e)
{
	auto_free char *rights = rights_format(&o->rights);
	auto_free char *name = xstrdup(o->name);
	struct store_key key = { .name = name, .rights_json = rights, .created_s = now_s() };
	uint8_t hash[KEY_HASH_SIZE];
	char text[KEY_LEN + 1];

	if (key_make(text, e))
		return -1;
	if (key_hash(text, KEY_LEN, hash))
		return err_set(e, ERR_SYSTEM, "no SHA-256 could be made");
	store_make_id(key.id);
	if (store_add_key(s, &key, hash, e))
		return -1;
	if (print_new(o, &key, text) == 0)
		return 0;
	/* A key that nobody saw is good for nothing, but would keep its name. */
	store_revoke_key(s, key.id, now_s(), e);
	return err_set(e, ERR_SYSTEM, "so the key was revoked again");
}

static json_t *rights_as_json(const struct store_key *key)
{
	json_t *rights = json_loads(key->rights_json, 0, NULL);

	return rights ? rights : json_null();
}

static int print_json(const struct store_key *keys, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:o, s:f, s:o, s:o}", "id", keys[i].id, "name",
				json_text(keys[i].name, strlen(keys[i].name)), "created",
				keys[i].created_s, "revoked",
				keys[i].revoked_s > 0 ? json_real(keys[i].revoked_s) : json_null(),
				"rights", rights_as_json(&keys[i])));
	return json_print(list);
}

static const char *day_of(double s, char ret[16])
{
	time_t at = (time_t)s;
	struct tm parts;

	if (!gmtime_r(&at, &parts) || strftime(ret, 16, "%Y-%m-%d", &parts) == 0)
		return "?";
	return ret;
}

static void add_count(struct buf *b, const char *option, uint64_t number)
{
	if (number)
		buf_addf(b, " --%s=%llu", option, (unsigned long long)number);
}

/* As the options that make such a key. */
static char *describe_rights(const struct store_key *key)
{
	static const char *const isolations[] = {
		[HOTCELL_ISOLATION_PROCESS] = "process", [HOTCELL_ISOLATION_VM] = "vm"
	};
	struct buf b = { 0 };
	struct rights r;
	struct err ignored;

	if (rights_parse(key->rights_json, &r, &ignored))
		return xstrdup(key->rights_json);
	add_count(&b, "runs-per-minute", r.runs_per_minute);
	add_count(&b, "max-sessions", r.max_sessions);
	add_count(&b, "max-bytes", r.max_stored_bytes);
	if (r.weakest_isolation != HOTCELL_ISOLATION_CONTAINER)
		buf_addf(&b, " --max-isolation=%s", isolations[r.weakest_isolation]);
	for (unsigned i = 0; i < r.languages_count; i++)
		buf_addf(&b, "%s%s", i ? "," : " --languages=", r.languages[i]);
	if (r.network == HOTCELL_NETWORK_HOST)
		buf_add_str(&b, " --network=host");
	if (r.admin)
		buf_add_str(&b, " --admin");
	return b.len ? buf_take(&b) : xstrdup(" no limits");
}

static void print_table(const struct store_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		auto_free char *rights = describe_rights(&keys[i]);
		char created[16];
		char revoked[16];

		printf("%-20s %s ", keys[i].name, day_of(keys[i].created_s, created));
		if (keys[i].revoked_s > 0)
			printf(" revoked %s\n", day_of(keys[i].revoked_s, revoked));
		else
			printf("%s\n", rights);
	}
}

static int list_keys(struct store *s, const struct keys_options *o, struct err *e)
{
	struct store_key *keys = NULL;
	size_t count = 0;
	int failed = 0;

	if (s && store_list_keys(s, &keys, &count, e))
		return -1;
	if (o->json)
		failed = print_json(keys, count);
	else
		print_table(keys, count);
	store_keys_free(keys, count);
	return failed || stdout_finish() ? err_set(e, ERR_SYSTEM, "the list is not whole") : 0;
}

static int revoke_key(struct store *s, const struct keys_options *o, struct err *e)
{
	if (!s)
		return err_set(e, ERR_NOT_FOUND, "there is no key '%.80s'", o->name);
	return store_revoke_key(s, o->name, now_s(), e);
}

static int act_on(const struct config *c, const struct keys_options *o, struct err *e)
{
	bool adds = strcmp(o->action, "add") == 0;
	struct store *s;
	int failed;

	if (open_store(c, adds, &s, e))
		return -1;
	if (adds)
		key_languages_warn(c, s, &o->rights);
	if (adds)
		failed = add_key(s, o, e);
	else if (strcmp(o->action, "list") == 0)
		failed = list_keys(s, o, e);
	else
		failed = revoke_key(s, o, e);
	store_close(s);
	return failed;
}

static int act(const struct keys_options *o, struct err *e)
{
	struct config *c = NULL;
	int failed;

	if (config_load(o->settings_count, (char **)o->settings, &c, e))
		return -1;
	failed = act_on(c, o, e);
	config_free(c);
	return failed;
}

int cmd_keys(int argc, char **argv)
{
	static const struct argp argp = { table, on_option, "add NAME\nlist\nrevoke NAME",
		"Keys of the service's clients. A new key is printed once; what is kept of it is a hash. "
		"Changes hold from the next request on, for a service that runs as well.",
		NULL, NULL, NULL };
	static char name[] = "hotcell keys";
	struct keys_options o = { 0 };
	struct err e = { 0 };
	int failed;

	rights_set_default(&o.rights);
	argv[0] = name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	failed = act(&o, &e);
	for (int i = 0; i < o.settings_count; i++)
		free(o.settings[i]);
	return failed ? complain("%s", e.text) : 0;
}
