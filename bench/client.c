/* The clock of the benchmarks. Runs the lines of a plan, in turn and many times, and prints one
 * line for each measurement. It is in C, and does little, so that what it measures is the
 * contender and not the clock.
 *
 *	client WARDEN SHARE PLAN latency ROUNDS SECONDS     latency ID NANOSECONDS
 *	client WARDEN SHARE PLAN rate REPEATS MILLISECONDS  rate ID PARALLEL RUNS NANOSECONDS
 *	client WARDEN SHARE PLAN count                      reads numbers; runs line 1 so often; done
 *	client WARDEN SHARE PLAN idle CELLS                 has so many cells for line 1; says "idle";
 *	                                                    on a line of input runs it in each; done
 *
 * A run that does not print what it should gives "failed ID why" instead.
 *
 * A line of the plan, fields divided by tabs:
 *	ID EVERY WANT exec NAMESPACE PROGRAM ARGUMENT…      a program; NAMESPACE "-" or a mnt file
 *	ID EVERY WANT server SOCKET CODE                    a fork server
 *	ID EVERY WANT echo - MICROSECONDS                   a process that is there, computes so long and answers
 *	ID EVERY WANT library ISOLATION LANGUAGE CODE       hotcell_run() with a cell of its own
 *	ID EVERY WANT ahead ISOLATION LANGUAGE CODE         the same in a cell that was made before
 *	ID EVERY WANT warm ISOLATION LANGUAGE CODE          the same in one cell for all
 * EVERY = 3 takes part in each third round only; it is for those that would take all the time. */
#define _GNU_SOURCE
#include "hotcell.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LINES_MAX = 256,
	FIELDS_MAX = 96,
	OUT_MAX = 4096,
	PARALLEL_MAX = 2,
	PAUSE_US = 2000,
	TURN_PAUSE_US = 30000, /* what a container leaves takes the kernel a while */
	TURN = 10,             /* runs in a row, for those that take part in every round */
	/* For those that serve again and again, as long as it takes no longer. Of fewer, the 99th of a hundred is just the
	 * first of each turn, which finds its caches full of what the others left. */
	TURN_QUICK = 200,
	TURN_QUICK_MS = 700,
	READY_US = 250000, /* cells that were made ahead are there, and have rehearsed */
	RING = 8,          /* cells that serve again, for each work at a time */
	RUN_UP_MS = 400,   /* of a rate: cells are made; it does not count */
	RUN_UP_TURNS =
		2, /* nor do these of each cell that takes turns: from its third machine on all are made alike */
};

struct line;

struct kind {
	const char *name;
	/* Runs it once: the time it took, or -1 after telling why. */
	long long (*run)(struct line *line);
	bool in_engine;
	bool serves_again;
};

struct line {
	const struct kind *kind;
	const char *id;
	unsigned every;
	const char *want;
	char *fields[FIELDS_MAX]; /* what follows the kind; ends with NULL */
	int namespace_fd;
	int echo_fd;
	struct hotcell_request request;
	struct hotcell_cell *cell;       /* warm: serves all runs */
	struct hotcell_cell *pool[TURN]; /* ahead: wait for the next turn */
	unsigned used;                   /* of those */
};

static struct line lines[LINES_MAX];
static unsigned lines_count;
static struct hotcell *engine;

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "client: %s: %s\n", what, why);
	exit(2);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static long long failed(const struct line *line, const char *why)
{
	char text[200];

	snprintf(text, sizeof(text), "%s", why);
	for (char *c = text; *c; c++)
		if (*c == '\n')
			*c = ' ';
	printf("failed %s %s\n", line->id, text);
	fflush(stdout);
	return -1;
}

/* ---- programs and fork servers ---- */

static size_t read_to_end(int fd, char *text)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, OUT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return len;
}

/* Some peers want a name for each run: the argument "{name}" becomes one. */
static char **with_name(const struct line *line, char *name, size_t size, char **argv)
{
	static unsigned number;
	unsigned i;

	for (i = 0; line->fields[i + 1]; i++)
		argv[i] = strcmp(line->fields[i + 1], "{name}") == 0 ? name : line->fields[i + 1];
	argv[i] = NULL;
	snprintf(name, size, "bench-%ld-%u", (long)getpid(), number++);
	return argv;
}

/* In the child, which shares our memory until it is another program. */
static void become(const struct line *line, char **argv, int out_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (line->namespace_fd >= 0 && setns(line->namespace_fd, CLONE_NEWNS))
		return;
	if (chdir("/") || dup2(null, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(null, 2) < 0)
		return;
	execv(argv[0], argv);
}

static long long run_exec(struct line *line)
{
	char *argv_space[FIELDS_MAX];
	char name[64];
	char **argv = with_name(line, name, sizeof(name), argv_space);
	char text[OUT_MAX];
	long long start = now_ns();
	int ends[2];
	int status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return failed(line, "pipe");
	pid = vfork();
	if (pid == 0) {
		become(line, argv, ends[1]);
		_exit(127);
	}
	close(ends[1]);
	read_to_end(ends[0], text);
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return failed(line, "it ended badly");
	start = now_ns() - start;
	return strcmp(text, line->want) ? failed(line, text) : start;
}

/* The code goes there, what it prints comes back; the end of the run is the end of the stream. */
static long long run_server(struct line *line)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char text[OUT_MAX];
	long long start = now_ns();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *code = line->fields[1];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", line->fields[0]);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
		write(fd, code, strlen(code)) != (ssize_t)strlen(code)) {
		close(fd);
		return failed(line, "the fork server does not answer");
	}
	read_to_end(fd, text);
	close(fd);
	start = now_ns() - start;
	return strcmp(text, line->want) ? failed(line, text) : start;
}

/* ---- what the machine itself takes ---- */

static void compute(unsigned long long steps)
{
	volatile unsigned long long step = 0;

	while (step < steps)
		step++;
}

/* How many steps take that long, when nobody comes between. */
static unsigned long long steps_for(long long wanted_ns)
{
	enum { TRIES = 50, STEPS = 100000 };
	long long best = 0;

	for (int i = 0; i < TRIES; i++) {
		long long begin = now_ns();
		long long took;

		compute(STEPS);
		took = now_ns() - begin;
		if (!best || took < best)
			best = took;
	}
	return (unsigned long long)(STEPS * wanted_ns / best);
}

/* Of all that the client has open it keeps nothing: others wait for the end of that. */
static _Noreturn void echo(int fd, long long ns)
{
	unsigned long long steps = steps_for(ns);
	char byte;

	if (dup2(fd, 0) < 0 || close_range(1, ~0U, 0))
		_exit(1);
	while (read(0, &byte, 1) == 1) {
		compute(steps);
		if (write(0, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

/* Nothing that runs code elsewhere can do with less: what this takes beyond its time is the machine's, not ours. */
static long long run_echo(struct line *line)
{
	int ends[2];
	char byte = 0;
	long long start;

	if (!line->echo_fd) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
			return failed(line, "socketpair");
		if (fork() == 0)
			echo(ends[1], atoll(line->fields[1]) * 1000);
		close(ends[1]);
		line->echo_fd = ends[0];
	}
	start = now_ns();
	if (write(line->echo_fd, &byte, 1) != 1 || read(line->echo_fd, &byte, 1) != 1)
		return failed(line, "it does not answer");
	return now_ns() - start;
}

/* ---- the library ---- */

static bool check_result(const struct line *line, struct hotcell_result *result)
{
	bool good = result->reason == HOTCELL_EXITED && result->exit_code == 0 &&
		    strcmp(result->out.data, line->want) == 0;

	if (!good)
		failed(line, result->err.len ? result->err.data : result->out.data);
	hotcell_result_free(result);
	return good;
}

static long long run_library(struct line *line)
{
	struct hotcell_result *result;
	struct hotcell_error e;
	long long start = now_ns();

	if (hotcell_run(engine, &line->request, &result, &e))
		return failed(line, e.text);
	start = now_ns() - start;
	return check_result(line, result) ? start : -1;
}

static struct hotcell_cell *make_cell(const struct line *line)
{
	struct hotcell_cell *cell;
	struct hotcell_error e;

	if (hotcell_cell_make(engine, &line->request, &cell, &e) == 0)
		return cell;
	failed(line, e.text);
	return NULL;
}

/* One cell for all runs: it is put back to what it was after each. */
static long long run_warm(struct line *line)
{
	long long took;

	if (!line->cell)
		line->cell = make_cell(line);
	if (!line->cell)
		return -1;
	line->request.cell = line->cell;
	took = run_library(line);
	line->request.cell = NULL;
	return took;
}

/* Each cell of the pool serves one run. */
static long long run_ahead(struct line *line)
{
	long long took;

	if (!line->pool[line->used])
		return -1;
	line->request.cell = line->pool[line->used];
	took = run_library(line);
	line->request.cell = NULL;
	hotcell_cell_free(line->pool[line->used]);
	line->pool[line->used++] = NULL;
	return took;
}

/* Before its turn, and not during it: what is measured is a run that finds its pool ready. */
static void fill_pool(struct line *line)
{
	if (line->kind->run != run_ahead)
		return;
	line->request.cell_ends = 1;
	for (unsigned i = 0; i < TURN; i++)
		if (!line->pool[i])
			line->pool[i] = make_cell(line);
	line->used = 0;
	pause_us(READY_US);
}

static const struct kind kinds[] = {
	{ "exec", run_exec, false, false },
	{ "server", run_server, false, false },
	{ "echo", run_echo, false, true },
	{ "library", run_library, true, false },
	{ "ahead", run_ahead, true, false },
	{ "warm", run_warm, true, true },
};

/* ---- the plan ---- */

static char *unescape(char *text)
{
	char *to = text;

	for (char *from = text; *from; from++)
		if (from[0] == '\\' && from[1] == 'n')
			*to++ = '\n', from++;
		else
			*to++ = *from;
	*to = '\0';
	return text;
}

static void prepare(struct line *line)
{
	char **f = line->fields;

	line->namespace_fd = -1;
	if (line->kind->run == run_exec && strcmp(f[0], "-") != 0) {
		line->namespace_fd = open(f[0], O_RDONLY | O_CLOEXEC);
		if (line->namespace_fd < 0)
			die(f[0], strerror(errno));
	}
	if (line->kind->in_engine)
		line->request = (struct hotcell_request){
			.isolation = strcmp(f[0], "process") == 0 ? HOTCELL_ISOLATION_PROCESS :
				     strcmp(f[0], "vm") == 0      ? HOTCELL_ISOLATION_VM :
								    HOTCELL_ISOLATION_CONTAINER,
			.language = f[1],
			.code = f[2],
		};
}

static void read_line(char *text)
{
	struct line *line = &lines[lines_count++];
	char *fields[FIELDS_MAX + 4] = { 0 };
	unsigned count = 0;

	text[strcspn(text, "\n")] = '\0';
	for (char *field; count < FIELDS_MAX && (field = strsep(&text, "\t"));)
		fields[count++] = field;
	if (count < 6 || lines_count == LINES_MAX)
		die("plan", "a line has too few fields, or there are too many lines");
	line->id = fields[0];
	line->every = (unsigned)atoi(fields[1]);
	line->want = unescape(fields[2]);
	for (unsigned i = 4; i < count; i++)
		unescape(fields[i]);
	memcpy(line->fields, fields + 4, sizeof(line->fields));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(fields[3], kinds[i].name) == 0)
			line->kind = &kinds[i];
	if (!line->kind || line->every == 0)
		die("plan", fields[3]);
	prepare(line);
}

static void read_plan(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		die(path, strerror(errno));
	for (;;) {
		char *text = NULL; /* the lines keep pointing into it */
		size_t size = 0;

		if (getline(&text, &size, file) < 0) {
			free(text);
			break;
		}
		read_line(text);
	}
	fclose(file);
}

static void open_engine(const char *warden, const char *share)
{
	struct hotcell_options options = { .warden_path = warden, .share_dir = share };
	struct hotcell_error e;

	for (unsigned i = 0; i < lines_count && !engine; i++)
		if (lines[i].kind->in_engine && hotcell_open(&options, &engine, &e))
			die("hotcell_open", e.text);
}

static void close_engine(void)
{
	for (unsigned i = 0; i < lines_count; i++)
		if (lines[i].cell)
			hotcell_cell_free(lines[i].cell);
	hotcell_close(engine);
}

/* A new order each time, so that nobody always comes behind the same neighbour. The same orders in
 * each run of the program. */
static void shuffle(unsigned *order)
{
	static unsigned long long state = 88172645463325252ULL;

	for (unsigned i = 0; i < lines_count; i++)
		order[i] = i;
	for (unsigned i = lines_count; i > 1; i--) {
		unsigned other;
		unsigned swap = order[i - 1];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		other = (unsigned)(state % i);
		order[i - 1] = order[other];
		order[other] = swap;
	}
}

/* ---- how long one takes ---- */

static bool is_turn_over(const struct line *line, unsigned runs, long long begun)
{
	if (line->every != 1)
		return runs == 1;
	if (!line->kind->serves_again || now_ns() - begun > TURN_QUICK_MS * 1000000LL)
		return runs >= TURN;
	return runs == TURN_QUICK;
}

static void measure_latency(unsigned rounds, unsigned seconds)
{
	long long end = now_ns() + seconds * 1000000000LL;
	unsigned order[LINES_MAX] = { 0 };

	/* Round 0 warms up: caches, the template, the cells made ahead. */
	for (unsigned round = 0; round <= rounds && now_ns() < end; round++) {
		shuffle(order);
		for (unsigned i = 0; i < lines_count; i++) {
			struct line *line = &lines[order[i]];
			long long begun;

			/* Round 1 has all of them, so that none is left without a figure. */
			if (round && (round - 1) % line->every)
				continue;
			pause_us(TURN_PAUSE_US);
			fill_pool(line);
			begun = now_ns();
			for (unsigned run = 0; !is_turn_over(line, run, begun); run++) {
				long long took = line->kind->run(line);

				if (took >= 0 && round)
					printf("latency %s %lld\n", line->id, took);
				/* What it left to be cleared up is not the next one's burden. */
				pause_us(PAUSE_US);
			}
		}
		fflush(stdout);
	}
}

/* ---- how many there are in a second ---- */

/* What counts of a rate. */
struct slice {
	long long begin;
	long long length;
	long long end;
};

static struct slice slice_from(long long begin, long long length)
{
	return (struct slice){ begin, length, begin + length };
}

static unsigned work_in_processes(struct line *line, unsigned parallel, struct slice *slice)
{
	unsigned *done = mmap(NULL, PARALLEL_MAX * sizeof(*done), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[PARALLEL_MAX];
	unsigned sum = 0;

	for (unsigned i = 0; i < parallel; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			while (now_ns() < slice->end) {
				bool is_good = line->kind->run(line) >= 0;

				done[i] += is_good && now_ns() >= slice->begin;
			}
			_exit(0);
		}
	}
	for (unsigned i = 0; i < parallel; i++) {
		waitpid(pids[i], NULL, 0);
		sum += done[i];
	}
	slice->end = now_ns();
	munmap(done, PARALLEL_MAX * sizeof(*done));
	return sum;
}

struct slot {
	struct hotcell_request request; /* must stay while the work goes on */
	struct hotcell_work *work;
	struct hotcell_cell *next; /* ahead: is being made meanwhile */
	/* Likewise, where cells serve again: they take turns, and meanwhile each gets another machine ready. That takes
	 * longer than a run, mostly because the kernel waits while a machine ends and while it begins. */
	struct hotcell_cell *ring[RING];
	unsigned turn;
};

static struct hotcell_cell *next_of_ring(struct line *line, struct slot *slot)
{
	struct hotcell_cell **cell = &slot->ring[slot->turn++ % RING];

	if (!*cell)
		*cell = make_cell(line);
	return *cell;
}

static bool slot_start(struct line *line, struct slot *slot)
{
	struct hotcell_error e;

	slot->request = line->request;
	if (line->kind->run == run_warm) {
		slot->next = slot->next ? slot->next : make_cell(line);
		slot->request.cell = slot->next;
	}
	if (line->kind->run == run_ahead && line->request.isolation == HOTCELL_ISOLATION_VM) {
		line->request.machine_ends = 1;
		slot->request.cell = next_of_ring(line, slot);
		slot->request.machine_ends = 1;
		slot->request.cell_ends = 0;
	} else if (line->kind->run == run_ahead) {
		slot->request.cell = slot->next ? slot->next : make_cell(line);
		slot->next = make_cell(line);
	}
	if (hotcell_start(engine, &slot->request, &slot->work, &e) == 0)
		return true;
	failed(line, e.text);
	slot->work = NULL;
	return false;
}

static bool slot_finish(struct line *line, struct slot *slot)
{
	struct hotcell_result *result;
	struct hotcell_error e;
	bool good = false;

	if (hotcell_finish(slot->work, &result, &e))
		failed(line, e.text);
	else
		good = check_result(line, result);
	slot->work = NULL;
	if (slot->request.cell && slot->request.cell != slot->next && !slot->turn)
		hotcell_cell_free(slot->request.cell);
	slot->request.cell = NULL;
	return good;
}

static bool is_running_up(const struct slot *slots, unsigned parallel)
{
	for (unsigned i = 0; i < parallel; i++)
		if (slots[i].ring[0] && slots[i].turn < RUN_UP_TURNS * RING)
			return true;
	return false;
}

/* One engine, several works at a time: as a service would. */
static unsigned work_in_engine(struct line *line, unsigned parallel, struct slice *slice)
{
	struct slot slots[PARALLEL_MAX] = { 0 };
	struct hotcell_error e;
	unsigned busy = 0;
	unsigned good = 0;

	for (unsigned i = 0; i < parallel; i++)
		busy += slot_start(line, &slots[i]);
	while (busy) {
		if (hotcell_dispatch(engine, -1, &e))
			die("hotcell_dispatch", e.text);
		for (unsigned i = 0; i < parallel; i++) {
			if (!slots[i].work || !hotcell_done(slots[i].work))
				continue;
			if (slot_finish(line, &slots[i]) && now_ns() >= slice->begin)
				good++;
			if (is_running_up(slots, parallel) && now_ns() >= slice->begin) {
				*slice = slice_from(now_ns(), slice->length);
				good = 0;
			}
			if (now_ns() >= slice->end || !slot_start(line, &slots[i]))
				busy--;
		}
	}
	slice->end = now_ns();
	for (unsigned i = 0; i < parallel; i++) {
		if (slots[i].next)
			hotcell_cell_free(slots[i].next);
		for (unsigned k = 0; k < RING; k++)
			if (slots[i].ring[k])
				hotcell_cell_free(slots[i].ring[k]);
	}
	return good;
}

static void measure_rate(unsigned repeats, unsigned ms)
{
	unsigned order[LINES_MAX] = { 0 };

	for (unsigned repeat = 0; repeat < repeats; repeat++) {
		shuffle(order);
		for (unsigned i = 0; i < lines_count; i++) {
			struct line *line = &lines[order[i]];

			for (unsigned parallel = 1; parallel <= PARALLEL_MAX; parallel++) {
				struct slice slice = slice_from(
					now_ns() + RUN_UP_MS * 1000000LL, ms * 1000000LL);
				unsigned runs = line->kind->in_engine ?
							work_in_engine(line, parallel, &slice) :
							work_in_processes(line, parallel, &slice);

				printf("rate %s %u %u %lld\n", line->id, parallel, runs,
					slice.end - slice.begin);
				fflush(stdout);
				pause_us(PAUSE_US);
			}
		}
	}
}

/* ---- whoever watches from outside says how many ---- */

static void run_as_told(void)
{
	char text[32];

	while (fgets(text, sizeof(text), stdin)) {
		for (int left = atoi(text); left > 0; left--)
			if (lines[0].kind->run(&lines[0]) < 0)
				exit(1);
		printf("done\n");
		fflush(stdout);
	}
}

/* ---- many that wait ---- */

static void be_idle(struct line *line, unsigned cells)
{
	struct hotcell_cell **all = calloc(cells, sizeof(struct hotcell_cell *));
	struct hotcell_error e;
	char text[32];

	for (unsigned i = 0; all && i < cells; i++) {
		all[i] = make_cell(line);
		if (!all[i])
			exit(1);
		/* One after the other, as a pool would be filled. */
		for (int turns = 0; turns < 20; turns++)
			if (hotcell_dispatch(engine, 1, &e))
				die("hotcell_dispatch", e.text);
	}
	printf("idle\n");
	fflush(stdout);
	if (!all || !fgets(text, sizeof(text), stdin))
		exit(1);
	for (unsigned i = 0; i < cells; i++) {
		line->request.cell = all[i];
		if (run_library(line) < 0)
			exit(1);
	}
	line->request.cell = NULL;
	for (unsigned i = 0; i < cells; i++)
		hotcell_cell_free(all[i]);
	free(all);
	printf("done\n");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 4 ? argv[4] : "";
	unsigned a = argc > 5 ? (unsigned)atoi(argv[5]) : 0;
	unsigned b = argc > 6 ? (unsigned)atoi(argv[6]) : 0;

	if (argc < 5)
		die("usage", "client WARDEN SHARE PLAN latency|rate|count|idle …");
	read_plan(argv[3]);
	open_engine(argv[1], argv[2]);
	if (strcmp(mode, "latency") == 0)
		measure_latency(a, b);
	else if (strcmp(mode, "rate") == 0)
		measure_rate(a, b);
	else if (strcmp(mode, "count") == 0 && lines_count)
		run_as_told();
	else if (strcmp(mode, "idle") == 0 && lines_count)
		be_idle(&lines[0], a);
	else
		die("usage", mode);
	close_engine();
	return 0;
}
