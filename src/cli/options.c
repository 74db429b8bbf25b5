#include "cli/options.h"

#include "base/own.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/limit_options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum key {
	KEY_ISOLATION = 0x200,
	KEY_MAX_OUTPUT,
	KEY_ENV,
	KEY_STDIN,
	KEY_ARG,
	KEY_ENTRY,
	KEY_NETWORK,
	KEY_LAST_LINE,
	KEY_JSON,
	KEY_STATS,
	KEY_LANGUAGES,
	KEY_TRACE,
	KEY_PROFILE,
	KEY_LOCAL,
	KEY_MOUNT,
};

enum { CODE_PIECE = 65536, CODE_MAX = 256 << 20 };

static const char doc[] =
	"Runs code in a fresh cell. Its output streams through as it comes, and its exit code is "
	"hotcell's: 124 when its time was over, 125 when hotcell itself failed."
	"\vFILE is run under its own name; '-' reads the code from standard input. The language is "
	"guessed from the file's ending or its #! line. Times are written as 250ms, 10s or 2m, sizes "
	"as 64k, 256M or 1G. With --server the service runs it, and what is not given is as the service has "
	"it.\n\n"
	"Examples:\n"
	"  hotcell run -l python -c 'print(6 * 7)'\n"
	"  hotcell run script.py -f data.csv -o results --timeout 10s\n"
	"  echo 'puts 1' | hotcell run -l ruby -\n";

static const struct argp_option fixed_options[] = {
	{ "language", 'l', "LANG", 0, "language, by id or alias", 1 },
	{ "code", 'c', "CODE", 0, "the code itself", 1 },
	{ "arg", KEY_ARG, "ARG", 0, "an argument for the program (repeatable)", 1 },
	{ "env", KEY_ENV, "NAME=VALUE", 0, "a setting in its environment (repeatable)", 1 },
	{ "stdin", KEY_STDIN, "FILE", 0, "its standard input; '-' is our own. Default: empty", 1 },
	{ "last-line", KEY_LAST_LINE, NULL, 0,
		"echo the value of a last expression (Python and JavaScript)", 1 },
	{ "file", 'f', "HOST[:PATH]", 0, "a file or directory for the workspace (repeatable)", 2 },
	{ "mount", KEY_MOUNT, "DIR[:NAME]", 0,
		"show the directory DIR in the cell as /mnt/NAME, read-only (repeatable)", 2 },
	{ "entry", KEY_ENTRY, "PATH", 0, "which file of the workspace is run", 2 },
	{ "output-dir", 'o', "DIR", 0, "copy files that the run made or changed to DIR", 2 },
	{ "isolation", KEY_ISOLATION, "KIND", 0,
		"auto (default: the strongest there is), vm, container, or process (not isolated: for "
		"trusted code)",
		3 },
	{ "profile", KEY_PROFILE, "NAME", 0,
		"what a warm machine has loaded, with --isolation vm. Default: what suits the code",
		3 },
	{ "network", KEY_NETWORK, "KIND", 0, "none (default), or host (all of this machine's)", 3 },
	{ "max-output", KEY_MAX_OUTPUT, "SIZE", 0,
		"most of each stream that is shown; the rest is cut and the run goes on. Default: all; "
		"1000000 with --json",
		4 },
	{ "json", KEY_JSON, NULL, 0, "print one JSON object instead of streaming", 5 },
	{ "stats", KEY_STATS, NULL, 0, "say on stderr what the run used", 5 },
	{ "trace", KEY_TRACE, NULL, 0,
		"print the program's system calls to stderr; with --isolation vm", 5 },
	{ "quiet", 'q', NULL, 0, "no remarks of hotcell's own, only errors", 5 },
	{ "languages", KEY_LANGUAGES, "DIR", 0, "further language files (repeatable)", 5 },
	{ "local", KEY_LOCAL, NULL, 0, "on this machine, though $HOTCELL_SERVER is set", 6 },
};

enum { FIXED = sizeof(fixed_options) / sizeof(fixed_options[0]) };

static void add_string(
	struct argp_state *state, const char **list, unsigned *count, const char *value)
{
	if (*count == OPTIONS_LIST_MAX - 1)
		argp_error(state, "more than %d of one option", OPTIONS_LIST_MAX - 1);
	list[(*count)++] = value;
}

/* A host file whose name has a colon is meant if it exists. */
bool options_read_input(const char *value, struct hotcell_input *ret, char **ret_owned)
{
	const char *colon = strrchr(value, ':');
	char *host = xstrdup(value);
	char *real = NULL;
	size_t len = strlen(host);

	*ret = (struct hotcell_input){ .host_path = host };
	*ret_owned = host;
	if (colon && access(value, F_OK) != 0) {
		host[colon - value] = '\0';
		ret->path = host + (colon - value) + 1;
		return true;
	}
	while (len > 1 && host[len - 1] == '/')
		host[--len] = '\0';
	/* "." and ".." have no name to appear under: their resolved one. */
	if (strcmp(path_base(host), ".") == 0 || strcmp(path_base(host), "..") == 0)
		real = realpath(host, NULL);
	if (real) {
		free(host);
		ret->host_path = *ret_owned = real;
		ret->path = path_base(real);
	}
	return *path_base(ret->host_path) != '\0';
}

static void add_file(struct argp_state *state, struct run_options *o, const char *value)
{
	struct hotcell_input *input = &o->inputs[o->request.inputs_count];

	if (o->request.inputs_count == OPTIONS_LIST_MAX - 1)
		argp_error(state, "more than %d files", OPTIONS_LIST_MAX - 1);
	o->request.inputs_count++;
	if (!options_read_input(value, input, &o->owned[o->owned_count++]))
		argp_error(state, "file = '%s': it has no name of its own; give HOST:PATH", value);
}

/* Freed with the options. */
static char *own(struct run_options *o, char *text)
{
	if (o->owned_count < OPTIONS_OWNED_MAX)
		o->owned[o->owned_count++] = text;
	return text;
}

static bool is_directory(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* DIR or DIR:NAME, as with files. Only what it resolves to is told to the warden. */
static void add_mount(struct argp_state *state, struct run_options *o, const char *value)
{
	const char *colon = access(value, F_OK) ? strrchr(value, ':') : NULL;
	size_t len = colon ? (size_t)(colon - value) : strlen(value);
	auto_free char *given = xasprintf("%.*s", (int)len, value);
	struct hotcell_mount *mount = &o->mounts[o->request.mounts_count];
	const char *name;
	char *real;

	if (o->request.mounts_count == MOUNTS_MAX)
		argp_error(state, "more than %d mounts", MOUNTS_MAX);
	real = realpath(given, NULL);
	if (!real)
		argp_error(state, "mount = '%s': %s", value, strerror(errno));
	while (len > 1 && given[len - 1] == '/')
		given[--len] = '\0';
	/* "." and ".." have no name to appear under: their resolved one. */
	name = path_base(given);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		name = path_base(real);
	o->mount_dirs[o->request.mounts_count++] = mount->source = own(o, real);
	mount->name = own(o, xstrdup(colon ? colon + 1 : name));
	if (!is_directory(real))
		argp_error(state, "mount = '%s': it is not a directory", value);
}

static void set_max_output(struct argp_state *state, struct run_options *o, const char *value)
{
	struct err e;

	/* The same form and bounds as the limit of a stream's output. */
	if (limit_parse(LIMIT_OUTPUT_BYTES, value, &o->request.max_output, &e) &&
		strspn(value, "0123456789") != strlen(value))
		argp_error(state, "max-output = '%s': want a size such as 64k or 1M", value);
	if (o->request.max_output == 0)
		argp_error(state, "max-output = '%s': want a size from 1 up", value);
	o->max_output_given = true;
}

bool options_find_isolation(const char *name, enum hotcell_isolation *ret)
{
	static const struct {
		const char *name;
		enum hotcell_isolation isolation;
	} names[] = {
		{ "auto", HOTCELL_ISOLATION_AUTO },
		{ "vm", HOTCELL_ISOLATION_VM },
		{ "container", HOTCELL_ISOLATION_CONTAINER },
		{ "process", HOTCELL_ISOLATION_PROCESS },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, name) == 0) {
			*ret = names[i].isolation;
			return true;
		}
	return false;
}

bool options_find_network(const char *name, enum hotcell_network *ret)
{
	bool is_host = strcmp(name, "host") == 0;

	*ret = is_host ? HOTCELL_NETWORK_HOST : HOTCELL_NETWORK_NONE;
	return is_host || strcmp(name, "none") == 0;
}

static const char *input_path(const struct hotcell_input *input)
{
	return input->path ? input->path : path_base(input->host_path);
}

/* Of two files the later one would win, and nobody be told. Directories become one. */
static void check_apart(struct argp_state *state, const struct hotcell_input *one,
	const struct hotcell_input *other)
{
	if (strcmp(input_path(one), input_path(other)) != 0 ||
		strcmp(one->host_path, other->host_path) == 0 ||
		(is_directory(one->host_path) && is_directory(other->host_path)))
		return;
	argp_error(state, "both '%s' and '%s' would be '%s' in the workspace; give HOST:PATH",
		one->host_path, other->host_path, input_path(one));
}

static void check_inputs(struct argp_state *state, const struct run_options *o)
{
	size_t count = o->request.inputs_count;

	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < i; k++)
			check_apart(state, &o->inputs[k], &o->inputs[i]);
		if (o->code_file && strcmp(o->code_file, "-") != 0)
			check_apart(state, &(struct hotcell_input){ .host_path = o->code_file },
				&o->inputs[i]);
	}
}

static void check_complete(struct argp_state *state, const struct run_options *o)
{
	if (o->request.code && o->code_file)
		argp_error(state, "both -c and FILE were given");
	if (!o->request.code && !o->code_file && !o->request.entry)
		argp_error(state, "what is to be run? Give -c CODE, FILE, or -f FILE with --entry");
	if (o->code_file && strcmp(o->code_file, "-") == 0 && o->stdin_path &&
		strcmp(o->stdin_path, "-") == 0)
		argp_error(state, "standard input cannot be both the code and the program's input");
	if (o->request.mounts_count && options_want_server(o))
		argp_error(state, "--mount is for runs on this machine, not for a service");
	if (o->is_local && o->server.url)
		argp_error(state, "both --local and --server were given");
	if (o->server.key && !options_want_server(o))
		argp_error(state, "--key is for a service: give --server URL");
	if (o->request.code && !o->request.language && !o->request.entry && !o->session_id &&
		strncmp(o->request.code, "#!", 2) != 0)
		argp_error(state, "-c needs -l LANG");
	check_inputs(state, o);
}

static void set_code_file(struct argp_state *state, struct run_options *o, const char *value)
{
	if (o->code_file)
		argp_error(state,
			"more than one FILE: '%s' and '%s' (more files: -f; arguments for the program: "
			"--arg)",
			o->code_file, value);
	if (is_directory(value))
		argp_error(state,
			"'%s' is a directory; give the FILE that is to be run, or -f '%s' with --entry",
			value, value);
	o->code_file = value;
}

static void set_entry(struct argp_state *state, struct run_options *o, const char *value)
{
	struct err e;

	if (path_check_relative(value, strlen(value), &e))
		argp_error(state, "entry = '%s': %s", value, e.text);
	o->request.entry = value;
}

static void add_env(struct argp_state *state, struct run_options *o, const char *value)
{
	if (!strchr(value, '=') || value[0] == '=')
		argp_error(state, "env = '%s': want NAME=VALUE", value);
	add_string(state, o->env, &o->env_count, value);
}

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct run_options *o = state->input;

	if (limit_options_set(state, &o->request.limits, key, value))
		return 0;
	switch (key) {
	case 'l':
		o->request.language = value;
		return 0;
	case 'c':
		o->request.code = value;
		return 0;
	case 'f':
		add_file(state, o, value);
		return 0;
	case 'o':
		o->request.output_dir = value;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case KEY_ISOLATION:
		if (!options_find_isolation(value, &o->request.isolation))
			argp_error(state, OPTIONS_BAD_ISOLATION, value);
		return 0;
	case KEY_NETWORK:
		if (!options_find_network(value, &o->request.network))
			argp_error(state, OPTIONS_BAD_NETWORK, value);
		return 0;
	case KEY_MAX_OUTPUT:
		set_max_output(state, o, value);
		return 0;
	case KEY_ENV:
		add_env(state, o, value);
		return 0;
	case KEY_ARG:
		add_string(state, o->args, &o->args_count, value);
		return 0;
	case KEY_STDIN:
		o->stdin_path = value;
		return 0;
	case KEY_MOUNT:
		add_mount(state, o, value);
		return 0;
	case KEY_ENTRY:
		set_entry(state, o, value);
		return 0;
	case KEY_LAST_LINE:
		o->request.last_line = 1;
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_STATS:
		o->stats = true;
		return 0;
	case KEY_TRACE:
		o->request.trace = 1;
		return 0;
	case KEY_PROFILE:
		o->request.profile = value;
		return 0;
	case KEY_LANGUAGES:
		add_string(state, o->dirs, &o->dirs_count, value);
		return 0;
	case KEY_LOCAL:
		o->is_local = true;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->server;
		return 0;
	case ARGP_KEY_ARG:
		set_code_file(state, o, value);
		return 0;
	case ARGP_KEY_END:
		check_complete(state, o);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void options_parse(struct run_options *o, int argc, char **argv)
{
	static struct argp_option table[FIXED + LIMIT_COUNT + 1];
	static char texts[LIMIT_COUNT][LIMIT_OPTIONS_TEXT];
	static const struct argp_child children[] = { { &server_options_argp, 0, NULL, 7 }, { 0 } };
	struct argp argp = { table, on_option, "[FILE|-]", doc, children, NULL, NULL };
	static char name[] = "hotcell run";
	static char name_in_session[] = "hotcell session exec";

	memcpy(table, fixed_options, sizeof(fixed_options));
	limit_options_make(table + FIXED, &(struct limit_options){ UINT_MAX, 4, true }, texts);
	argv[0] = o->session_id ? name_in_session : name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	o->request.inputs = o->inputs;
	o->request.mounts = o->mounts;
	o->request.args = o->args;
	o->request.env = o->env;
	o->language_dirs = o->dirs;
}

bool options_want_server(const struct run_options *o)
{
	return o->session_id || (!o->is_local && server_options_are_given(&o->server));
}

int options_read_code(struct run_options *o)
{
	ssize_t n;

	do {
		n = read(STDIN_FILENO, buf_reserve(&o->code, CODE_PIECE), CODE_PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return complain("standard input: %s", strerror(errno));
		o->code.len += (size_t)n;
		if (o->code.len > CODE_MAX)
			return complain("standard input: more than %d MiB of code", CODE_MAX >> 20);
	} while (n);
	buf_add(&o->code, "", 0);
	o->request.code = o->code.data;
	o->request.code_len = o->code.len;
	return 0;
}

void options_free(struct run_options *o)
{
	for (unsigned i = 0; i < o->owned_count; i++)
		free(o->owned[i]);
	buf_free(&o->code);
}
