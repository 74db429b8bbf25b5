/* What every program of ours says to people. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int complain(const char *format, ...)
{
	va_list args;

	fputs("hotcell: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_HOTCELL;
}

int stdout_finish(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	complain("write to standard output: %s", strerror(errno));
	return -1;
}
