/* runs ISOLATION: a program that embeds libhotcell, for test_library.py. For each line "N" on its
 * standard input it runs a small program N times, one after the other, and then says "done". */
#include <hotcell.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_once(struct hotcell *h, enum hotcell_isolation isolation)
{
	const struct hotcell_input input = { .path = "in/put", .data = "hello\n", .data_len = 6 };
	const struct hotcell_request request = {
		.language = "sh",
		.code = "cat in/put >out; cat out; exit 3",
		.inputs = &input,
		.inputs_count = 1,
		.isolation = isolation,
	};
	struct hotcell_result *result;
	struct hotcell_error e;
	int as_wanted;

	if (hotcell_run(h, &request, &result, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return -1;
	}
	as_wanted = result->exit_code == 3 && strcmp(result->out.data, "hello\n") == 0;
	hotcell_result_free(result);
	return as_wanted ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct hotcell *h;
	struct hotcell_error e;
	char line[32];
	enum hotcell_isolation isolation = HOTCELL_ISOLATION_CONTAINER;

	if (argc > 1 && strcmp(argv[1], "process") == 0)
		isolation = HOTCELL_ISOLATION_PROCESS;
	if (argc > 1 && strcmp(argv[1], "vm") == 0)
		isolation = HOTCELL_ISOLATION_VM;
	if (hotcell_open(NULL, &h, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		for (int left = atoi(line); left > 0; left--)
			if (run_once(h, isolation))
				return 1;
		puts("done");
		fflush(stdout);
	}
	hotcell_close(h);
	return 0;
}
