/* cli: one file per command; the table is in main.c. */
#ifndef HOTCELL_CLI_CLI_H
#define HOTCELL_CLI_CLI_H

#include "hotcell.h"

enum {
	EXIT_TIMEOUT = 124, /* the run's time was over */
	EXIT_HOTCELL = 125, /* hotcell itself failed */
};

int cmd_run(int argc, char **argv);
int cmd_languages(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_keys(int argc, char **argv);
int cmd_session(int argc, char **argv);
int cmd_files(int argc, char **argv);
int cmd_top(int argc, char **argv);

/* Programs of their own, so that what they link does not slow down `hotcell run`: beside this one, else
 * as installed. argv[0] is the command, and before it the name that we were called by, with which they are found in a list of
 * processes. Returns only if it cannot be started. */
int become(const char *program, char **argv);

/* Prints "hotcell: text" to stderr and returns EXIT_HOTCELL. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* All that was printed has been taken: 0, or -1 with the reason on stderr. */
int stdout_finish(void);

/* For hotcell_options.on_problem: prints it. */
void complain_of_language(void *context, const char *text);

#endif
