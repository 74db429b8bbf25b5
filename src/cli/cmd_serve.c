#include "cli/cli.h"

#include "base/buf.h"
#include "base/own.h"
#include "config/config.h"
#include "daemon/daemon.h"
#include "supervisor/supervisor.h"

#include <stdbool.h>
#include <string.h>

struct serve_options {
	bool help;
	bool print_config;
	char **settings; /* the words that are config's to read */
	int count;
};

static void print_help(void)
{
	fputs("Usage: hotcell serve [OPTION...]\n"
	      "Serves the HTTP API. Settings come, later ones winning, from a YAML file, the environment\n"
	      "(HOTCELL_NAME) and the options below.\n\n"
	      "      --config=FILE         the YAML file. Default: ~/.config/hotcell/config.yaml,\n"
	      "                            else /etc/hotcell/config.yaml\n"
	      "      --print-config        print all settings as such a file, and end\n"
	      "  -?, --help                print this list, and end\n",
		stdout);
	config_print_flags(stdout);
	fputs("\nTimes are written as 500ms, 2s or 5m, sizes as 64k, 256M or 1G, lists with commas\n"
	      "or by giving the option several times.\n",
		stdout);
}

/* What is ours; the rest is left for config, which knows every other word or complains of it. */
static void parse_options(int argc, char **argv, struct serve_options *ret)
{
	for (int i = 1; i < argc; i++) {
		enum config_flag_found found = config_find_flag(argv[i]);

		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-?") == 0) {
			ret->help = true;
			continue;
		}
		if (strcmp(argv[i], "--print-config") == 0) {
			ret->print_config = true;
			continue;
		}
		ret->settings[ret->count++] = argv[i];
		/* Its value may look like one of ours. */
		if (found == CONFIG_FLAG_WITH_VALUE && !strchr(argv[i], '=') && i + 1 < argc)
			ret->settings[ret->count++] = argv[++i];
	}
}

/* As at the start: the file and the environment may have changed since, the command line has not. */
static struct config *read_config(void *context, struct err *e)
{
	const struct serve_options *o = context;
	struct config *c = NULL;

	if (config_load(o->count, o->settings, &c, e))
		return NULL;
	if (config_find_check(c, e)) {
		config_free(c);
		return NULL;
	}
	return c;
}

static int serve(struct config *c, struct serve_options *o)
{
	struct err e = { 0 };
	struct supervisor_options options = {
		.config = c,
		.run = daemon_run,
		.read_config = read_config,
		.context = o,
	};

	if (config_find_check(c, &e))
		return complain("%s", e.text);
	log_setup(c->log_level, c->log_format);
	return supervisor_run(&options);
}

int cmd_serve(int argc, char **argv)
{
	auto_free char **settings = xalloc((size_t)argc * sizeof(*settings));
	struct serve_options o = { .settings = settings };
	struct config *c = NULL;
	struct err e = { 0 };
	int status = 0;

	parse_options(argc, argv, &o);
	if (o.help) {
		print_help();
		return stdout_finish() ? EXIT_HOTCELL : 0;
	}
	if (config_load(o.count, o.settings, &c, &e))
		return complain("%s", e.text);
	if (o.print_config) {
		config_print(c, stdout);
		status = stdout_finish() ? EXIT_HOTCELL : 0;
	} else {
		status = serve(c, &o);
	}
	config_free(c);
	return status;
}
