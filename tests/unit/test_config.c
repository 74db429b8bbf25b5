#include "testing.h"

#include "base/buf.h"
#include "base/own.h"
#include "config/table.h"
#include "config/value.h"
#include "wire/limits.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- loading in a place of its own ---- */

static struct scratch *place;
static struct err problem;

/* Nothing of the environment that the tests were started in counts, nor of this machine's /etc. */
static int begin(void **state)
{
	scratch_make(state);
	place = *state;
	clearenv();
	/* Whoever reads what we tell goes by this. */
	setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);
	setenv("HOME", place->path, 1);
	write_file(place->fd, "config.yaml", "");
	setenv("HOTCELL_CONFIG", in(place->path, "config.yaml"), 1);
	problem = (struct err){ 0 };
	return 0;
}

#define TEST_ALONE(name) cmocka_unit_test_setup_teardown(name, begin, scratch_clear)

static void free_config(struct config **c)
{
	config_free(*c);
}

#define auto_config __attribute__((cleanup(free_config)))

/* From up to three words; NULL with `problem`. */
static struct config *load(const char *one, const char *two, const char *three)
{
	char *argv[] = { (char *)one, (char *)two, (char *)three, NULL };
	struct config *c = NULL;
	int argc = 0;

	while (argv[argc])
		argc++;
	if (config_load(argc, argv, &c, &problem))
		assert_null(c);
	return c;
}

static struct config *must_load(const char *one, const char *two, const char *three)
{
	struct config *c = load(one, two, three);

	if (!c)
		fail_msg("%s", problem.text);
	return c;
}

static void is_refused_with(struct config *c, const char *want)
{
	config_free(c);
	assert_null(c);
	assert_string_equal(problem.text, want);
}

static void write_config(const char *text)
{
	write_file(place->fd, "config.yaml", text);
}

static struct config *parse(const char *text)
{
	struct config *c = NULL;

	if (config_parse("f", text, strlen(text), &c, &problem))
		assert_null(c);
	return c;
}

static char *told(const struct config *c, const struct config_row *row)
{
	struct buf text = { 0 };

	value_tell(c, row, &text);
	return text.data;
}

/* ---- the table ---- */

static size_t member_size(enum config_kind kind)
{
	switch (kind) {
	case CONFIG_LIST:
	case CONFIG_PATHS:
		return sizeof(struct config_list);
	case CONFIG_YES_NO:
		return sizeof(bool);
	case CONFIG_CHOICE:
		return sizeof(enum config_reuse);
	default:
		return sizeof(uint64_t);
	}
}

static void every_member_of_the_struct_has_a_row(void **state)
{
	size_t end = 0;

	(void)state;
	for (int i = 0; i < CONFIG_ROWS; i++) {
		/* No gap is large enough for a member, beyond what alignment takes. */
		assert_in_range(config_rows[i].offset, end, end + 7);
		if (config_rows[i].offset != end)
			assert_int_equal(config_rows[i].offset % 8, 0);
		end = config_rows[i].offset + member_size(config_rows[i].kind);
	}
	assert_in_range(sizeof(struct config), end, end + 7);
}

static void rows_are_complete(void **state)
{
	(void)state;
	assert_non_null(config_rows[0].group);
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		size_t len = strlen(row->meaning);

		assert_ptr_equal(config_find_row(row->name), row); /* its name is its own */
		assert_true(len > 10 && len < 120 && row->meaning[len - 1] != '.');
		assert_true(row->least <= row->most);
		assert_int_equal(row->kind == CONFIG_CHOICE, row->choices != NULL);
		if (row->under) {
			assert_non_null(config_find_row(row->under));
			assert_int_equal(config_find_row(row->under)->kind, row->kind);
		}
	}
	assert_null(config_find_row("nonsense"));
}

static void the_bounds_of_runs_are_those_that_cells_have(void **state)
{
	static const struct {
		const char *name;
		enum limit limit;
	} pairs[] = {
		{ "timeout_default_ms", LIMIT_WALL_MS },
		{ "timeout_max_ms", LIMIT_WALL_MS },
		{ "cpu_default_ms", LIMIT_CPU_MS },
		{ "cpu_max_ms", LIMIT_CPU_MS },
		{ "memory_default_bytes", LIMIT_MEMORY_BYTES },
		{ "memory_max_bytes", LIMIT_MEMORY_BYTES },
		{ "processes_default", LIMIT_PROCESSES },
		{ "processes_max", LIMIT_PROCESSES },
		{ "disk_default_bytes", LIMIT_DISK_BYTES },
		{ "disk_max_bytes", LIMIT_DISK_BYTES },
		{ "file_max_bytes", LIMIT_FILE_BYTES },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(pairs); i++) {
		const struct config_row *row = config_find_row(pairs[i].name);

		assert_int_equal(row->least, limit_table[pairs[i].limit].least);
		assert_int_equal(row->most, limit_table[pairs[i].limit].most);
	}
	assert_int_equal(
		config_find_row("cpus_max_milli")->most, limit_table[LIMIT_CPUS_MILLI].most);
}

/* ---- where settings come from ---- */

static void defaults_are_as_promised(void **state)
{
	auto_config struct config *c = must_load(NULL, NULL, NULL);

	(void)state;
	assert_string_equal(c->host, "127.0.0.1");
	assert_int_equal(c->port, 8000);
	assert_false(c->no_auth);
	assert_int_equal(c->cors_origins.count, 0);
	assert_non_null(c->cors_origins.at);
	assert_null(c->cors_origins.at[0]);
	assert_int_equal(c->request_bytes_max, 16 << 20);
	assert_int_equal(c->timeout_default_ms, 2000);
	assert_int_equal(c->timeout_max_ms, 60000);
	assert_int_equal(c->cpu_default_ms, 5000);
	assert_int_equal(c->memory_default_bytes, 256 << 20);
	assert_int_equal(c->memory_max_bytes, 2ULL << 30);
	assert_int_equal(c->output_max_bytes, 1000000);
	assert_int_equal(c->file_max_bytes, 100 << 20);
	assert_int_equal(c->file_ttl_s, 3600);
	assert_int_equal(c->session_ttl_s, 900);
	assert_int_equal(c->pool_min, 1);
	assert_int_equal(c->warm.count, 3);
	assert_string_equal(c->warm.at[0], "python");
	assert_string_equal(c->warm.at[1], "python:data");
	assert_string_equal(c->warm.at[2], "javascript");
	assert_null(c->warm.at[3]);
	assert_int_equal(c->reuse, CONFIG_REUSE_SAME_OWNER);
	assert_string_equal(c->check, "");
	assert_int_equal(c->log_level, LOG_LEVEL_INFO);
	assert_int_equal(c->log_format, LOG_FORMAT_PLAIN);
}

/* Something other than the default, and how it is told afterwards. */
static void make_sample(const struct config_row *row, char *typed, char *want)
{
	switch (row->kind) {
	case CONFIG_TEXT:
		strcpy(typed, "other");
		strcpy(want, "\"other\"");
		return;
	case CONFIG_PATH:
		strcpy(typed, "/other/path");
		strcpy(want, "\"/other/path\"");
		return;
	case CONFIG_LIST:
		strcpy(typed, "a://one,a://two");
		strcpy(want, "[\"a://one\", \"a://two\"]");
		return;
	case CONFIG_PATHS:
		strcpy(typed, "/one,/two");
		strcpy(want, "[\"/one\", \"/two\"]");
		return;
	case CONFIG_YES_NO:
		strcpy(typed, "yes");
		strcpy(want, "yes");
		return;
	case CONFIG_CHOICE:
		strcpy(typed, strcmp(row->by_default, row->choices[1]) == 0 ? row->choices[0] :
									      row->choices[1]);
		strcpy(want, typed);
		return;
	default:
		sprintf(typed, "%" PRIu64, row->least + 7);
		strcpy(want, typed);
	}
}

static void is_sample(struct config *loaded, const struct config_row *row, const char *want)
{
	auto_config struct config *c = loaded;
	auto_free char *is = NULL;

	if (!c)
		fail_msg("%s", problem.text);
	is = told(c, row);
	if (strcmp(is, want) != 0)
		fail_msg("%s is %s, not %s", row->name, is, want);
}

static void every_setting_loads_from_each_source(void **state)
{
	auto_config struct config *defaults = must_load(NULL, NULL, NULL);

	(void)state;
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		bool list = row->kind == CONFIG_LIST || row->kind == CONFIG_PATHS;
		auto_free char *before = told(defaults, row);
		char variable[64] = "HOTCELL_";
		char flag[64] = "--";
		char flag_is[256];
		char typed[64];
		char want[64];
		char text[256];

		make_sample(row, typed, want);
		assert_string_not_equal(before, want);
		strcat(variable, row->name);
		strcat(flag, row->name);
		for (char *at = variable; *at; at++)
			*at = (char)toupper((unsigned char)*at);
		for (char *at = flag; *at; at++)
			*at = *at == '_' ? '-' : *at;

		snprintf(text, sizeof(text), list ? "%s: [%s]\n" : "%s: %s\n", row->name, typed);
		write_config(text);
		is_sample(load(NULL, NULL, NULL), row, want);
		write_config("");

		setenv(variable, typed, 1);
		is_sample(load(NULL, NULL, NULL), row, want);
		unsetenv(variable);

		snprintf(flag_is, sizeof(flag_is), "%s=%s", flag, typed);
		is_sample(load(flag_is, NULL, NULL), row, want);
		if (row->kind == CONFIG_YES_NO) {
			assert_int_equal(config_find_flag(flag), CONFIG_FLAG_ALONE);
			is_sample(load(flag, NULL, NULL), row, want);
		} else {
			assert_int_equal(config_find_flag(flag), CONFIG_FLAG_WITH_VALUE);
			is_sample(load(flag, typed, NULL), row, want);
		}
	}
}

static uint64_t port_now(const char *one, const char *two)
{
	auto_config struct config *c = must_load(one, two, NULL);

	return c->port;
}

static void later_sources_win(void **state)
{
	(void)state;
	assert_int_equal(port_now(NULL, NULL), 8000);
	write_config("port: 1\n");
	assert_int_equal(port_now(NULL, NULL), 1);
	setenv("PORT", "2", 1);
	assert_int_equal(port_now(NULL, NULL), 2);
	setenv("HOTCELL_PORT", "3", 1);
	assert_int_equal(port_now(NULL, NULL), 3);
	assert_int_equal(port_now("--port", "4"), 4);
	assert_int_equal(port_now("--port=4", "--port=5"), 5);
}

static void old_names_have_their_old_units(void **state)
{
	static const char *const variables[][2] = {
		{ "HOST", "0.0.0.0" },
		{ "PORT", "9000" },
		{ "MAX_EXEC_TIMEOUT_MS", "30000" },
		{ "MAX_OUTPUT_BYTES", "2000000" },
		{ "CPU_TIME_LIMIT_SEC", "7" },
		{ "MEMORY_LIMIT_MB", "512" },
		{ "MAX_FILE_SIZE_MB", "10" },
		{ "FILE_TTL_SEC", "0" },
		{ "LOG_LEVEL", "WARNING" },
		{ "LOG_FORMAT", "json" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(variables); i++)
		setenv(variables[i][0], variables[i][1], 1);
	auto_config struct config *c = must_load(NULL, NULL, NULL);

	assert_string_equal(c->host, "0.0.0.0");
	assert_int_equal(c->port, 9000);
	assert_int_equal(c->timeout_max_ms, 30000);
	assert_int_equal(c->output_max_bytes, 2000000);
	assert_int_equal(c->cpu_default_ms, 7000);
	assert_int_equal(c->memory_default_bytes, 512 << 20);
	assert_int_equal(c->file_max_bytes, 10 << 20);
	assert_int_equal(c->file_ttl_s, 0);
	assert_int_equal(c->log_level, LOG_LEVEL_WARNING);
	assert_int_equal(c->log_format, LOG_FORMAT_JSON);
}

static void an_old_name_without_a_value_is_not_set(void **state)
{
	(void)state;
	setenv("PORT", "", 1);
	assert_int_equal(port_now(NULL, NULL), 8000);
}

static void an_old_name_takes_numbers_only_and_none_that_overflows(void **state)
{
	(void)state;
	setenv("MEMORY_LIMIT_MB", "512M", 1);
	is_refused_with(load(NULL, NULL, NULL),
		"environment MEMORY_LIMIT_MB: memory_default_bytes = '512M': want a size from 4M "
		"to 1T (memory of a run, its files included)");
	setenv("MEMORY_LIMIT_MB", "18446744073709551615", 1);
	assert_null(load(NULL, NULL, NULL));
	/* 2^44 MiB is 0 in 64 bits. */
	setenv("MEMORY_LIMIT_MB", "17592186044416", 1);
	assert_null(load(NULL, NULL, NULL));
}

/* As somebody who is not root, in a child. 0 if all is as it should be. */
static int as_nobody(int (*claim)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (geteuid() == 0 &&
			(chown(place->path, 65534, 65534) || setgid(65534) || setuid(65534)))
			_exit(100);
		_exit(claim());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool places_are(const char *socket, const char *state_dir)
{
	auto_config struct config *c = load(NULL, NULL, NULL);

	return c && strcmp(c->socket, socket) == 0 && strcmp(c->state_dir, state_dir) == 0;
}

static int places_of_nobody(void)
{
	char fallback[64];

	snprintf(fallback, sizeof(fallback), "/tmp/hotcell-%u/hotcell.sock", (unsigned)geteuid());
	if (!places_are(fallback, in(place->path, ".local/state/hotcell")))
		return 1;
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	setenv("XDG_STATE_HOME", "/somewhere", 1);
	if (!places_are("/run/user/7/hotcell.sock", "/somewhere/hotcell"))
		return 2;
	setenv("XDG_STATE_HOME", "relative", 1);
	if (!places_are("/run/user/7/hotcell.sock", in(place->path, ".local/state/hotcell")))
		return 3;
	return 0;
}

static void places_depend_on_who_starts_it(void **state)
{
	(void)state;
	chmod(in(place->path, "config.yaml"), 0644);
	assert_int_equal(as_nobody(places_of_nobody), 0);
	if (geteuid() == 0)
		assert_true(places_are("/run/hotcell/hotcell.sock", "/var/lib/hotcell"));
}

static int usual_file(void)
{
	unsetenv("HOTCELL_CONFIG");
	setenv("XDG_CONFIG_HOME", place->path, 1);
	if (mkdirat(place->fd, "hotcell", 0700))
		return 1;
	write_file(place->fd, "hotcell/config.yaml", "port: 77\n");
	return port_now(NULL, NULL) == 77 ? 0 : 2;
}

static void a_users_own_file_is_found(void **state)
{
	(void)state;
	assert_int_equal(as_nobody(usual_file), 0);
}

static void a_file_that_was_named_must_be_there(void **state)
{
	(void)state;
	assert_null(load("--config", "/nowhere/x.yaml", NULL));
	assert_string_equal(problem.text, "open '/nowhere/x.yaml': No such file or directory");
	write_file(place->fd, "second.yaml", "port: 5\n");
	assert_int_equal(port_now("--config", in(place->path, "second.yaml")), 5);
	assert_int_equal(port_now("--config", "/dev/null"), 8000);
}

/* ---- values ---- */

#define WANT_WARM                                                                                  \
	"want a list of LANGUAGE[:PROFILE][@vm or @container], names of at most 63 bytes "         \
	"(what is kept warm: language, language:profile, language@isolation)"
#define LONG_NAME "a12345678901234567890123456789012345678901234567890123456789012"

static void wrong_values_are_told_with_name_value_and_what_was_wanted(void **state)
{
	static const char *const rows[][2] = {
		{ "port: 0",
			"f:1: port = '0': want a number from 1 to 65535 (TCP port of the HTTP API)" },
		{ "\n\nport: 65536",
			"f:3: port = '65536': want a number from 1 to 65535 (TCP port of the HTTP API)" },
		{ "port: -1",
			"f:1: port = '-1': want a number from 1 to 65535 (TCP port of the HTTP API)" },
		{ "port: [1]",
			"f:1: port = 'a list': want a number from 1 to 65535 (TCP port of the HTTP API)" },
		{ "port:",
			"f:1: port = '': want a number from 1 to 65535 (TCP port of the HTTP API)" },
		{ "no_auth: maybe",
			"f:1: no_auth = 'maybe': want yes or no (serve without a key too, "
			"though there are keys or other machines can reach it)" },
		{ "reuse: sometimes",
			"f:1: reuse = 'sometimes': want same-owner, never or always (for whom a "
			"machine is used again after it was reset)" },
		{ "timeout_max_ms: 25h",
			"f:1: timeout_max_ms = '25h': want a time from 1ms to 24h (longest time on "
			"the clock that may be asked for)" },
		{ "drain_s: 1500ms",
			"f:1: drain_s = '1500ms': want a time in whole seconds from 0 to 24h (time "
			"that runs have to end when the service is stopped)" },
		{ "request_bytes_max: 1T",
			"f:1: request_bytes_max = '1T': want a size from 1K to 1G (largest JSON "
			"body of a request)" },
		{ "state_dir: relative",
			"f:1: state_dir = 'relative': want a path of at most 4000 bytes, absolute in the file "
			"(directory of stored files, keys and history)" },
		{ "user: ''",
			"f:1: user = '': want text of 1 to 255 bytes (user that the service becomes "
			"when it is started as root)" },
		{ "warm: python", "f:1: warm = 'python': " WANT_WARM },
		{ "cors_origins: [https://a.example, https://b.example/]",
			"f:1: cors_origins = 'https://b.example/': want a list of origins without a "
			"path, or * (web pages that may call the API, such as https://example.org)" },
		{ "warm: [python, python@foo]", "f:1: warm = 'python@foo': " WANT_WARM },
		{ "warm: [python@]", "f:1: warm = 'python@': " WANT_WARM },
		{ "warm: ['python:']", "f:1: warm = 'python:': " WANT_WARM },
		{ "warm: ['@vm']", "f:1: warm = '@vm': " WANT_WARM },
		{ "warm: [python@vm@vm]", "f:1: warm = 'python@vm@vm': " WANT_WARM },
		{ "warm: ['python:" LONG_NAME "x@vm']",
			"f:1: warm = 'python:" LONG_NAME "x@vm': " WANT_WARM },
		{ "warm: [" LONG_NAME "x]", "f:1: warm = '" LONG_NAME "x': " WANT_WARM },
		{ "cors_origins: [a.example]",
			"f:1: cors_origins = 'a.example': want a list of origins without a "
			"path, or * (web pages that may call the API, such as https://example.org)" },
		{ "mounts: [/a, b]",
			"f:1: mounts = 'b': want a list of paths, absolute in the file (directories of this "
			"machine below which sessions may mount)" },
		{ "user: \"a\\nb\\e\"",
			"f:1: user = 'a?b?': want text of 1 to 255 bytes (user that the service "
			"becomes when it is started as root)" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		is_refused_with(parse(rows[i][0]), rows[i][1]);
		assert_int_equal(problem.kind, ERR_INPUT);
	}
}

static void where_a_wrong_value_stands_is_told(void **state)
{
	char want[256];

	(void)state;
	is_refused_with(load("--port", "x", NULL),
		"--port: port = 'x': want a number from 1 to 65535 (TCP port of the HTTP API)");
	setenv("PORT", "x", 1);
	is_refused_with(load(NULL, NULL, NULL),
		"environment PORT: port = 'x': want a number from 1 "
		"to 65535 (TCP port of the HTTP API)");
	setenv("HOTCELL_PORT", "", 1);
	is_refused_with(load(NULL, NULL, NULL),
		"environment HOTCELL_PORT: port = '': want a number "
		"from 1 to 65535 (TCP port of the HTTP API)");
	write_config("# first\nport: x\n");
	snprintf(want, sizeof(want),
		"%s:2: port = 'x': want a number from 1 to 65535 (TCP port of the HTTP API)",
		in(place->path, "config.yaml"));
	is_refused_with(load(NULL, NULL, NULL), want);
}

static void numbers_beyond_their_bounds_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_rows[i];
		uint64_t tries[] = { row->least, row->most, row->least - 1, row->most + 1 };

		if (row->kind < CONFIG_NUMBER || row->kind > CONFIG_S)
			continue;
		for (size_t t = 0; t < COUNT(tries); t++) {
			bool fine = tries[t] >= row->least && tries[t] <= row->most;
			char text[128];

			snprintf(text, sizeof(text), "%s: %" PRIu64, row->name, tries[t]);
			auto_config struct config *c = parse(text);

			assert_int_equal(c != NULL, fine);
		}
	}
}

static uint64_t number_of(const char *text, const char *name)
{
	auto_config struct config *c = parse(text);

	if (!c)
		fail_msg("%s", problem.text);
	return *value_number(c, config_find_row(name));
}

static void units_are_read_as_people_type_them(void **state)
{
	(void)state;
	assert_int_equal(number_of("timeout_max_ms: 5000", "timeout_max_ms"), 5000);
	assert_int_equal(number_of("timeout_max_ms: 5s", "timeout_max_ms"), 5000);
	assert_int_equal(number_of("timeout_max_ms: 2500ms", "timeout_max_ms"), 2500);
	assert_int_equal(number_of("timeout_max_ms: 1.5m", "timeout_max_ms"), 90000);
	assert_int_equal(number_of("drain_s: 5", "drain_s"), 5);
	assert_int_equal(number_of("drain_s: 5000ms", "drain_s"), 5);
	assert_int_equal(number_of("drain_s: 2m", "drain_s"), 120);
	assert_int_equal(number_of("drain_s: 0", "drain_s"), 0);
	assert_int_equal(number_of("file_max_bytes: 2048", "file_max_bytes"), 2048);
	assert_int_equal(number_of("file_max_bytes: 64k", "file_max_bytes"), 65536);
	assert_int_equal(number_of("file_max_bytes: 1.5MiB", "file_max_bytes"), 3 << 19);
	assert_null(parse("timeout_max_ms: 0.5"));
	assert_null(parse("timeout_max_ms: 5k"));
	assert_null(parse("file_max_bytes: 5s"));
	assert_null(parse("port: 80k"));
	assert_null(parse("port: 0x50"));
	assert_null(parse("port: 99999999999999999999999"));
}

static void yes_and_no_have_three_spellings(void **state)
{
	static const char *const words[] = { "no", "yes", "false", "true", "0", "1", "No", "YES" };

	(void)state;
	for (size_t i = 0; i < COUNT(words); i++) {
		setenv("HOTCELL_NO_AUTH", words[i], 1);
		auto_config struct config *c = must_load(NULL, NULL, NULL);

		assert_int_equal(c->no_auth, i % 2);
	}
	auto_config struct config *c = must_load("--no-auth=no", NULL, NULL);

	assert_false(c->no_auth);
	assert_null(load("--no-auth", "no", NULL));
}

static void list_is(struct config *loaded, const char *want)
{
	auto_config struct config *c = loaded;
	auto_free char *is = NULL;

	if (!c)
		fail_msg("%s", problem.text);
	is = told(c, config_find_row("warm"));
	assert_string_equal(is, want);
}

static void a_list_replaces_what_an_earlier_source_said(void **state)
{
	(void)state;
	list_is(parse("warm: [a, \"b c\"]"), "[\"a\", \"b c\"]");
	list_is(parse("warm:\n- a\n- b"), "[\"a\", \"b\"]");
	list_is(parse("warm: []"), "[]");
	list_is(parse("warm:"), "[]");
	write_config("warm: [file]");
	setenv("HOTCELL_WARM", "x, y ,z", 1);
	list_is(load(NULL, NULL, NULL), "[\"x\", \"y\", \"z\"]");
	list_is(load("--warm=a,b", "--warm", "c"), "[\"a\", \"b\", \"c\"]");
	list_is(load("--warm=", NULL, NULL), "[]");
	setenv("HOTCELL_WARM", "", 1);
	list_is(load(NULL, NULL, NULL), "[]");
	setenv("HOTCELL_WARM", "a,,b", 1);
	assert_null(load(NULL, NULL, NULL));
	setenv("HOTCELL_WARM", "a,", 1);
	assert_null(load(NULL, NULL, NULL));
}

static void a_list_has_an_end(void **state)
{
	auto_buf struct buf text = { 0 };

	(void)state;
	buf_add_str(&text, "warm: [a");
	for (int i = 1; i < VALUE_LIST_MAX; i++)
		buf_add_str(&text, ",a");
	buf_add_str(&text, "]");
	auto_config struct config *c = parse(text.data);

	assert_non_null(c);
	assert_int_equal(c->warm.count, VALUE_LIST_MAX);
	text.data[--text.len] = '\0';
	buf_add_str(&text, ",a]");
	is_refused_with(parse(text.data), "f:1: this list is too long");
	setenv("HOTCELL_WARM", strchr(text.data, '[') + 1, 1);
	assert_null(load(NULL, NULL, NULL));
	assert_non_null(strstr(problem.text, "more than 256 entries"));
}

static void a_relative_path_on_the_command_line_is_made_absolute(void **state)
{
	char was[4096];

	(void)state;
	assert_non_null(getcwd(was, sizeof(was)));
	assert_int_equal(chdir(place->path), 0);
	auto_config struct config *c = must_load("--state-dir=here", "--mounts=a,/b", "--check=");

	assert_int_equal(chdir(was), 0);
	assert_string_equal(c->state_dir, in(place->path, "here"));
	assert_string_equal(c->mounts.at[0], in(place->path, "a"));
	assert_string_equal(c->mounts.at[1], "/b");
	assert_string_equal(c->check, "");
}

static void none_is_no_path(void **state)
{
	auto_config struct config *c = parse("socket: none\nhost: ''");

	(void)state;
	assert_non_null(c);
	assert_string_equal(c->socket, "none");
	assert_string_equal(c->host, "");
}

static void a_default_follows_a_maximum_unless_both_were_given(void **state)
{
	(void)state;
	assert_int_equal(number_of("timeout_max_ms: 1s", "timeout_default_ms"), 1000);
	assert_int_equal(number_of("memory_default_bytes: 3G", "memory_max_bytes"), 3ULL << 30);
	is_refused_with(parse("timeout_max_ms: 1s\ntimeout_default_ms: 1001"),
		"f:2: timeout_default_ms = 1001 is over timeout_max_ms = 1000 of f:1");
	assert_int_equal(
		number_of("timeout_max_ms: 1s\ntimeout_default_ms: 1s", "timeout_max_ms"), 1000);
	/* 0 is no maximum here. */
	assert_int_equal(number_of("pool_min: 5\npool_max: 0", "pool_min"), 5);
	is_refused_with(
		parse("pool_min: 5\npool_max: 4"), "f:1: pool_min = 5 is over pool_max = 4 of f:2");
	setenv("CPU_TIME_LIMIT_SEC", "120", 1);
	auto_config struct config *c = must_load(NULL, NULL, NULL);

	assert_int_equal(c->cpu_max_ms, 120000);
}

/* ---- words that are not known ---- */

#define HELP "; 'hotcell serve --help' lists them"

static void unknown_names_are_told_with_the_nearest(void **state)
{
	(void)state;
	is_refused_with(parse("\nprot: 1"), "f:2: unknown setting 'prot'; did you mean 'port'?");
	is_refused_with(parse("timeout-max-ms: 1"),
		"f:1: unknown setting 'timeout-max-ms'; did you mean 'timeout_max_ms'?");
	is_refused_with(parse("gibberish: 1"), "f:1: unknown setting 'gibberish'");
	is_refused_with(
		load("--prot=1", NULL, NULL), "unknown option '--prot=1'; did you mean --port?");
	is_refused_with(load("--timeout_max_ms=1", NULL, NULL),
		"unknown option '--timeout_max_ms=1'; did you mean --timeout-max-ms?");
	is_refused_with(load("--gibberish", NULL, NULL), "unknown option '--gibberish'" HELP);
	is_refused_with(load("--", NULL, NULL), "unknown option '--'" HELP);
	is_refused_with(load("--=1", NULL, NULL), "unknown option '--=1'" HELP);
	is_refused_with(load("-p", "1", NULL), "unknown option '-p'" HELP);
	is_refused_with(
		load("port", NULL, NULL), "unexpected 'port': settings are given as --name value");
	is_refused_with(load("--port", NULL, NULL),
		"option '--port' requires an argument (TCP port of the HTTP API)");
	is_refused_with(load("--config", NULL, NULL),
		"option '--config' requires an argument (configuration file)");
	assert_int_equal(config_find_flag("--config"), CONFIG_FLAG_WITH_VALUE);
	assert_int_equal(config_find_flag("--config=x"), CONFIG_FLAG_WITH_VALUE);
	assert_int_equal(config_find_flag("--conf"), CONFIG_FLAG_NOT_OURS);
	assert_int_equal(config_find_flag("--por"), CONFIG_FLAG_NOT_OURS);
	assert_int_equal(config_find_flag("--print-config"), CONFIG_FLAG_NOT_OURS);
	assert_int_equal(config_find_flag("x"), CONFIG_FLAG_NOT_OURS);
}

/* ---- files ---- */

static void what_is_not_a_file_of_settings_is_refused_with_its_line(void **state)
{
	static const char *const rows[][2] = {
		{ "port: 1\nport: 2", "f:2: 'port' is there twice" },
		{ "- port", "f:1: want 'name: value'" },
		{ "port", "f:1: want 'name: value'" },
		{ "host: &a x\nuser: *a", "f:2: aliases (*) are not taken" },
		{ "host: !include x", "f:1: tags (!) mean nothing here" },
		{ "port:\n  x: 1", "f:2: want a value or a list of values" },
		{ "warm: [[a]]", "f:1: want a text in this list" },
		{ "[a]: 1", "f:1: want the name of a setting" },
		{ "port: 1\n---\nport: 2", "f:2: want one document only" },
		{ "host: \"a\\0b\"", "f:1: a text has NUL bytes" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++)
		is_refused_with(parse(rows[i][0]), rows[i][1]);
}

static void broken_yaml_is_refused(void **state)
{
	static const char *const texts[] = { "port: [1", "\tport: 1", "host: \"x", "port: 1\n}",
		"a: b: c", "host: \xff", "host: a\x01" };

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_null(parse(texts[i]));
		assert_memory_equal(problem.text, "f:", 2);
	}
}

static void a_file_without_settings_is_fine(void **state)
{
	static const char *const texts[] = { "", "\n", "# nothing\n", "---\n", "---\n...\n", "{}" };

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		auto_config struct config *c = parse(texts[i]);

		if (!c)
			fail_msg("'%s': %s", texts[i], problem.text);
	}
}

static void only_a_regular_file_of_bounded_size_is_read(void **state)
{
	static char large[300000];

	(void)state;
	memset(large, '#', sizeof(large) - 1);
	write_config(large);
	assert_null(load(NULL, NULL, NULL));
	assert_non_null(strstr(problem.text, "is larger than 262144 bytes"));
	assert_null(load("--config", place->path, NULL));
	assert_non_null(strstr(problem.text, "is not a regular file"));
	/* Without waiting for somebody to write into it. */
	assert_int_equal(mkfifoat(place->fd, "fifo", 0600), 0);
	assert_null(load("--config", in(place->path, "fifo"), NULL));
	assert_non_null(strstr(problem.text, "is not a regular file"));
}

static void root_refuses_a_file_that_others_can_change(void **state)
{
	static const mode_t modes[] = { 0600, 0644, 0620, 0602, 0666 };
	const char *path = in(place->path, "config.yaml");
	bool root = geteuid() == 0;

	(void)state;
	for (size_t i = 0; i < COUNT(modes); i++) {
		chmod(path, modes[i]);
		auto_config struct config *c = load(NULL, NULL, NULL);

		assert_int_equal(c != NULL, !root || (modes[i] & 022) == 0);
		if (!c)
			assert_non_null(strstr(problem.text, "can be changed by others than root"));
	}
	chmod(path, 0600);
	if (!root)
		return;
	assert_int_equal(chown(path, 1, 0), 0);
	assert_null(load(NULL, NULL, NULL));
	assert_non_null(strstr(problem.text, "belongs to user 1"));
}

/* ---- telling ---- */

static char *printed(const struct config *c)
{
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	config_print(c, to);
	fclose(to);
	return text;
}

static void what_is_printed_gives_the_same_settings(void **state)
{
	static const char text[] =
		"host: 'a \"b\" \\ c: #d'\nuser: \xc3\xa4\xe2\x82\xac\nwarm: ['a,b', '- c', ' ']\n"
		"memory_max_bytes: 3000000000\nmemory_default_bytes: 5M\ncheck: /x y\n"
		"no_auth: yes\nreuse: never\nlog_level: error\ndrain_s: 0\nsocket: none\n";
	auto_config struct config *c = parse(text);

	(void)state;
	assert_non_null(c);
	auto_free char *first = printed(c);
	auto_config struct config *again = parse(first);

	if (!again) {
		fail_msg("%s", problem.text);
		return;
	}
	auto_free char *second = printed(again);

	assert_string_equal(first, second);
	assert_string_equal(again->host, "a \"b\" \\ c: #d");
	assert_string_equal(again->user, "\xc3\xa4\xe2\x82\xac");
	assert_string_equal(again->warm.at[0], "a,b");
	assert_int_equal(again->memory_max_bytes, 3000000000ULL);
	assert_int_equal(again->reuse, CONFIG_REUSE_NEVER);
	for (int i = 0; i < CONFIG_ROWS; i++)
		assert_non_null(strstr(first, config_rows[i].name));
}

/* Else what is printed could not be loaded. */
static void text_that_yaml_cannot_hold_is_refused(void **state)
{
	static const char *const texts[] = { "a\nb", "a\x1b", "a\x7f", "\xff", "a\xc2\x85",
		"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbb\xbf", "\xef\xbf\xbe" };

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		setenv("HOTCELL_USER", texts[i], 1);
		assert_null(load(NULL, NULL, NULL));
		unsetenv("HOTCELL_USER");
		setenv("HOTCELL_WARM", texts[i], 1);
		assert_null(load(NULL, NULL, NULL));
		unsetenv("HOTCELL_WARM");
	}
}

static void help_has_every_flag_in_lines_that_fit(void **state)
{
	auto_free char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	(void)state;
	config_print_flags(to);
	fclose(to);
	for (int i = 0; i < CONFIG_ROWS; i++) {
		char flag[64];

		snprintf(flag, sizeof(flag), "      --%s", config_rows[i].name);
		for (char *at = flag; *at; at++)
			*at = *at == '_' ? '-' : *at;
		assert_non_null(strstr(text, flag));
	}
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		assert_in_range(strcspn(line, "\n"), 0, 79);
}

/* ---- the service's user and directory ---- */

static void a_user_is_a_name_or_a_number(void **state)
{
	static const char *const wrong[] = { "no-such-user-here", "0", "-1", "4294967295", "1x" };
	auto_config struct config *c = must_load("--user=root", NULL, NULL);
	uid_t uid = 7;
	gid_t gid = 7;

	(void)state;
	assert_int_equal(config_find_user(c, &uid, &gid, &problem), 0);
	assert_int_equal(uid + gid, 0);
	auto_config struct config *number = must_load("--user=30777", NULL, NULL);

	assert_int_equal(config_find_user(number, &uid, &gid, &problem), 0);
	assert_int_equal(uid, 30777);
	assert_int_equal(gid, 30777);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		auto_config struct config *none = must_load("--user", wrong[i], NULL);

		assert_int_equal(config_find_user(none, &uid, &gid, &problem), -1);
		assert_non_null(strstr(problem.text, "there is no such user"));
	}
}

static uid_t owner_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	return st.st_uid;
}

static void the_state_directory_is_made_for_its_user(void **state)
{
	auto_free char *flag = xasprintf("--state-dir=%s/a/b/state", place->path);
	auto_config struct config *c = must_load(flag, "--user=4711", NULL);
	uid_t want = geteuid() == 0 ? 4711 : geteuid();

	(void)state;
	assert_int_equal(config_make_state_dir(c, &problem), 0);
	assert_int_equal(owner_of(c->state_dir), want);
	assert_int_equal(config_make_state_dir(c, &problem), 0);
	if (geteuid() != 0)
		return;
	/* As a service manager makes it: taken over while nothing is in it, and not after. */
	assert_int_equal(chown(c->state_dir, 0, 0), 0);
	assert_int_equal(config_make_state_dir(c, &problem), 0);
	assert_int_equal(owner_of(c->state_dir), 4711);
	assert_int_equal(chown(c->state_dir, 0, 0), 0);
	make_dir(place->fd, "a/b/state/something");
	assert_int_equal(config_make_state_dir(c, &problem), 0);
	assert_int_equal(owner_of(c->state_dir), 0);
}

static void a_state_directory_that_is_none_is_refused(void **state)
{
	auto_free char *flag = xasprintf("--state-dir=%s/config.yaml", place->path);
	auto_config struct config *c = must_load(flag, NULL, NULL);

	(void)state;
	assert_int_equal(config_make_state_dir(c, &problem), -1);
	/* Nor through a link: root would give away what it leads to. */
	assert_int_equal(symlinkat("elsewhere", place->fd, "link"), 0);
	make_dir(place->fd, "elsewhere");
	auto_free char *through = xasprintf("--state-dir=%s/link", place->path);
	auto_config struct config *other = must_load(through, NULL, NULL);

	assert_int_equal(config_make_state_dir(other, &problem), -1);
}

static void settings_that_are_read_again_keep_places_and_change_all_else(void **state)
{
	(void)state;
	auto_config struct config *old = must_load("--port=81", "--state-dir=/old", "--drain-s=5");
	auto_config struct config *c = must_load("--port=82", "--state-dir=/new", "--drain-s=6");

	config_keep_places(old, c);
	assert_int_equal(c->port, 81);
	assert_string_equal(c->state_dir, "/old");
	assert_string_equal(c->socket, old->socket);
	assert_int_equal(c->drain_s, 6);
}

static void freeing_nothing_is_fine(void **state)
{
	(void)state;
	config_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_member_of_the_struct_has_a_row),
		TEST(rows_are_complete),
		TEST(the_bounds_of_runs_are_those_that_cells_have),
		TEST_ALONE(defaults_are_as_promised),
		TEST_ALONE(every_setting_loads_from_each_source),
		TEST_ALONE(later_sources_win),
		TEST_ALONE(old_names_have_their_old_units),
		TEST_ALONE(an_old_name_without_a_value_is_not_set),
		TEST_ALONE(an_old_name_takes_numbers_only_and_none_that_overflows),
		TEST_ALONE(places_depend_on_who_starts_it),
		TEST_ALONE(a_users_own_file_is_found),
		TEST_ALONE(a_file_that_was_named_must_be_there),
		TEST_ALONE(wrong_values_are_told_with_name_value_and_what_was_wanted),
		TEST_ALONE(where_a_wrong_value_stands_is_told),
		TEST_ALONE(numbers_beyond_their_bounds_are_refused),
		TEST_ALONE(units_are_read_as_people_type_them),
		TEST_ALONE(yes_and_no_have_three_spellings),
		TEST_ALONE(a_list_replaces_what_an_earlier_source_said),
		TEST_ALONE(a_list_has_an_end),
		TEST_ALONE(a_relative_path_on_the_command_line_is_made_absolute),
		TEST_ALONE(none_is_no_path),
		TEST_ALONE(a_default_follows_a_maximum_unless_both_were_given),
		TEST_ALONE(unknown_names_are_told_with_the_nearest),
		TEST_ALONE(what_is_not_a_file_of_settings_is_refused_with_its_line),
		TEST_ALONE(broken_yaml_is_refused),
		TEST_ALONE(a_file_without_settings_is_fine),
		TEST_ALONE(only_a_regular_file_of_bounded_size_is_read),
		TEST_ALONE(root_refuses_a_file_that_others_can_change),
		TEST_ALONE(what_is_printed_gives_the_same_settings),
		TEST_ALONE(text_that_yaml_cannot_hold_is_refused),
		TEST_ALONE(help_has_every_flag_in_lines_that_fit),
		TEST_ALONE(a_user_is_a_name_or_a_number),
		TEST_ALONE(the_state_directory_is_made_for_its_user),
		TEST_ALONE(a_state_directory_that_is_none_is_refused),
		TEST_ALONE(settings_that_are_read_again_keep_places_and_change_all_else),
		TEST(freeing_nothing_is_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
