#include "cli/cli.h"
#include "cli/json.h"

#include <argp.h>
#include <stdbool.h>
#include <string.h>

enum { KEY_JSON = 0x100, KEY_LANGUAGES, DIRS_MAX = 16 };

struct languages_options {
	bool json;
	const char *dirs[DIRS_MAX];
	unsigned dirs_count;
};

static const struct argp_option table[] = {
	{ "json", KEY_JSON, NULL, 0, "print JSON", 0 },
	{ "languages", KEY_LANGUAGES, "DIR", 0, "further language files (repeatable)", 0 },
	{ 0 },
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
	struct languages_options *o = state->input;

	switch (key) {
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_LANGUAGES:
		if (o->dirs_count == DIRS_MAX - 1)
			argp_error(state, "more than %d directories", DIRS_MAX - 1);
		o->dirs[o->dirs_count++] = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void print_table(const struct hotcell_language *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].version)
			printf("%-12s %s\n", all[i].id, all[i].version);
		else
			printf("%-12s not installed: %s\n", all[i].id, all[i].install);
}

static int print_json(const struct hotcell_language *all, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list,
			json_pack("{s:s, s:s, s:b, s:o, s:s}", "id", all[i].id, "name", all[i].name,
				"installed", all[i].version != NULL, "version",
				all[i].version ? json_text(all[i].version, strlen(all[i].version)) :
						 json_null(),
				"install", all[i].install));
	return json_print(list);
}

int cmd_languages(int argc, char **argv)
{
	static const struct argp argp = { table, on_option, NULL,
		"Lists the languages: id, and the version found or how to get it.", NULL, NULL,
		NULL };
	static char name[] = "hotcell languages";
	struct languages_options o = { 0 };
	struct hotcell_options options = { .on_problem = complain_of_language };
	struct hotcell_language *all;
	struct hotcell_error e;
	struct hotcell *h;
	size_t count;
	int status = 0;

	argv[0] = name;
	argp_err_exit_status = EXIT_HOTCELL;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	options.language_dirs = o.dirs;
	if (hotcell_open(&options, &h, &e))
		return complain("%s", e.text);
	if (hotcell_languages(h, &all, &count, &e)) {
		status = complain("%s", e.text);
	} else {
		if (o.json)
			status = print_json(all, count) ? EXIT_HOTCELL : 0;
		else
			print_table(all, count);
		if (stdout_finish())
			status = EXIT_HOTCELL;
		hotcell_languages_free(all, count);
	}
	hotcell_close(h);
	return status;
}
