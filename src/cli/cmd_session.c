#include "cli/cli.h"
#include "cli/limit_options.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/session.h"

#include "base/own.h"
#include "base/units.h"

#include <string.h>

enum key {
	KEY_JSON = 0x200,
	KEY_GENERATED,
	KEY_KEEP,
	KEY_TTL,
	KEY_IDLE,
	KEY_STRATEGY,
	KEY_WORKSPACE,
	KEY_PROFILE,
	KEY_USER,
	KEY_ISOLATION,
	KEY_NETWORK,
	KEY_ENV,
};

/* Who takes which; those of OPTION_NEW go together. */
enum {
	OPTION_JSON,
	OPTION_OUTPUT,
	OPTION_GENERATED,
	OPTION_KEEP,
	OPTION_TTL,
	OPTION_TIMEOUT,
	OPTION_NEW,
};

#define TAKES(option) (1U << OPTION_##option)

/* `exec` has the options of `hotcell run`, and is taken out before these are looked at. */
static const struct verb verbs[] = {
	{ "new", "", 0, 0, TAKES(JSON) | TAKES(TTL) | TAKES(NEW), session_new,
		"open a session; prints its id" },
	{ "list", "", 0, 0, TAKES(JSON), session_list, "list open sessions" },
	{ "show", "ID", 1, 1, TAKES(JSON), session_show, "tell all about one" },
	{ "exec", "ID [RUN-OPTION...]", 1, 1, 0, NULL, "run code in it: see 'hotcell run --help'" },
	{ "bash", "ID COMMAND", 2, 2, TAKES(JSON) | TAKES(TIMEOUT), session_bash,
		"run a shell command in it" },
	{ "files", "ID", 1, 1, TAKES(JSON) | TAKES(GENERATED), session_files, "list its files" },
	{ "put", "ID FILE [PATH]", 2, 3, 0, session_put, "copy a file into it" },
	{ "get", "ID PATH", 2, 2, TAKES(OUTPUT), session_get,
		"print a file, or write it to -o FILE" },
	{ "rm", "ID PATH...", 2, VERBS_WORDS_MAX, 0, session_remove, "remove files" },
	{ "interrupt", "ID", 1, 1, TAKES(JSON), session_interrupt,
		"as Ctrl-C: to what runs in it" },
	{ "extend", "ID", 1, 1, TAKES(JSON) | TAKES(TTL), session_extend,
		"let it live for --ttl from now" },
	{ "close", "ID", 1, 1, TAKES(JSON) | TAKES(KEEP), session_close,
		"end it, and all that is in it" },
	{ 0 },
};

static const struct argp_option fixed_options[] = {
	{ "json", KEY_JSON, NULL, 0, "print JSON", 1 },
	{ "output", 'o', "FILE", 0, "where get writes to; '-' is standard output", 1 },
	{ "generated", KEY_GENERATED, NULL, 0, "files: only those that runs made or changed", 1 },
	{ "keep-generated", KEY_KEEP, NULL, 0,
		"close: the service keeps those as stored files; their ids are printed", 1 },
	{ "ttl", KEY_TTL, "TIME", 0, "new, extend: how long it lives, from now", 1 },
	{ "idle-timeout", KEY_IDLE, "TIME", 0, "new, extend: how long it lives without being used",
		1 },
	{ "language", 'l', "LANG", 0, "new: language, by id or alias. Default: python", 2 },
	{ "isolation", KEY_ISOLATION, "KIND", 0, "new: auto (default), vm, container or process",
		2 },
	{ "strategy", KEY_STRATEGY, "KIND", 0,
		"new: per_session (default: one cell, variables stay), per_execution (a new cell for each "
		"run) or pool (a warm one for each run)",
		2 },
	{ "workspace", KEY_WORKSPACE, "KIND", 0,
		"new: shared (files stay from run to run) or isolated", 2 },
	{ "profile", KEY_PROFILE, "NAME", 0, "new: what a warm machine has loaded", 2 },
	{ "network", KEY_NETWORK, "KIND", 0, "new: none (default) or host", 2 },
	{ "user", KEY_USER, "NAME", 0, "new: for whom of your users it is", 2 },
	{ "env", KEY_ENV, "NAME=VALUE", 0,
		"new: a setting in the environment of its runs (repeatable)", 2 },
	{ "file", 'f', "HOST[:PATH]", 0, "new: a file or directory for its workspace (repeatable)",
		2 },
};

enum { FIXED = sizeof(fixed_options) / sizeof(fixed_options[0]) };

static void set_seconds(
	struct argp_state *state, uint64_t *ret, const char *option, const char *value)
{
	struct err e = { 0 };
	uint64_t ms = 0;

	if (units_parse_duration(value, &ms, &e) || ms < 1000)
		argp_error(state, "%s = '%s': want a time from 1s up, such as 90s, 15m or 2h",
			option, value);
	*ret = ms / 1000;
}

static void add_env(struct argp_state *state, struct session_command *s, const char *value)
{
	if (!strchr(value, '=') || value[0] == '=')
		argp_error(state, "env = '%s': want NAME=VALUE", value);
	if (s->env_count == SESSION_LIST_MAX)
		argp_error(state, "more than %d of one option", SESSION_LIST_MAX);
	s->env[s->env_count++] = value;
}

static void add_file(struct argp_state *state, struct session_command *s, const char *value)
{
	if (s->inputs_count == SESSION_LIST_MAX)
		argp_error(state, "more than %d files", SESSION_LIST_MAX);
	if (!options_read_input(value, &s->inputs[s->inputs_count], &s->owned[s->inputs_count]))
		argp_error(state, "file = '%s': it has no name of its own; give HOST:PATH", value);
	s->inputs_count++;
}

/* What only `new` takes. */
static error_t on_new_option(int key, char *value, struct argp_state *state)
{
	struct session_command *s = state->input;

	switch (key) {
	case 'l':
		s->language = value;
		return 0;
	case 'f':
		add_file(state, s, value);
		return 0;
	case KEY_STRATEGY:
		s->strategy = value;
		return 0;
	case KEY_WORKSPACE:
		s->workspace = value;
		return 0;
	case KEY_PROFILE:
		s->profile = value;
		return 0;
	case KEY_USER:
		s->user = value;
		return 0;
	case KEY_ISOLATION:
		if (!options_find_isolation(value, &s->isolation))
			argp_error(state, OPTIONS_BAD_ISOLATION, value);
		return 0;
	case KEY_NETWORK:
		if (!options_find_network(value, &s->network))
			argp_error(state, OPTIONS_BAD_NETWORK, value);
		return 0;
	case KEY_ENV:
		add_env(state, s, value);
		return 0;
	default:
		return limit_options_set(state, &s->limits, key, value) ? 0 : ARGP_ERR_UNKNOWN;
	}
}

/* These, and those of limits. */
static struct argp_option table[FIXED + LIMIT_COUNT + 1];

static const char *name_of(int key)
{
	for (const struct argp_option *at = table; at->name; at++)
		if (at->key == key)
			return at->name;
	return "";
}

/* What others take; ARGP_ERR_UNKNOWN: none of these. */
static error_t on_shared_option(int key, char *value, struct argp_state *state)
{
	struct session_command *s = state->input;

	switch (key) {
	case KEY_JSON:
		s->json = true;
		verbs_see(&s->verbs, OPTION_JSON, "json");
		return 0;
	case 'o':
		s->output = value;
		verbs_see(&s->verbs, OPTION_OUTPUT, "output");
		return 0;
	case KEY_GENERATED:
		s->generated = true;
		verbs_see(&s->verbs, OPTION_GENERATED, "generated");
		return 0;
	case KEY_KEEP:
		s->keep_generated = true;
		verbs_see(&s->verbs, OPTION_KEEP, "keep-generated");
		return 0;
	case KEY_TTL:
		set_seconds(state, &s->ttl_s, "ttl", value);
		verbs_see(&s->verbs, OPTION_TTL, "ttl");
		return 0;
	case KEY_IDLE:
		set_seconds(state, &s->idle_timeout_s, "idle-timeout", value);
		verbs_see(&s->verbs, OPTION_TTL, "idle-timeout");
		return 0;
	case LIMIT_OPTIONS_KEY + LIMIT_WALL_MS:
		limit_options_set(state, &s->limits, key, value);
		verbs_see(&s->verbs, OPTION_TIMEOUT, "timeout");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct session_command *s = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->server;
		return 0;
	case ARGP_KEY_ARG:
		verbs_take_word(state, &s->verbs, value);
		return 0;
	case ARGP_KEY_END:
		verbs_check(state, &s->verbs);
		return 0;
	default:
		break;
	}
	if (on_shared_option(key, value, state) == 0)
		return 0;
	if (on_new_option(key, value, state))
		return ARGP_ERR_UNKNOWN;
	verbs_see(&s->verbs, OPTION_NEW, name_of(key));
	return 0;
}

/* session exec ID …: the rest is as with `hotcell run`. */
static int exec_in(int argc, char **argv)
{
	static struct run_options o;
	int status = 0;

	bool wants_help =
		argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-?") == 0);

	if (argc < 3 || (argv[2][0] == '-' && !wants_help))
		return complain("want: hotcell session exec ID [OPTION...] [FILE|-]");
	o.session_id = argv[2];
	options_parse(&o, argc - 2 + wants_help, argv + 2 - wants_help);
	if (o.is_local)
		status = complain("a session is the service's: --local makes no sense");
	else if (o.code_file && strcmp(o.code_file, "-") == 0)
		status = options_read_code(&o);
	if (!status)
		status = remote_run(&o);
	options_free(&o);
	return status;
}

/* --server and --key may come before the command, as with the others: `exec ID` is moved to the front, where exec_in()
 * wants it. */
static bool move_exec_to_front(int argc, char **argv)
{
	int at = 1;

	while (at < argc &&
		(strncmp(argv[at], "--server", 8) == 0 || strncmp(argv[at], "--key", 5) == 0))
		at += strchr(argv[at], '=') ? 1 : 2;
	if (at >= argc || strcmp(argv[at], "exec") != 0)
		return false;
	for (int moved = 0; moved < 2 && at + moved < argc; moved++) {
		char *word = argv[at + moved];

		memmove(&argv[2 + moved], &argv[1 + moved], (size_t)(at - 1) * sizeof(*argv));
		argv[1 + moved] = word;
	}
	return true;
}

static void parse(int argc, char **argv, struct session_command *ret)
{
	static char texts[LIMIT_COUNT][LIMIT_OPTIONS_TEXT];
	static const struct argp_child children[] = { { &server_options_argp, 0, NULL, 4 }, { 0 } };
	static const struct limit_options limits = {
		LIMIT_BIT(LIMIT_WALL_MS) | LIMIT_BIT(LIMIT_CPU_MS) | LIMIT_BIT(LIMIT_MEMORY_BYTES) |
			LIMIT_BIT(LIMIT_PROCESSES) | LIMIT_BIT(LIMIT_DISK_BYTES) |
			LIMIT_BIT(LIMIT_CPUS_MILLI),
		3, false
	};
	auto_free char *doc = verbs_describe(verbs, "Cells and workspaces that outlive a run:",
		"Limits are for new, but for --timeout, which is for bash. Times are written as 90s, 15m or "
		"2h, sizes as 64k, 256M or 1G.");
	struct argp argp = { table, on_option, "COMMAND [WORD...]", doc, children, NULL, NULL };
	static char name[] = "hotcell session";

	memcpy(table, fixed_options, sizeof(fixed_options));
	limit_options_make(table + FIXED, &limits, texts);
	argv[0] = name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, ret);
}

int cmd_session(int argc, char **argv)
{
	static struct session_command s = { .verbs = { .table = verbs } };
	int status;

	if (move_exec_to_front(argc, argv))
		return exec_in(argc, argv);
	parse(argc, argv, &s);
	if (!s.verbs.chosen->run)
		return complain("'%s' comes first: hotcell session %s ID [OPTION...]",
			s.verbs.chosen->name, s.verbs.chosen->name);
	status = verbs_run(&s.verbs, &s.server, &s.client, &s);
	free(s.verbs.words);
	for (unsigned i = 0; i < s.inputs_count; i++)
		free(s.owned[i]);
	return status;
}
