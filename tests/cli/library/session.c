/* session: a program that runs code as it is told, line by line, and answers with a line of JSON for each
 * run; for the tests of cells that were made before. A line is a word, and a value in which "\n", "\\" and "\0"
 * mean what they do in C:
 *
 *	language NAME · isolation NAME · code TEXT · stdin TEXT · arg TEXT · env NAME=VALUE · file PATH TEXT
 *	profile NAME · keep 0|1 · cold 0|1 · last_line 0|1 · once 0|1
 *	wall_ms N · cpu_ms N · memory N · processes N · open_files N · file_bytes N · output_bytes N · max_output N
 *	make           a cell like this, in place of the one before; `unmake`: none
 *	ready          waits until that is ready
 *	sleep MS       lets time pass
 *	interrupt MS, cancel MS   so long after the next run's beginning; interrupt_at TEXT, cancel_at TEXT: when
 *	               the next run has printed that
 *	run            answers; what was said of stdin, arg, env, file and code is forgotten then
 */
#include <hotcell.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIST_MAX = 64, LINE_MAX_BYTES = 1 << 20 };

static struct hotcell *h;
static struct hotcell_request q = { .language = "python" };
static struct hotcell_work *work;
static char *words[LIST_MAX]; /* of arguments, then of variables */
static const char *args[LIST_MAX];
static const char *env[LIST_MAX];
static struct hotcell_input files[LIST_MAX];
static int args_count, env_count, files_count;
static char *interrupt_at, *cancel_at;
static long interrupt_ms = -1, cancel_ms = -1;
static char seen[4096];

static void must(int failed, const struct hotcell_error *e)
{
	if (!failed)
		return;
	fprintf(stderr, "%s\n", e->text);
	exit(1);
}

static size_t unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		if (*at != '\\') {
			*to++ = *at;
			continue;
		}
		at++;
		*to++ = *at == 'n' ? '\n' : *at == '0' ? '\0' : *at;
	}
	*to = '\0';
	return (size_t)(to - text);
}

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static long now_ms(void)
{
	return now_us() / 1000;
}

static void print_bytes(const char *name, const struct hotcell_bytes *b)
{
	printf(", \"%s\": \"", name);
	for (size_t i = 0; i < b->len; i++) {
		unsigned char c = (unsigned char)b->data[i];

		if (c < 0x20 || c == '"' || c == '\\' || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void answer(const struct hotcell_result *r, long took_us)
{
	static const char *const states[] = { "none", "kept", "lost" };

	printf("{\"reason\": \"%s\", \"code\": %d, \"warm\": %d, \"state\": \"%s\", \"isolation\": \"%s\"",
		hotcell_reason_name(r->reason), r->exit_code, r->warm, states[r->state],
		r->isolation);
	printf(", \"took_us\": %ld", took_us);
	printf(", \"cpu_us\": %llu, \"duration_us\": %llu, \"truncated\": %d, \"memory\": %llu",
		(unsigned long long)r->usage.cpu_us, (unsigned long long)r->duration_us,
		r->out.truncated, (unsigned long long)r->usage.peak_memory_bytes);
	print_bytes("out", &r->out);
	print_bytes("err", &r->err);
	printf(", \"files\": [");
	for (size_t i = 0; i < r->files_count; i++)
		printf("%s\"%s\"", i ? ", " : "", r->files[i].path);
	puts("]}");
	fflush(stdout);
}

static void on_output(
	void *context, enum hotcell_stream stream, int compiling, const char *data, size_t len)
{
	size_t room = sizeof(seen) - 1 - strlen(seen);

	(void)context;
	(void)stream;
	(void)compiling;
	strncat(seen, data, len < room ? len : room);
}

static void forget(void)
{
	for (int i = 0; i < LIST_MAX; i++)
		free(words[i]);
	memset(words, 0, sizeof(words));
	free((void *)(uintptr_t)q.code);
	free((void *)(uintptr_t)q.stdin_data);
	for (int i = 0; i < files_count; i++) {
		free((void *)(uintptr_t)files[i].path);
		free((void *)(uintptr_t)files[i].data);
	}
	free(interrupt_at);
	free(cancel_at);
	interrupt_at = cancel_at = NULL;
	q.code = NULL;
	q.stdin_data = NULL;
	args_count = env_count = files_count = 0;
	interrupt_ms = cancel_ms = -1;
}

/* Whether it is time, or it has printed that; once. */
static int is_due(long *ms, char **text, long begun)
{
	int due = (*ms >= 0 && now_ms() - begun >= *ms) || (*text && strstr(seen, *text));

	if (due) {
		free(*text);
		*text = NULL;
		*ms = -1;
	}
	return due;
}

static void run(void)
{
	struct hotcell_result *result;
	struct hotcell_error e;
	long begun_us = now_us();
	long begun = begun_us / 1000;

	args[args_count] = env[env_count] = NULL;
	q.args = args;
	q.env = env;
	q.inputs = files;
	q.inputs_count = (size_t)files_count;
	q.on_output = interrupt_at || cancel_at ? on_output : NULL;
	seen[0] = '\0';
	if (hotcell_start(h, &q, &work, &e) == 0) {
		while (!hotcell_done(work)) {
			must(hotcell_dispatch(h,
				     interrupt_at || cancel_at || interrupt_ms >= 0 ||
						     cancel_ms >= 0 ?
					     2 :
					     -1,
				     &e),
				&e);
			if (is_due(&interrupt_ms, &interrupt_at, begun))
				hotcell_interrupt(work);
			if (is_due(&cancel_ms, &cancel_at, begun))
				hotcell_cancel(work);
		}
		if (hotcell_finish(work, &result, &e) == 0) {
			answer(result, now_us() - begun_us);
			hotcell_result_free(result);
			forget();
			return;
		}
	}
	printf("{\"error\": \"%s\"}\n", e.text);
	fflush(stdout);
	forget();
}

static void set(const char *word, char *value)
{
	static const struct {
		const char *word;
		uint64_t *to;
	} numbers[] = {
		{ "wall_ms", &q.limits.wall_ms },
		{ "cpu_ms", &q.limits.cpu_ms },
		{ "memory", &q.limits.memory_bytes },
		{ "processes", &q.limits.processes },
		{ "open_files", &q.limits.open_files },
		{ "file_bytes", &q.limits.file_bytes },
		{ "output_bytes", &q.limits.output_bytes },
		{ "max_output", &q.max_output },
	};
	static const struct {
		const char *word;
		int *to;
	} flags[] = {
		{ "keep", &q.keep },
		{ "cold", &q.cold },
		{ "last_line", &q.last_line },
		{ "once", &q.machine_ends },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(word, numbers[i].word) == 0) {
			*numbers[i].to = strtoull(value, NULL, 10);
			return;
		}
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strcmp(word, flags[i].word) == 0) {
			*flags[i].to = atoi(value);
			return;
		}
	fprintf(stderr, "what is '%s'?\n", word);
	exit(2);
}

static void make(void)
{
	struct hotcell_error e;

	hotcell_cell_free(q.cell);
	q.cell = NULL;
	must(hotcell_cell_make(h, &q, &q.cell, &e), &e);
}

static void pass(long ms)
{
	struct hotcell_error e;
	long until = now_ms() + ms;

	while (now_ms() < until)
		must(hotcell_dispatch(h, (int)(until - now_ms()), &e), &e);
}

static void wait_until_ready(void)
{
	struct hotcell_error e;

	while (hotcell_cell_state(q.cell) == HOTCELL_CELL_MAKING)
		must(hotcell_dispatch(h, -1, &e), &e);
}

static char *copy(const char *value, size_t len)
{
	char *made = malloc(len + 1);

	memcpy(made, value, len + 1);
	return made;
}

static void add_file(char *value)
{
	char *text = strchr(value, ' ');
	size_t len;

	*text++ = '\0';
	len = unescape(text);
	files[files_count++] = (struct hotcell_input){
		.path = copy(value, strlen(value)), .data = copy(text, len), .data_len = len
	};
}

static void take(const char *word, char *value)
{
	static char language[64];
	size_t len = strcmp(word, "file") == 0 ? 0 : unescape(value);

	if (strcmp(word, "language") == 0)
		q.language = strncpy(language, value, sizeof(language) - 1);
	else if (strcmp(word, "isolation") == 0)
		q.isolation = strcmp(value, "vm") == 0      ? HOTCELL_ISOLATION_VM :
			      strcmp(value, "process") == 0 ? HOTCELL_ISOLATION_PROCESS :
							      HOTCELL_ISOLATION_CONTAINER;
	else if (strcmp(word, "profile") == 0)
		q.profile = *value ? copy(value, len) : NULL;
	else if (strcmp(word, "code") == 0) {
		q.code = copy(value, len);
		q.code_len = len;
	} else if (strcmp(word, "stdin") == 0) {
		q.stdin_data = copy(value, len);
		q.stdin_len = len;
	} else if (strcmp(word, "arg") == 0)
		args[args_count] = words[args_count] = copy(value, len), args_count++;
	else if (strcmp(word, "env") == 0)
		env[env_count] = words[LIST_MAX / 2 + env_count] = copy(value, len), env_count++;
	else if (strcmp(word, "file") == 0)
		add_file(value);
	else if (strcmp(word, "interrupt_at") == 0)
		interrupt_at = copy(value, len);
	else if (strcmp(word, "cancel_at") == 0)
		cancel_at = copy(value, len);
	else if (strcmp(word, "interrupt") == 0)
		interrupt_ms = atol(value);
	else if (strcmp(word, "cancel") == 0)
		cancel_ms = atol(value);
	else if (strcmp(word, "sleep") == 0)
		pass(atol(value));
	else
		set(word, value);
}

int main(void)
{
	static char line[LINE_MAX_BYTES];
	struct hotcell_error e;

	must(hotcell_open(NULL, &h, &e), &e);
	while (fgets(line, sizeof(line), stdin)) {
		char *value;

		line[strcspn(line, "\n")] = '\0';
		value = strchr(line, ' ');
		if (value)
			*value++ = '\0';
		if (strcmp(line, "run") == 0)
			run();
		else if (strcmp(line, "make") == 0)
			make();
		else if (strcmp(line, "ready") == 0)
			wait_until_ready();
		else if (strcmp(line, "unmake") == 0) {
			hotcell_cell_free(q.cell);
			q.cell = NULL;
		} else if (value)
			take(line, value);
	}
	forget();
	hotcell_cell_free(q.cell);
	hotcell_close(h);
	return 0;
}
