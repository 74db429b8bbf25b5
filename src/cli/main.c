#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
	const char *program; /* that has it, if it is not this one */
} commands[] = {
	{ "run", cmd_run, "run code in a fresh cell" },
	{ "languages", cmd_languages, "list languages and what of them is installed" },
	{ "serve", NULL, "serve the HTTP API", "hotcell-daemon" },
	{ "keys", NULL, "add, list and revoke keys of the service's clients", "hotcell-daemon" },
	{ "session", NULL, "use sessions of a service", "hotcell-client" },
	{ "files", NULL, "use files that a service keeps", "hotcell-client" },
	{ "top", NULL, "watch a service at work", "hotcell-client" },
	{ "doctor", cmd_doctor, "say which protections hold on this machine" },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

void complain_of_language(void *context, const char *text)
{
	(void)context;
	complain("language left out: %s", text);
}

static void print_help(FILE *to)
{
	fputs("hotcell runs code that somebody else wrote, in a fresh sealed cell.\n\n"
	      "usage: hotcell COMMAND [OPTION...]\n\n",
		to);
	for (int i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].what);
	fputs("\nTry: hotcell run -l python -c 'print(6 * 7)'\n"
	      "     hotcell COMMAND --help\n",
		to);
}

/* A descriptor that is closed would be given to the next file that is opened, and what is printed
 * would go there. */
static void open_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int become(const char *program, char **argv)
{
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 64);
	char *slash;

	if (len > 0) {
		path[len] = '\0';
		slash = strrchr(path, '/');
		strcpy(slash + 1, program);
		execv(path, argv - 1);
	}
	snprintf(path, sizeof(path), "%s/%s", HOTCELL_LIBEXECDIR, program);
	execv(path, argv - 1);
	return complain("start '%s': %s", path, strerror(errno));
}

/* As the first word only: behind others it may be the value of one. */
static int run_command(const struct command *command, int argc, char **argv)
{
	static char help[] = "--help";

	if (argc > 1 && strcmp(argv[1], "-h") == 0)
		argv[1] = help;
	return command->run ? command->run(argc, argv) : become(command->program, argv);
}

int main(int argc, char **argv)
{
	open_standard_descriptors();
	if (argc < 2) {
		print_help(stderr);
		return EXIT_HOTCELL;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return stdout_finish() ? EXIT_HOTCELL : 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("hotcell %s\n", hotcell_version());
		return stdout_finish() ? EXIT_HOTCELL : 0;
	}
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return run_command(&commands[i], argc - 1, argv + 1);
	return complain("unknown command '%s'; 'hotcell --help' lists them", argv[1]);
}
