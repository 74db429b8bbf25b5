/* reuse ISOLATION LANGUAGE [count] [once]: a program that runs code again and again in one cell that it made
 * ahead, for test_library.py. Each line of its standard input is "CPU-MS OPEN-FILES SETTING CODE" (a setting
 * of "-" is none, "\n" is a line's end); it answers with the reason, the exit code and the output; first of
 * all with the number of unknown system calls, if that is asked for. With `once` each has a machine of its
 * own. */
#include <hotcell.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void unescape(char *code)
{
	char *at;

	while ((at = strstr(code, "\\n"))) {
		*at = '\n';
		memmove(at + 1, at + 2, strlen(at + 2) + 1);
	}
}

int main(int argc, char **argv)
{
	struct hotcell_request request = { .language = "python" };
	struct hotcell_result *result;
	struct hotcell_error e;
	struct hotcell *h;
	char line[4096];
	char code[4096];
	char setting[64];
	unsigned long long cpu_ms;
	unsigned long long open_files;
	int counts = 0;

	for (int i = 3; i < argc; i++) {
		counts |= strcmp(argv[i], "count") == 0;
		request.machine_ends |= strcmp(argv[i], "once") == 0;
	}
	if (argc > 2)
		request.language = argv[2];
	request.isolation = argc > 1 && strcmp(argv[1], "vm") == 0 ? HOTCELL_ISOLATION_VM :
								     HOTCELL_ISOLATION_CONTAINER;
	if (hotcell_open(NULL, &h, &e) || hotcell_cell_make(h, &request, &request.cell, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		const char *env[] = { setting, NULL };

		if (sscanf(line, "%llu %llu %63s %4095[^\n]", &cpu_ms, &open_files, setting,
			    code) != 4)
			return 2;
		unescape(code);
		request.limits.cpu_ms = cpu_ms;
		request.limits.open_files = open_files;
		request.env = strcmp(setting, "-") == 0 ? NULL : env;
		request.code = code;
		if (hotcell_run(h, &request, &result, &e)) {
			fprintf(stderr, "%s\n", e.text);
			return 1;
		}
		if (counts)
			printf("%llu %s ", (unsigned long long)result->vm.unknown_calls,
				result->vm.missing_call);
		printf("%s %d %s|", hotcell_reason_name(result->reason), result->exit_code,
			result->out.data);
		puts(result->err.data);
		fflush(stdout);
		hotcell_result_free(result);
	}
	hotcell_cell_free(request.cell);
	hotcell_close(h);
	return 0;
}
