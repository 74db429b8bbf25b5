/* service [never-waits] [start-warden] [no-kvm]: a program that uses the library as a service does, for
 * test_library_service.py. Each line of its standard input is a command with its words behind it; each is
 * answered by one line or more, and then by "." alone. Cells have numbers, "-" is none. In texts "\n" is a
 * line's end. */
#define _GNU_SOURCE
#include <hotcell.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CELLS = 2000, WORDS = 5, FILES = 64 };

static struct hotcell *h;
static struct hotcell_cell *cells[CELLS];
static pid_t wardens[16];
static int wardens_count;
static char here[4096];

static void say_error(const struct hotcell_error *e)
{
	static const char *const names[] = { "none", "system", "input", "not_found", "unavailable",
		"protocol", "limit", "gone" };

	printf("error %s %s\n", names[e->kind], e->text);
}

/* ---- wardens of our own ---- */

static int start_warden(
	void *context, const char *isolation, int *ret_socket, struct hotcell_error *e)
{
	char program[4200];
	char drivers[4200];
	int ends[2];
	pid_t pid;

	(void)context;
	snprintf(program, sizeof(program), "%s/hotcell-warden", here);
	snprintf(drivers, sizeof(drivers), "%s/../share/hotcell/drivers", here);
	if (wardens_count == 16 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		e->kind = HOTCELL_ERROR_SYSTEM;
		strcpy(e->text, "no more wardens");
		return -1;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 0);
		dup2(0, 1);
		if (ends[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(ends[1], 3);
		execl(program, "hotcell-warden", "--isolation", isolation, "--socket", "3",
			"--drivers", drivers, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	wardens[wardens_count++] = pid;
	*ret_socket = ends[0];
	return 0;
}

static void kill_wardens(void)
{
	for (int i = 0; i < wardens_count; i++) {
		kill(wardens[i], SIGKILL);
		waitpid(wardens[i], NULL, 0);
	}
	wardens_count = 0;
	puts("killed");
}

/* ---- waiting ---- */

static void turn(int timeout_ms)
{
	struct hotcell_error e;

	if (hotcell_dispatch(h, timeout_ms, &e)) {
		say_error(&e);
		exit(1);
	}
}

static struct hotcell_result *wait_for(struct hotcell_work *work)
{
	struct hotcell_result *result = NULL;
	struct hotcell_error e;

	while (!hotcell_done(work))
		turn(-1);
	if (hotcell_finish(work, &result, &e)) {
		say_error(&e);
		return NULL;
	}
	return result;
}

/* ---- what can be asked ---- */

static struct hotcell_cell *cell_of(const char *word)
{
	return strcmp(word, "-") == 0 ? NULL : cells[atoi(word) % CELLS];
}

static enum hotcell_isolation isolation_of(const char *word)
{
	static const char *const names[] = { "auto", "process", "container", "vm" };

	for (int i = 0; i < 4; i++)
		if (strcmp(word, names[i]) == 0)
			return (enum hotcell_isolation)i;
	return HOTCELL_ISOLATION_AUTO;
}

static void say_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\n')
			fputs("\\n", stdout);
		else
			putchar(text[i]);
}

static size_t unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++)
		if (at[0] == '\\' && at[1] == 'n') {
			*to++ = '\n';
			at++;
		} else {
			*to++ = *at;
		}
	*to = '\0';
	return (size_t)(to - text);
}

/* prepare LANGUAGE ISOLATION PROFILE */
static void prepare(char **words)
{
	struct hotcell_request request = {
		.language = words[1],
		.isolation = isolation_of(words[2]),
		.profile = strcmp(words[3], "-") == 0 ? NULL : words[3],
	};
	struct hotcell_preparation *p[2];
	struct hotcell_error e;

	/* Two that want the same: one of them waits for the other. */
	if (hotcell_prepare(h, &request, &p[0], &e) || hotcell_prepare(h, &request, &p[1], &e)) {
		say_error(&e);
		return;
	}
	while (!hotcell_prepare_done(p[0]) || !hotcell_prepare_done(p[1]))
		turn(-1);
	for (int i = 0; i < 2; i++)
		if (hotcell_prepare_finish(p[i], &e))
			say_error(&e);
		else
			puts("prepared");
}

/* give-up LANGUAGE ISOLATION: one that is not done, while another waits for what it makes */
static void give_up(char **words)
{
	struct hotcell_request request = {
		.language = words[1],
		.isolation = isolation_of(words[2]),
	};
	struct hotcell_preparation *p[2];
	struct hotcell_error e;

	if (hotcell_prepare(h, &request, &p[0], &e) || hotcell_prepare(h, &request, &p[1], &e)) {
		say_error(&e);
		return;
	}
	for (int i = 0; i < 3; i++)
		turn(100);
	if (hotcell_prepare_finish(p[0], &e))
		say_error(&e);
	while (!hotcell_prepare_done(p[1]))
		turn(-1);
	if (hotcell_prepare_finish(p[1], &e))
		say_error(&e);
	else
		puts("prepared");
}

/* make CELL LANGUAGE ISOLATION */
static void make(char **words)
{
	struct hotcell_request request = {
		.language = words[2],
		.isolation = isolation_of(words[3]),
		.limits.disk_bytes = strcmp(words[3], "process") == 0 ? 0 : 16 << 20,
	};
	struct hotcell_error e;

	if (hotcell_cell_make(h, &request, &cells[atoi(words[1]) % CELLS], &e))
		say_error(&e);
}

/* state CELL: once it is made, or could not be */
static void state(char **words)
{
	static const char *const names[] = { "making", "ready", "busy", "gone" };
	const struct hotcell_cell *cell = cell_of(words[1]);
	const char *why;

	while (hotcell_cell_state(cell) == HOTCELL_CELL_MAKING)
		turn(-1);
	why = hotcell_cell_failure(cell);
	printf("%s %s %s\n", names[hotcell_cell_state(cell)], hotcell_cell_isolation(cell),
		why ? why : "-");
}

static void say_result(const struct hotcell_result *r)
{
	printf("%s %d %s ", hotcell_reason_name(r->reason), r->exit_code,
		r->warm ? "warm" : "cold");
	say_text(r->out.data, r->out.len);
	putchar('|');
	say_text(r->err.data, r->err.len);
	puts("");
}

struct taken {
	int fds[FILES];
	int count;
};

static int open_file(void *context, const struct hotcell_file *file)
{
	struct taken *t = context;

	if (t->count == FILES)
		return -1;
	t->fds[t->count] = -1;
	if (strcmp(file->kind, "file") == 0 && strncmp(file->path, "unwanted", 8) != 0)
		t->fds[t->count] = strncmp(file->path, "full", 4) == 0 ?
					   open("/dev/full", O_WRONLY | O_CLOEXEC) :
					   memfd_create("taken", MFD_CLOEXEC);
	return t->fds[t->count++];
}

static void say_content(int fd)
{
	char text[8192];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	long size = (long)lseek(fd, 0, SEEK_END);

	printf(" %ld ", size);
	if (n > 0 && size < 100)
		say_text(text, (size_t)n);
}

/* run CELL LANGUAGE ISOLATION CODE; take the same, and take its files; feed the same, with much input */
static void run(char **words, int takes, int feeds)
{
	static char input[3 << 20];
	struct taken taken = { .count = 0 };
	struct hotcell_request request = {
		.cell = cell_of(words[1]),
		.language = words[2],
		.isolation = isolation_of(words[3]),
		.code = words[4],
		.open_file = takes ? open_file : NULL,
		.context = &taken,
		.stdin_data = feeds ? input : NULL,
		.stdin_len = feeds ? sizeof(input) : 0,
	};
	struct hotcell_work *work;
	struct hotcell_result *r;
	struct hotcell_error e;

	unescape(words[4]);
	if (hotcell_start(h, &request, &work, &e)) {
		say_error(&e);
		return;
	}
	r = wait_for(work);
	if (!r)
		return;
	say_result(r);
	for (size_t i = 0; takes && i < r->files_count; i++) {
		printf("%s %s %llu %d %s", r->files[i].path, r->files[i].kind,
			(unsigned long long)r->files[i].size_bytes, r->files[i].generated,
			r->files[i].error ? strerrorname_np(r->files[i].error) : "-");
		if (taken.fds[i] >= 0) {
			say_content(taken.fds[i]);
			close(taken.fds[i]);
		}
		puts("");
	}
	hotcell_result_free(r);
}

static size_t heard;

static void on_output(
	void *context, enum hotcell_stream stream, int compiling, const char *data, size_t len)
{
	(void)context;
	(void)stream;
	(void)compiling;
	(void)data;
	heard += len;
}

/* pause CELL ISOLATION BYTES cancel|late|resume: a program that prints so much, paused at its first words.
 * Tells whether it went on meanwhile, and what came of it. */
static void pause_run(char **words)
{
	char code[200];
	struct hotcell_request request = {
		.cell = cell_of(words[1]),
		.language = "sh",
		.isolation = isolation_of(words[2]),
		.code = code,
		.on_output = on_output,
		.limits.wall_ms = strcmp(words[4], "late") == 0 ? 300 : 20000,
	};
	struct hotcell_work *work;
	struct hotcell_result *r;
	struct hotcell_error e;
	size_t before;

	snprintf(code, sizeof(code), "head -c %d /dev/zero", atoi(words[3]));
	heard = 0;
	if (hotcell_start(h, &request, &work, &e)) {
		say_error(&e);
		return;
	}
	while (!heard && !hotcell_done(work))
		turn(-1);
	hotcell_pause(work, 1);
	before = heard;
	for (int i = 0; i < 20; i++)
		turn(10);
	printf("%s ", heard == before && !hotcell_done(work) ? "waited" : "went on");
	if (strcmp(words[4], "cancel") == 0)
		hotcell_cancel(work);
	else if (strcmp(words[4], "resume") == 0)
		hotcell_pause(work, 0);
	while (!hotcell_done(work))
		turn(-1);
	hotcell_pause(work, 1);
	r = wait_for(work);
	if (!r)
		return;
	printf("%s %s %s\n", hotcell_reason_name(r->reason), heard > before ? "more" : "no more",
		heard == (size_t)atoi(words[3]) ? "all" : "cut");
	hotcell_result_free(r);
}

/* ---- files ---- */

static void serve(struct hotcell_cell *cell, const struct hotcell_files *files, int cancels)
{
	struct hotcell_work *work;
	struct hotcell_result *r;
	struct hotcell_error e;

	if (hotcell_files_start(cell, files, &work, &e)) {
		say_error(&e);
		return;
	}
	if (cancels)
		hotcell_cancel(work);
	r = wait_for(work);
	if (!r)
		return;
	for (size_t i = 0; i < r->files_count; i++) {
		printf("%s %s %llu %s", r->files[i].path, r->files[i].kind,
			(unsigned long long)r->files[i].size_bytes,
			r->files[i].generated ? "new" : "-");
		if (files->kind == HOTCELL_FILES_GET)
			say_content(files->fd);
		puts("");
	}
	if (r->files_incomplete)
		puts("and more");
	hotcell_result_free(r);
}

/* put CELL PATH TEXT; put-host CELL PATH HOST-PATH; put-many CELL PREFIX COUNT SIZE; cancel-put likewise */
static void put_files(char **words, int from_host)
{
	struct hotcell_input input = { .path = words[2] };
	struct hotcell_files files = {
		.kind = HOTCELL_FILES_PUT,
		.inputs = &input,
		.inputs_count = 1,
	};

	if (from_host)
		input.host_path = words[3];
	else
		input.data_len = unescape(words[3]);
	input.data = from_host ? NULL : words[3];
	serve(cell_of(words[1]), &files, 0);
}

static void put_many(char **words, int cancels)
{
	int count = atoi(words[3]);
	struct hotcell_input *inputs = calloc((size_t)count, sizeof(*inputs));
	char(*paths)[64] = calloc((size_t)count, sizeof(*paths));
	size_t size = (size_t)atoi(words[4]);
	char *data = malloc(size + 1);
	struct hotcell_files files = {
		.kind = HOTCELL_FILES_PUT,
		.inputs = inputs,
		.inputs_count = (size_t)count,
	};

	memset(data, 'x', size);
	for (int i = 0; i < count; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s%d", words[2], i);
		inputs[i] =
			(struct hotcell_input){ .path = paths[i], .data = data, .data_len = size };
	}
	serve(cell_of(words[1]), &files, cancels);
	free(inputs);
	free(paths);
	free(data);
}

/* get CELL PATH MAX; cancel-get likewise */
static void get_file(char **words, int cancels)
{
	struct hotcell_files files = {
		.kind = HOTCELL_FILES_GET,
		.path = words[2],
		.fd = strcmp(words[4], "full") == 0 ? open("/dev/full", O_WRONLY | O_CLOEXEC) :
						      memfd_create("got", MFD_CLOEXEC),
		.max_size = (uint64_t)atoll(words[3]),
	};

	serve(cell_of(words[1]), &files, cancels);
	close(files.fd);
}

static void other_files(char **words, enum hotcell_files_kind kind)
{
	struct hotcell_files files = { .kind = kind, .path = words[2] };

	serve(cell_of(words[1]), &files, 0);
}

static void say_list(const char *name, const char *const *list)
{
	printf(" %s", name);
	for (; *list; list++)
		printf(" %s", *list);
}

static void say_language(const struct hotcell_language *l, int detailed)
{
	printf("%s %s", l->id, l->version ? l->version : "-");
	if (detailed) {
		printf("%s%s%s%s", l->installed ? " installed" : "", l->vm ? " vm" : "",
			l->compiles ? " compiles" : "", l->keeps_state ? " keeps-state" : "");
		say_list("profiles", l->profiles);
		say_list("aliases", l->aliases);
		say_list("extensions", l->extensions);
	}
	puts("");
}

static void languages(int detailed)
{
	struct hotcell_language *all;
	size_t count;
	struct hotcell_error e;

	if (hotcell_languages(h, &all, &count, &e)) {
		say_error(&e);
		return;
	}
	for (size_t i = 0; i < count; i++)
		say_language(&all[i], detailed);
	hotcell_languages_free(all, count);
}

static void obey(char **words)
{
	const char *command = words[0];

	if (strcmp(command, "prepare") == 0)
		prepare(words);
	else if (strcmp(command, "give-up") == 0)
		give_up(words);
	else if (strcmp(command, "make") == 0)
		make(words);
	else if (strcmp(command, "free") == 0)
		hotcell_cell_free(cell_of(words[1]));
	else if (strcmp(command, "state") == 0)
		state(words);
	else if (strcmp(command, "run") == 0)
		run(words, 0, 0);
	else if (strcmp(command, "feed") == 0)
		run(words, 0, 1);
	else if (strcmp(command, "take") == 0)
		run(words, 1, 0);
	else if (strcmp(command, "pause") == 0)
		pause_run(words);
	else if (strcmp(command, "put") == 0)
		put_files(words, 0);
	else if (strcmp(command, "put-host") == 0)
		put_files(words, 1);
	else if (strcmp(command, "put-many") == 0)
		put_many(words, 0);
	else if (strcmp(command, "cancel-put") == 0)
		put_many(words, 1);
	else if (strcmp(command, "get") == 0)
		get_file(words, 0);
	else if (strcmp(command, "cancel-get") == 0)
		get_file(words, 1);
	else if (strcmp(command, "list") == 0)
		other_files(words, HOTCELL_FILES_LIST);
	else if (strcmp(command, "remove") == 0)
		other_files(words, HOTCELL_FILES_REMOVE);
	else if (strcmp(command, "languages") == 0)
		languages(strcmp(words[1], "all") == 0);
	else if (strcmp(command, "turn") == 0)
		turn(1000);
	else if (strcmp(command, "well") == 0)
		puts(hotcell_is_well(h) ? "yes" : "no");
	else if (strcmp(command, "kill-wardens") == 0)
		kill_wardens();
	else
		puts("error unknown command");
}

int main(int argc, char **argv)
{
	struct hotcell_options options = { .cache_dir = "", .has_kvm = 1 };
	struct hotcell_error e;
	char *line = NULL;
	size_t size = 0;
	ssize_t len = readlink("/proc/self/exe", here, sizeof(here) - 1);

	*strrchr(here, '/') = '\0';
	for (int i = 1; i < argc && len > 0; i++) {
		if (strcmp(argv[i], "never-waits") == 0)
			options.never_waits = 1;
		if (strcmp(argv[i], "start-warden") == 0)
			options.start_warden = start_warden;
		if (strcmp(argv[i], "no-kvm") == 0)
			options.has_kvm = 0;
	}
	if (hotcell_open(&options, &h, &e)) {
		say_error(&e);
		return 1;
	}
	while ((len = getline(&line, &size, stdin)) > 0) {
		char *words[WORDS + 1] = { NULL };
		char *at = line;

		line[len - 1] = '\0';
		/* The last word is the rest of the line. */
		for (int i = 0; i < WORDS && at; i++)
			words[i] = i == WORDS - 1 ? at : strsep(&at, " ");
		for (int i = 0; i < WORDS; i++)
			if (!words[i])
				words[i] = line + len - 1;
		obey(words);
		puts(".");
		fflush(stdout);
	}
	hotcell_close(h);
	free(line);
	return 0;
}
