/* mounts ISOLATION DIR... [-- DIR...]: a program whose runs have mounts, for test_mounts.py. The first directories
 * are those that its engine allows; the ones behind "--" are given to wardens that it starts itself: the two
 * differ if the engine was taken over. Each line of its standard input is one of
 *
 *	mounts SOURCE NAME SOURCE NAME …   what runs and cells have from here on; a name of "-" is none
 *	make                               a cell, in which runs are from here on
 *	free                               it is no more
 *	run CODE                           in sh
 *
 * and is answered by one line: how a run ended and what it printed, "ok", or "error" and why. */
#include <hotcell.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char **warden_dirs; /* NULL: the engine starts its wardens */
static char warden_path[4096];

static int start_warden(
	void *context, const char *isolation, int *ret_socket, struct hotcell_error *e)
{
	char *argv[64] = { "hotcell-warden", "--isolation", (char *)isolation, "--socket", "3" };
	int argc = 5;
	int ends[2];

	(void)context;
	(void)e;
	for (char **at = warden_dirs; *at && argc < 60; at++) {
		argv[argc++] = "--mount";
		argv[argc++] = *at;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	if (fork() == 0) {
		if (ends[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(ends[1], 3);
		execv(warden_path, argv);
		_exit(127);
	}
	close(ends[1]);
	*ret_socket = ends[0];
	return 0;
}

static void print_line(const char *text)
{
	for (; *text; text++)
		*text == '\n' ? fputs("\\n", stdout) : putchar(*text);
}

static int complain(const struct hotcell_error *e)
{
	printf("error %d ", e->kind);
	print_line(e->text);
	return 0;
}

static void run(struct hotcell *h, const struct hotcell_request *request)
{
	struct hotcell_result *result;
	struct hotcell_error e;

	if (hotcell_run(h, request, &result, &e)) {
		complain(&e);
		return;
	}
	printf("%s %d ", hotcell_reason_name(result->reason), result->exit_code);
	print_line(result->out.data);
	putchar('|');
	print_line(result->err.data);
	print_line(result->reason_text);
	hotcell_result_free(result);
}

static size_t read_mounts(char *words, struct hotcell_mount *mounts, size_t most)
{
	size_t count = 0;

	for (char *source = strtok(words, " "); source && count < most;
		source = strtok(NULL, " ")) {
		char *name = strtok(NULL, " ");

		mounts[count].source = source;
		mounts[count++].name = name && strcmp(name, "-") != 0 ? name : NULL;
	}
	return count;
}

static void answer(struct hotcell *h, struct hotcell_request *request, char *line)
{
	static struct hotcell_mount mounts[32];
	static char words[1 << 16];
	struct hotcell_error e;

	if (strncmp(line, "mounts", 6) == 0) {
		snprintf(words, sizeof(words), "%s", line + 6);
		request->mounts = mounts;
		request->mounts_count = read_mounts(words, mounts, 32);
		printf("ok");
	} else if (strcmp(line, "make") == 0) {
		hotcell_cell_make(h, request, &request->cell, &e) ? complain(&e) : printf("ok");
	} else if (strcmp(line, "free") == 0) {
		hotcell_cell_free(request->cell);
		request->cell = NULL;
		printf("ok");
	} else {
		request->code = line + 4;
		run(h, request);
	}
	putchar('\n');
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct hotcell_request request = { .language = "sh", .cold = 1 };
	struct hotcell_options options = { .mount_dirs = (const char *const *)argv + 2 };
	struct hotcell_error e;
	struct hotcell *h;
	static char line[1 << 16];
	ssize_t len = readlink("/proc/self/exe", warden_path, sizeof(warden_path) - 32);

	if (len <= 0 || argc < 2)
		return 2;
	strcpy(strrchr(warden_path, '/') + 1, "hotcell-warden");
	request.isolation = strcmp(argv[1], "vm") == 0      ? HOTCELL_ISOLATION_VM :
			    strcmp(argv[1], "process") == 0 ? HOTCELL_ISOLATION_PROCESS :
							      HOTCELL_ISOLATION_CONTAINER;
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], "--") == 0) {
			argv[i] = NULL;
			warden_dirs = argv + i + 1;
			options.start_warden = start_warden;
			options.has_kvm = 1;
			break;
		}
	if (hotcell_open(&options, &h, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		answer(h, &request, line);
	}
	hotcell_cell_free(request.cell);
	hotcell_close(h);
	return 0;
}
