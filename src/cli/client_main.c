/* hotcell-client: the commands of hotcell that speak to a service. Started by hotcell. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/remote.h"

#include <locale.h>
#include <string.h>

static int cmd_remote_run(int argc, char **argv)
{
	static struct run_options o;
	int status = 0;

	options_parse(&o, argc, argv);
	if (o.code_file && strcmp(o.code_file, "-") == 0)
		status = options_read_code(&o);
	if (!status)
		status = remote_run(&o);
	options_free(&o);
	return status;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "run", cmd_remote_run },
	{ "session", cmd_session },
	{ "files", cmd_files },
	{ "top", cmd_top },
};

int main(int argc, char **argv)
{
	/* How wide letters are; nothing else of what people set. */
	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return complain("this program is started by hotcell");
}
