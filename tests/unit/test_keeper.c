/* A keeper in a child of ours, with a directory as workspace. It has no pid namespace here, so it
 * must never be told that kill(-1) is safe. */
#include "testing.h"

#include "base/buf.h"
#include "base/own.h"
#include "keeper/keeper.h"
#include "wire/cell_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct cell {
	struct scratch *scratch;
	int workspace_fd;
	int control;
	int lifeline;
	pid_t keeper;
};

static struct cell cell;
static struct frame_out out;
static uint8_t buffer[FRAME_MAX];

static void be_keeper(int control, int lifeline)
{
	char workspace[128];
	char tmp[128];
	struct keeper_options options = {
		.control_fd = control,
		.lifeline_fd = lifeline,
		.workspace = workspace,
		.tmp = tmp,
		.kill_all_is_safe = false,
	};

	snprintf(workspace, sizeof(workspace), "%s", in(cell.scratch->path, "workspace"));
	snprintf(tmp, sizeof(tmp), "%s", in(cell.scratch->path, "tmp"));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* As the engine sees to for a warden: we may be a shell's background job, which ignores some. */
	for (int s = 1; s <= 64; s++)
		syscall(SYS_rt_sigaction, s, (uint64_t[4]){ 0 }, NULL, sizeof(uint64_t));
	/* What we were started with ourselves; in a cell everything else is closed. */
	syscall(SYS_close_range, 3, ~0U, 1U << 2 /* CLOSE_RANGE_CLOEXEC */);
	keeper_main(&options);
}

static int cell_make(void **state)
{
	int sockets[2];
	int pipes[2];

	assert_int_equal(scratch_make(state), 0);
	cell.scratch = *state;
	make_dir(cell.scratch->fd, "workspace");
	make_dir(cell.scratch->fd, "tmp");
	cell.workspace_fd =
		openat(cell.scratch->fd, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(cell.workspace_fd >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	fflush(NULL);
	cell.keeper = fork();
	assert_true(cell.keeper >= 0);
	if (cell.keeper == 0) {
		close(sockets[0]);
		close(pipes[1]);
		close(cell.workspace_fd);
		be_keeper(sockets[1], pipes[0]);
		_exit(0);
	}
	close(sockets[1]);
	close(pipes[0]);
	cell.control = sockets[0];
	cell.lifeline = pipes[1];
	return 0;
}

/* Whatever made it leave, a keeper leaves in order. */
static void expect_keeper_leaves(void)
{
	int status;

	assert_int_equal(waitpid(cell.keeper, &status, 0), cell.keeper);
	cell.keeper = 0;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int cell_clear(void **state)
{
	own_close(&cell.control);
	if (cell.keeper)
		expect_keeper_leaves();
	own_close(&cell.lifeline);
	close(cell.workspace_fd);
	return scratch_clear(state);
}

#define TEST_IN_CELL(name) cmocka_unit_test_setup_teardown(name, cell_make, cell_clear)

static void send_out(void)
{
	assert_int_equal(frame_send(cell.control, &out, -1), 0);
}

/* What a run is to be; zero is "no limit, no input". */
struct wish {
	const char *argv[8];
	const char *env[4];
	uint64_t wall_ms;
	uint64_t output_bytes;
	uint64_t open_files;
	uint64_t file_bytes;
	bool with_stdin;
	bool list_when_done;
	enum exec_warm warm;
};

static void send_exec(const struct wish *wish)
{
	static struct msg_exec m;
	uint32_t at = 0;

	m = (struct msg_exec){
		.wall_ms = wish->wall_ms,
		.output_bytes = wish->output_bytes,
		.open_files = wish->open_files,
		.file_bytes = wish->file_bytes,
		.processes = 5, /* of no effect here: the user is not the cell's own */
		.stdin_kind = wish->with_stdin ? STDIN_STREAM : STDIN_NULL,
		.list_when_done = wish->list_when_done,
		.warm = (uint8_t)wish->warm,
	};
	for (m.argv_count = 0; wish->argv[m.argv_count]; m.argv_count++)
		m.words[at++] = wish->argv[m.argv_count];
	m.words[at++] = NULL;
	for (m.env_count = 0; wish->env[m.env_count]; m.env_count++)
		m.words[at++] = wish->env[m.env_count];
	m.words[at] = NULL;
	put_exec(&out, &m);
	send_out();
}

static void send_script(const char *script)
{
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", script }, .env = { "PATH=/usr/bin:/bin" } });
}

static void put_piece(const char *path, const void *data, size_t len, bool append)
{
	put_put(&out, &(struct msg_put){
			      .path = path,
			      .kind = FILE_REGULAR,
			      .append = append,
			      .mode = 0644,
			      .data = data,
			      .data_len = len,
		      });
	send_out();
}

static void put_text(const char *path, const char *text)
{
	put_piece(path, text, strlen(text), false);
}

/* How a run ended, with what it printed. */
struct ended {
	struct msg_exited exited;
	char text[512];
	struct buf stdout_bytes;
	struct buf stderr_bytes;
};

static struct ended last;

/* The next frame of the keeper: its type, or 0 when it hung up. */
static uint8_t next_frame(struct frame_in *ret_in)
{
	uint8_t type = 0;
	int got = frame_recv(cell.control, buffer, 0, &type, ret_in, NULL);

	if (got < 0)
		assert_int_equal(errno, ECONNRESET); /* it left with frames of ours unread */
	return got == 1 ? type : 0;
}

static void add_output(struct frame_in *in)
{
	struct msg_output m;

	assert_true(get_output(in, &m));
	assert_true(m.data_len > 0);
	buf_add(m.stream == STREAM_STDOUT ? &last.stdout_bytes : &last.stderr_bytes, m.data,
		m.data_len);
}

static void forget_last(void)
{
	buf_free(&last.stdout_bytes);
	buf_free(&last.stderr_bytes);
	last = (struct ended){ 0 };
	buf_add_str(&last.stdout_bytes, "");
	buf_add_str(&last.stderr_bytes, "");
}

static void wait_until_ended(void)
{
	struct frame_in in;
	uint8_t type;

	forget_last();
	while ((type = next_frame(&in)) == CELL_OUTPUT)
		add_output(&in);
	assert_int_equal(type, CELL_EXITED);
	assert_true(get_exited(&in, &last.exited));
	snprintf(last.text, sizeof(last.text), "%s", last.exited.text);
}

static void run_script(const char *script)
{
	send_script(script);
	wait_until_ended();
}

static void expect_exit(int code)
{
	int status = (int)last.exited.wait_status;

	if (last.exited.ended_by != ENDED_BY_ITSELF || !WIFEXITED(status) ||
		WEXITSTATUS(status) != code)
		fail_msg("ended by %d with status 0x%x: %s %s", last.exited.ended_by, status,
			last.text, last.stderr_bytes.data);
}

static void expect_killed_by(enum ended_by why)
{
	int status = (int)last.exited.wait_status;

	assert_int_equal(last.exited.ended_by, why);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* Waits until the program has printed something: then it is running. */
static void wait_for_output(void)
{
	struct frame_in in;

	forget_last();
	assert_int_equal(next_frame(&in), CELL_OUTPUT);
	add_output(&in);
}

static bool is_gone(long pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* ---- running ---- */

static void what_a_program_prints_and_how_it_ends_comes_back(void **state)
{
	(void)state;
	run_script("echo out; echo err >&2; exit 3");
	expect_exit(3);
	assert_string_equal(last.stdout_bytes.data, "out\n");
	assert_string_equal(last.stderr_bytes.data, "err\n");
	assert_string_equal(last.text, "");
	assert_true(last.exited.processes >= 1);
	assert_true(last.exited.max_rss_bytes > 0);
	assert_true(last.exited.wall_us > 0);
	assert_int_equal(last.exited.disk_full, 0);
}

static void output_comes_byte_for_byte(void **state)
{
	(void)state;
	run_script("printf 'a\\0b\\377\\n'");
	expect_exit(0);
	assert_int_equal(last.stdout_bytes.len, 5);
	assert_memory_equal(last.stdout_bytes.data, "a\0b\xff\n", 5);
}

static void a_signal_that_ends_the_program_is_in_its_status(void **state)
{
	(void)state;
	run_script("kill -SEGV $$");
	assert_int_equal(last.exited.ended_by, ENDED_BY_ITSELF);
	assert_true(WIFSIGNALED((int)last.exited.wait_status));
	assert_int_equal(WTERMSIG((int)last.exited.wait_status), SIGSEGV);
}

static void the_environment_is_what_was_given_and_nothing_else(void **state)
{
	(void)state;
	send_exec(&(struct wish){ .argv = { "/usr/bin/env" }, .env = { "A=b", "EMPTY=" } });
	wait_until_ended();
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "A=b\nEMPTY=\n");
}

static void a_program_starts_in_the_workspace_as_leader_of_its_own_session(void **state)
{
	char want[256];

	(void)state;
	run_script("pwd -P; ps -o sid= -p $$ | tr -d ' '; echo $$");
	expect_exit(0);
	snprintf(want, sizeof(want), "%s\n", in(cell.scratch->path, "workspace"));
	assert_memory_equal(last.stdout_bytes.data, want, strlen(want));
	{
		long sid;
		long pid;

		assert_int_equal(
			sscanf(last.stdout_bytes.data + strlen(want), "%ld %ld", &sid, &pid), 2);
		assert_int_equal(sid, pid);
	}
}

static void a_program_has_three_descriptors_and_default_signals(void **state)
{
	(void)state;
	run_script("ls /proc/self/fd | tr '\\n' ' '");
	/* The fourth is the directory that ls reads. */
	assert_string_equal(last.stdout_bytes.data, "0 1 2 3 ");
	run_script("grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '[:alpha:]:\\t\\n'");
	assert_string_equal(last.stdout_bytes.data, "00000000000000000000000000000000");
}

static void limits_of_a_process_are_set(void **state)
{
	(void)state;
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c",
			"ulimit -n; ulimit -c; head -c 5000 /dev/zero >large; wc -c <large" },
		.env = { "PATH=/usr/bin:/bin" },
		.open_files = 33,
		.file_bytes = 4096,
	});
	wait_until_ended();
	assert_string_equal(last.stdout_bytes.data, "33\n0\n4096\n");
}

static void a_program_that_is_not_there_is_a_failure_with_its_name(void **state)
{
	(void)state;
	send_exec(&(struct wish){ .argv = { "/no/such/program" } });
	wait_until_ended();
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	assert_non_null(strstr(last.text, "/no/such/program"));
	assert_non_null(strstr(last.text, "No such file"));
	/* The cell is none the worse for it. */
	run_script("echo fine");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "fine\n");
}

static void one_run_comes_after_another_in_the_same_workspace(void **state)
{
	(void)state;
	run_script("echo kept >file");
	expect_exit(0);
	run_script("cat file");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "kept\n");
}

/* ---- input ---- */

static void without_input_a_program_reads_an_end_of_file(void **state)
{
	(void)state;
	run_script("cat; echo end");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "end\n");
}

static void input_reaches_the_program_until_its_end(void **state)
{
	(void)state;
	send_exec(&(struct wish){ .argv = { "/bin/cat" }, .with_stdin = true });
	put_data(&out, CELL_STDIN, &(struct msg_data){ (const uint8_t *)"one\0", 4 });
	send_out();
	put_data(&out, CELL_STDIN, &(struct msg_data){ (const uint8_t *)"two", 3 });
	send_out();
	put_bare(&out, CELL_STDIN_END);
	send_out();
	wait_until_ended();
	expect_exit(0);
	assert_int_equal(last.stdout_bytes.len, 7);
	assert_memory_equal(last.stdout_bytes.data, "one\0two", 7);
}

/* More than any pipe or socket holds: sent when there is room, while output is taken. */
static void input_without_end_waits_for_the_program_to_read_it(void **state)
{
	static uint8_t piece[FRAME_DATA_MAX];
	enum { PIECES = 60 };
	struct frame_in in;
	unsigned sent = 0;
	bool ended = false;

	(void)state;
	forget_last();
	send_exec(&(struct wish){ .argv = { "/bin/cat" }, .with_stdin = true });
	while (!ended) {
		struct pollfd fd = { .fd = cell.control, .events = POLLIN };
		uint8_t type;

		if (sent <= PIECES)
			fd.events |= POLLOUT;
		assert_int_equal(poll(&fd, 1, -1), 1);
		if (fd.revents & POLLOUT) {
			memset(piece, (int)sent, sizeof(piece));
			if (sent < PIECES)
				put_data(&out, CELL_STDIN,
					&(struct msg_data){ piece, sizeof(piece) });
			else
				put_bare(&out, CELL_STDIN_END);
			send_out();
			sent++;
		}
		if (!(fd.revents & POLLIN))
			continue;
		type = next_frame(&in);
		ended = type == CELL_EXITED;
		if (!ended) {
			assert_int_equal(type, CELL_OUTPUT);
			add_output(&in);
		}
	}
	assert_int_equal(last.stdout_bytes.len, (size_t)PIECES * FRAME_DATA_MAX);
	for (size_t i = 0; i < last.stdout_bytes.len; i++)
		if ((uint8_t)last.stdout_bytes.data[i] != i / FRAME_DATA_MAX)
			fail_msg("byte %zu differs", i);
}

static void input_that_nobody_reads_does_no_harm(void **state)
{
	static uint8_t piece[FRAME_DATA_MAX];

	(void)state;
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", "exec <&-; echo closed; exit 0" }, .with_stdin = true });
	for (int i = 0; i < 3; i++) {
		put_data(&out, CELL_STDIN, &(struct msg_data){ piece, sizeof(piece) });
		send_out();
	}
	wait_until_ended();
	expect_exit(0);
	/* What comes after the end belongs to no run. */
	put_data(&out, CELL_STDIN, &(struct msg_data){ piece, 10 });
	send_out();
	put_bare(&out, CELL_STDIN_END);
	send_out();
	send_exec(&(struct wish){ .argv = { "/bin/cat" }, .with_stdin = true });
	put_data(&out, CELL_STDIN, &(struct msg_data){ (const uint8_t *)"mine", 4 });
	send_out();
	put_bare(&out, CELL_STDIN_END);
	send_out();
	wait_until_ended();
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "mine");
}

/* ---- ends ---- */

static void a_program_that_takes_too_long_is_ended_with_its_output(void **state)
{
	(void)state;
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", "trap '' TERM INT HUP; echo before; exec sleep 1000" },
		.env = { "PATH=/usr/bin:/bin" },
		.wall_ms = 300,
	});
	wait_until_ended();
	expect_killed_by(ENDED_BY_TIMEOUT);
	assert_string_equal(last.stdout_bytes.data, "before\n");
	run_script("echo after");
	expect_exit(0);
}

static void a_program_that_prints_too_much_is_ended_at_the_very_byte(void **state)
{
	(void)state;
	send_exec(&(struct wish){ .argv = { "/usr/bin/yes" }, .output_bytes = 100001 });
	wait_until_ended();
	expect_killed_by(ENDED_BY_OUTPUT);
	assert_int_equal(last.stdout_bytes.len, 100001);
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", "echo out; exec yes >&2" },
		.env = { "PATH=/usr/bin:/bin" },
		.output_bytes = 77,
	});
	wait_until_ended();
	expect_killed_by(ENDED_BY_OUTPUT);
	assert_string_equal(last.stdout_bytes.data, "out\n");
	assert_int_equal(last.stderr_bytes.len, 77);
}

static void orders_of_the_warden_end_the_program_for_their_reason(void **state)
{
	static const struct {
		char order;
		enum ended_by why;
	} rows[] = {
		{ 'x', ENDED_BY_CANCEL },
		{ 'c', ENDED_BY_CPU },
		{ 'm', ENDED_BY_MEMORY },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		send_script("echo running; exec sleep 1000");
		wait_for_output();
		/* An unknown order changes nothing. */
		assert_int_equal(write(cell.lifeline, "?", 1), 1);
		assert_int_equal(write(cell.lifeline, &rows[i].order, 1), 1);
		wait_until_ended();
		expect_killed_by(rows[i].why);
	}
	/* One that comes when nothing runs is not kept for the next run. */
	assert_int_equal(write(cell.lifeline, "x", 1), 1);
	put_bare(&out, CELL_LIST);
	send_out();
	{
		struct frame_in in;

		assert_int_equal(next_frame(&in), CELL_LISTED);
	}
	run_script("echo fine");
	expect_exit(0);
}

static void nothing_that_a_program_left_behind_lives_on(void **state)
{
	long pids[3];

	(void)state;
	run_script("mkfifo ready; sleep 1000 & echo $!; (setsid sleep 1000 & echo $!)\n"
		   "setsid sh -c 'trap \"\" TERM; echo $$; echo >ready; exec sleep 1000' &\n"
		   "read line <ready");
	expect_exit(0);
	assert_int_equal(
		sscanf(last.stdout_bytes.data, "%ld %ld %ld", &pids[0], &pids[1], &pids[2]), 3);
	for (size_t i = 0; i < COUNT(pids); i++)
		if (!is_gone(pids[i]))
			fail_msg("process %ld lives", pids[i]);
	assert_true(last.exited.processes >= 4);
}

static void a_run_ends_when_its_program_does_whoever_holds_its_output(void **state)
{
	(void)state;
	run_script("setsid sleep 1000 & echo started");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "started\n");
}

static void when_the_engine_hangs_up_everything_ends(void **state)
{
	long pid;

	(void)state;
	send_script("echo $$; setsid sleep 1000 & exec sleep 1000");
	wait_for_output();
	assert_int_equal(sscanf(last.stdout_bytes.data, "%ld", &pid), 1);
	assert_false(is_gone(pid));
	close(take_fd(&cell.control));
	expect_keeper_leaves();
	assert_true(is_gone(pid));
}

static void when_the_lifeline_ends_everything_ends(void **state)
{
	long pid;

	(void)state;
	send_script("echo $$; exec sleep 1000");
	wait_for_output();
	assert_int_equal(sscanf(last.stdout_bytes.data, "%ld", &pid), 1);
	close(take_fd(&cell.lifeline));
	expect_keeper_leaves();
	assert_true(is_gone(pid));
}

/* An engine that stops listening must not keep a program beyond its time. */
static void the_clock_goes_on_while_nobody_takes_the_output(void **state)
{
	struct frame_in in;
	uint8_t type;

	(void)state;
	send_exec(&(struct wish){ .argv = { "/usr/bin/yes" }, .wall_ms = 200 });
	usleep(400000);
	forget_last();
	while ((type = next_frame(&in)) == CELL_OUTPUT)
		add_output(&in);
	assert_int_equal(type, CELL_EXITED);
	assert_true(get_exited(&in, &last.exited));
	expect_killed_by(ENDED_BY_TIMEOUT);
}

/* ---- drivers ---- */

/* Python that has `request` and `seed`, and what `then` says. */
static void start_driver(const char *then)
{
	static char script[2048];

	snprintf(script, sizeof(script),
		"import os\n"
		"print('too early', flush=True)\n"
		"os.write(998, b'r')\n"
		"length, _, data = os.read(999, 65536).partition(b'\\0')\n"
		"while len(data) < int(length): data += os.read(999, 65536)\n"
		"request, seed = data[:-64], data[-64:]\n"
		"%s",
		then);
	send_exec(&(struct wish){
		.argv = { "/usr/bin/python3", "-c", script }, .warm = EXEC_WARM_START });
}

static void wait_for_driver(void)
{
	struct frame_in in;

	assert_int_equal(next_frame(&in), CELL_WAITS);
	assert_true(get_bare(&in));
}

/* If no driver takes it, a shell says so. */
static void run_in_driver(const char *request, size_t len, bool with_stdin)
{
	put_data(&out, CELL_REQUEST, &(struct msg_data){ (const uint8_t *)request, len });
	send_out();
	send_exec(&(struct wish){ .argv = { "/bin/sh", "-c", "echo cold; exit 9" },
		.with_stdin = with_stdin,
		.warm = EXEC_WARM_RUN });
}

static void a_driver_that_waits_gets_its_request_and_is_the_program(void **state)
{
	(void)state;
	start_driver(
		"print(request, len(seed), os.getcwd() == os.environ.get('PWD', os.getcwd()))\n"
		"os._exit(3)\n");
	wait_for_driver();
	run_in_driver("a\0b", 3, false);
	wait_until_ended();
	expect_exit(3);
	assert_true(last.exited.waited);
	assert_string_equal(last.stdout_bytes.data, "");
	run_script("echo on");
	expect_exit(0);
	assert_false(last.exited.waited);
}

static void what_a_driver_prints_for_its_program_comes_and_nothing_before(void **state)
{
	(void)state;
	start_driver("print(request.decode(), input(), flush=True)\nos._exit(0)\n");
	wait_for_driver();
	run_in_driver("said", 4, true);
	put_data(&out, CELL_STDIN, &(struct msg_data){ (const uint8_t *)"line\n", 5 });
	send_out();
	put_bare(&out, CELL_STDIN_END);
	send_out();
	wait_until_ended();
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "said line\n");
}

static void a_long_request_comes_whole(void **state)
{
	static char request[60000];

	(void)state;
	memset(request, 'x', sizeof(request));
	start_driver("os._exit(5 if request == b'x' * 60000 else 6)\n");
	wait_for_driver();
	run_in_driver(request, sizeof(request), false);
	wait_until_ended();
	expect_exit(5);
}

static void the_status_that_a_driver_tells_is_the_runs(void **state)
{
	(void)state;
	start_driver("print('done', flush=True)\n"
		     "os.write(998, b'x' * 100 + bytes([7]) + seed[:10])\n"
		     "os.write(998, seed[10:])\n"
		     "os.write(998, bytes([8]) + seed)\n"
		     "os.read(999, 1)\n"
		     "os._exit(7)\n");
	wait_for_driver();
	run_in_driver("", 0, false);
	wait_until_ended();
	assert_true(last.exited.waited);
	run_script("echo on");
	expect_exit(0);
}

static void what_is_not_the_drivers_word_ends_nothing(void **state)
{
	(void)state;
	/* Between the last two a byte that is not the seed's first: that one would make the
	 * driver's word of both, in one run of 256. */
	start_driver("for i in range(300): os.write(998, bytes([0]) + bytes(64))\n"
		     "os.write(998, bytes([0]) + seed[:63] + bytes([seed[63] ^ 1]))\n"
		     "os.write(998, bytes([seed[0] ^ 1]) + seed[1:] + seed[:1])\n"
		     "os.close(998)\n"
		     "os._exit(4)\n");
	wait_for_driver();
	run_in_driver("", 0, false);
	wait_until_ended();
	expect_exit(4);
}

static void a_driver_that_is_gone_leaves_the_run_to_the_command(void **state)
{
	(void)state;
	send_exec(&(struct wish){ .argv = { "/bin/false" }, .warm = EXEC_WARM_START });
	wait_for_driver(); /* or for its end */
	run_in_driver("", 0, false);
	wait_until_ended();
	expect_exit(9);
	assert_false(last.exited.waited);
	assert_string_equal(last.stdout_bytes.data, "cold\n");
}

static void a_driver_that_is_not_wanted_ends(void **state)
{
	long pid;

	(void)state;
	start_driver("pass");
	wait_for_driver();
	run_script("ps -o pid= --ppid $PPID | head -1");
	expect_exit(0);
	pid = strtol(last.stdout_bytes.data, NULL, 10);
	assert_true(pid > 0);
	assert_true(is_gone(pid));
}

static void a_request_in_the_middle_of_a_run_makes_the_keeper_leave(void **state)
{
	struct frame_in in;

	(void)state;
	send_script("echo on; sleep 60");
	wait_for_output();
	put_data(&out, CELL_REQUEST, &(struct msg_data){ (const uint8_t *)"", 0 });
	send_out();
	while (next_frame(&in))
		;
	expect_keeper_leaves();
}

/* ---- drivers that stay ---- */

/* One that does what each request says, as Python. */
#define STAYS                                                                                      \
	"import os, signal\n"                                                                      \
	"class Stop(BaseException): pass\n"                                                        \
	"def stop(*_): raise Stop\n"                                                               \
	"signal.signal(2, stop)\n"                                                                 \
	"os.write(998, b'r')\n"                                                                    \
	"while True:\n"                                                                            \
	"    length, _, data = os.read(999, 65536).partition(b'\\0')\n"                            \
	"    if not length: os._exit(0)\n"                                                         \
	"    while len(data) < int(length): data += os.read(999, 65536)\n"                         \
	"    status = 0\n"                                                                         \
	"    try: exec(data[:-64], globals())\n"                                                   \
	"    except Stop: status = 130\n"                                                          \
	"    os.write(998, bytes([status]) + data[-64:])\n"

static void send_kept(const char *code, const struct wish *more)
{
	struct wish wish = *more;

	put_data(&out, CELL_REQUEST, &(struct msg_data){ (const uint8_t *)code, strlen(code) });
	send_out();
	wish.argv[0] = "/usr/bin/python3";
	wish.argv[1] = "-uc";
	wish.argv[2] = STAYS;
	wish.warm = EXEC_DRIVER_RUN;
	send_exec(&wish);
}

/* What came as it was printed, and what came with the end. */
static void expect_kept_output(const char *wanted)
{
	buf_add(&last.stdout_bytes, last.exited.out[0], last.exited.out_len[0]);
	assert_string_equal(last.stdout_bytes.data, wanted);
}

static void run_kept(const char *code)
{
	send_kept(code, &(struct wish){ 0 });
	wait_until_ended();
}

static void what_a_run_leaves_in_its_interpreter_the_next_one_finds(void **state)
{
	(void)state;
	run_kept("x = 1; print(os.getpid())");
	expect_exit(0);
	assert_true(last.exited.kept);
	for (int i = 2; i < 50; i++) {
		char wanted[16];

		run_kept("x += 1; print(x); status = x");
		expect_exit(i);
		assert_true(last.exited.kept);
		snprintf(wanted, sizeof(wanted), "%d\n", i);
		expect_kept_output(wanted);
	}
}

static void an_interpreter_that_ends_is_not_kept_and_another_takes_its_place(void **state)
{
	(void)state;
	run_kept("x = 1");
	assert_true(last.exited.kept);
	run_kept("os._exit(4)");
	expect_exit(4);
	assert_false(last.exited.kept);
	run_kept("status = 5 if 'x' in globals() else 6");
	expect_exit(6);
	assert_true(last.exited.kept);
}

static void one_that_cannot_be_started_is_a_failure(void **state)
{
	(void)state;
	put_data(&out, CELL_REQUEST, &(struct msg_data){ (const uint8_t *)"", 0 });
	send_out();
	send_exec(&(struct wish){ .argv = { "/bin/false" }, .warm = EXEC_DRIVER_RUN });
	wait_until_ended();
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	assert_non_null(strstr(last.text, "could not be started"));
	run_script("echo on");
	expect_exit(0);
}

static void each_kept_run_has_its_own_input(void **state)
{
	static const char *const texts[] = { "first\nleft", "second\n", "" };
	char fifo[160];

	(void)state;
	snprintf(fifo, sizeof(fifo), "FIFO=%s", in(cell.scratch->path, "tmp/.hotcell/stdin"));
	for (size_t i = 0; i < COUNT(texts); i++) {
		char wanted[64];
		size_t len = strcspn(texts[i], "\n");

		send_kept("os.close(0); os.open(os.environ['FIFO'], 0); os.write(998, b'o')\n"
			  "os.write(1, os.read(0, 99).split(b'\\n')[0])",
			&(struct wish){ .with_stdin = true, .env = { fifo } });
		if (texts[i][0])
			put_data(&out, CELL_STDIN,
				&(struct msg_data){ (const uint8_t *)texts[i], strlen(texts[i]) });
		if (texts[i][0])
			send_out();
		put_bare(&out, CELL_STDIN_END);
		send_out();
		wait_until_ended();
		expect_exit(0);
		snprintf(wanted, sizeof(wanted), "%.*s", (int)len, texts[i]);
		expect_kept_output(wanted);
	}
}

static void a_kept_run_that_takes_too_long_is_interrupted_and_then_ended(void **state)
{
	(void)state;
	run_kept("import time; x = 1");
	send_kept("time.sleep(60)", &(struct wish){ .wall_ms = 100 });
	wait_until_ended();
	assert_int_equal(last.exited.ended_by, ENDED_BY_TIMEOUT);
	assert_true(last.exited.kept);
	run_kept("status = 3 if x == 1 else 4");
	expect_exit(3);
	send_kept("signal.signal(2, signal.SIG_IGN); time.sleep(60)",
		&(struct wish){ .wall_ms = 100 });
	wait_until_ended();
	expect_killed_by(ENDED_BY_TIMEOUT);
	assert_false(last.exited.kept);
}

static void other_programs_run_beside_what_is_kept(void **state)
{
	long pid;

	(void)state;
	run_kept("x = 1");
	run_script("sleep 1000 & echo $!");
	expect_exit(0);
	assert_false(last.exited.kept);
	pid = strtol(last.stdout_bytes.data, NULL, 10);
	assert_false(is_gone(pid)); /* the cell is somebody's place now */
	send_exec(&(struct wish){ .argv = { "/bin/sh", "-c", "sleep 1000 & echo $!; sleep 1000" },
		.env = { "PATH=/usr/bin:/bin" },
		.wall_ms = 300 });
	wait_until_ended();
	expect_killed_by(ENDED_BY_TIMEOUT);
	while (!is_gone(strtol(last.stdout_bytes.data, NULL, 10)))
		usleep(1000); /* it is on its way */
	assert_false(is_gone(pid));
	run_kept("status = 3 if x == 1 else 4");
	expect_exit(3);
}

static void an_interruption_reaches_the_program_that_was_asked_for_before_it(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		send_exec(&(struct wish){ .argv = { "/bin/sleep", "60" } });
		if (i % 2) /* it has begun, or not */
			usleep(100000);
		assert_int_equal(write(cell.lifeline, "i", 1), 1);
		wait_until_ended();
		assert_int_equal(last.exited.ended_by, ENDED_BY_ITSELF);
		assert_true(WIFSIGNALED((int)last.exited.wait_status));
		assert_int_equal(WTERMSIG((int)last.exited.wait_status), SIGINT);
	}
	/* With nothing to interrupt, nothing happens. */
	assert_int_equal(write(cell.lifeline, "i", 1), 1);
	usleep(20000);
	run_script("echo on");
	expect_exit(0);
}

/* ---- frames that no engine sends ---- */

static void leaves_after(const uint8_t *bytes, size_t len)
{
	struct frame_in in;

	assert_int_equal(send(cell.control, bytes, len, MSG_NOSIGNAL), len);
	while (next_frame(&in))
		;
	expect_keeper_leaves();
}

static void a_frame_of_an_unknown_kind_makes_the_keeper_leave(void **state)
{
	(void)state;
	leaves_after((const uint8_t *)"\xff", 1);
}

static void an_answer_sent_as_a_request_makes_the_keeper_leave(void **state)
{
	(void)state;
	put_got(&out, &(struct msg_got){ 0 });
	leaves_after(out.bytes, out.len);
}

static void a_cut_command_makes_the_keeper_leave(void **state)
{
	(void)state;
	send_exec(&(struct wish){ .argv = { "/bin/true" } });
	wait_until_ended();
	put_exec(&out, &(struct msg_exec){ .stdin_kind = STDIN_NULL,
			       .argv_count = 1,
			       .words = { "/bin/true", NULL, NULL } });
	leaves_after(out.bytes, out.len - 1);
}

static void a_path_that_leads_out_makes_the_keeper_leave(void **state)
{
	struct stat status;

	(void)state;
	put_put(&out, &(struct msg_put){ .path = "../escaped", .kind = FILE_REGULAR });
	leaves_after(out.bytes, out.len);
	assert_int_equal(fstatat(cell.scratch->fd, "escaped", &status, 0), -1);
}

static void a_second_command_makes_the_keeper_leave_and_the_first_end(void **state)
{
	long pid;

	(void)state;
	send_script("echo $$; exec sleep 1000");
	wait_for_output();
	assert_int_equal(sscanf(last.stdout_bytes.data, "%ld", &pid), 1);
	put_exec(&out, &(struct msg_exec){ .stdin_kind = STDIN_NULL,
			       .argv_count = 1,
			       .words = { "/bin/true", NULL, NULL } });
	leaves_after(out.bytes, out.len);
	assert_true(is_gone(pid));
}

static void a_descriptor_makes_the_keeper_leave(void **state)
{
	struct frame_in in;

	(void)state;
	put_bare(&out, CELL_LIST);
	assert_int_equal(frame_send(cell.control, &out, cell.workspace_fd), 0);
	while (next_frame(&in))
		;
	expect_keeper_leaves();
}

/* ---- files ---- */

/* What LIST tells: "path kind generated size" each, a line. */
static char listing[8192];

static int by_line(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes the frames that answer LIST. */
static void take_listing(void)
{
	char *lines[128];
	size_t count = 0;
	struct frame_in in;
	struct msg_listed listed;
	uint8_t type;

	while ((type = next_frame(&in)) == CELL_FILE) {
		struct msg_file m;

		assert_true(get_file(&in, &m));
		assert_true(count < COUNT(lines));
		lines[count++] =
			xasprintf("%s %d%s %llu\n", m.path, m.kind, m.generated ? " new" : "",
				m.kind == FILE_REGULAR ? (unsigned long long)m.size_bytes : 0);
	}
	assert_int_equal(type, CELL_LISTED);
	assert_true(get_listed(&in, &listed));
	assert_int_equal(listed.incomplete, 0);
	qsort(lines, count, sizeof(lines[0]), by_line);
	listing[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		strncat(listing, lines[i], sizeof(listing) - strlen(listing) - 1);
		free(lines[i]);
	}
}

static void list_files(void)
{
	put_bare(&out, CELL_LIST);
	send_out();
	take_listing();
}

static uint64_t get_max_bytes;

/* The bytes into last.stdout_bytes; returns the errno that GOT tells. */
static uint32_t get_file_bytes(const char *path)
{
	struct frame_in in;
	struct msg_got got;
	uint8_t type;

	forget_last();
	put_get(&out, &(struct msg_get){ path, get_max_bytes });
	send_out();
	while ((type = next_frame(&in)) == CELL_DATA) {
		struct msg_data m;

		assert_true(get_data(&in, &m));
		buf_add(&last.stdout_bytes, m.data, m.data_len);
	}
	assert_int_equal(type, CELL_GOT);
	assert_true(get_got(&in, &got));
	return got.error;
}

static void staged_files_are_there_when_the_program_starts(void **state)
{
	(void)state;
	put_text("main.py", "print(1)\n");
	put_text("deep/er/data", "x");
	put_put(&out, &(struct msg_put){ .path = "empty", .kind = FILE_DIRECTORY, .mode = 0755 });
	send_out();
	put_put(&out, &(struct msg_put){ .path = "link",
			      .kind = FILE_SYMLINK,
			      .data = (const uint8_t *)"main.py",
			      .data_len = 7 });
	send_out();
	run_script("cat link; cat deep/er/data; ls -d empty; stat -c %a main.py");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "print(1)\nxempty\n644\n");
}

static void only_what_is_new_or_changed_is_generated(void **state)
{
	(void)state;
	put_text("same", "same");
	put_text("touched", "touched");
	put_text("rewritten", "rewritten");
	put_text("changed", "before");
	put_text("removed", "x");
	put_text("dir/kept", "kept");
	run_script(
		"touch touched; echo -n rewritten >rewritten; echo -n after_ >changed\n"
		"rm removed; echo new >dir/new; echo hidden >.hidden; ln -s same link; mkfifo fifo");
	expect_exit(0);
	list_files();
	assert_string_equal(listing, ".hidden 1 new 7\n"
				     "changed 1 new 6\n"
				     "dir 2 0\n"
				     "dir/kept 1 4\n"
				     "dir/new 1 new 4\n"
				     "fifo 4 new 0\n"
				     "link 3 new 0\n"
				     "rewritten 1 9\n"
				     "same 1 4\n"
				     "touched 1 7\n");
}

static void files_are_listed_unasked_behind_the_end_if_the_command_says_so(void **state)
{
	(void)state;
	put_text("given", "x");
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", "echo made >made" }, .list_when_done = true });
	wait_until_ended();
	expect_exit(0);
	take_listing();
	assert_string_equal(listing, "given 1 1\nmade 1 new 5\n");
	/* Also when it never started. */
	send_exec(&(struct wish){ .argv = { "/no/such/program" }, .list_when_done = true });
	wait_until_ended();
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	run_script("exit 4");
	expect_exit(4);
}

static void a_program_that_fails_beside_a_file_of_the_largest_size_hit_that_limit(void **state)
{
	(void)state;
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", "head -c 5000 /dev/zero >large" },
		.env = { "PATH=/usr/bin:/bin" },
		.file_bytes = 4096,
	});
	wait_until_ended();
	assert_true(last.exited.wait_status != 0);
	assert_int_equal(last.exited.disk_full, 1);
	send_exec(&(struct wish){
		.argv = { "/bin/sh", "-c", "rm large; exit 1" },
		.env = { "PATH=/usr/bin:/bin" },
		.file_bytes = 4096,
	});
	wait_until_ended();
	expect_exit(1);
	assert_int_equal(last.exited.disk_full, 0);
}

static void files_that_the_program_made_unreadable_are_listed_and_read(void **state)
{
	struct stat status;

	(void)state;
	run_script("mkdir -p dir/sub; echo one >dir/sub/file; chmod 0 dir/sub/file dir/sub dir\n"
		   "echo two >file; chmod 0 file");
	expect_exit(0);
	list_files();
	assert_string_equal(
		listing, "dir 2 new 0\ndir/sub 2 new 0\ndir/sub/file 1 new 4\nfile 1 new 4\n");
	assert_int_equal(get_file_bytes("dir/sub/file"), 0);
	assert_string_equal(last.stdout_bytes.data, "one\n");
	assert_int_equal(get_file_bytes("file"), 0);
	assert_string_equal(last.stdout_bytes.data, "two\n");
	assert_int_equal(fstatat(cell.workspace_fd, "file", &status, 0), 0);
	assert_int_equal(status.st_mode & 0777, 0);
}

static void a_file_comes_back_byte_for_byte(void **state)
{
	enum { PIECES = 5 };
	static uint8_t data[PIECES * FRAME_DATA_MAX];
	auto_buf struct buf copy = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + i / 7919);
	for (size_t i = 0; i < PIECES; i++)
		put_piece("large", data + i * FRAME_DATA_MAX, FRAME_DATA_MAX, i > 0);
	run_script("cp large copy; : >empty; wc -c <large");
	expect_exit(0);
	assert_int_equal(get_file_bytes("copy"), 0);
	assert_int_equal(last.stdout_bytes.len, sizeof(data));
	assert_memory_equal(last.stdout_bytes.data, data, sizeof(data));
	assert_int_equal(get_file_bytes("empty"), 0);
	assert_int_equal(last.stdout_bytes.len, 0);
}

static void names_with_newlines_and_invalid_utf8_are_listed_and_read(void **state)
{
	(void)state;
	run_script("echo 1 >'new\nline'; echo 2 >\"$(printf '\\377\\376')\"");
	expect_exit(0);
	list_files();
	assert_string_equal(listing, "new\nline 1 new 2\n\xff\xfe 1 new 2\n");
	assert_int_equal(get_file_bytes("new\nline"), 0);
	assert_string_equal(last.stdout_bytes.data, "1\n");
	assert_int_equal(get_file_bytes("\xff\xfe"), 0);
	assert_string_equal(last.stdout_bytes.data, "2\n");
}

static void reading_follows_no_symlink_and_waits_for_no_fifo(void **state)
{
	(void)state;
	write_file(cell.scratch->fd, "secret", "secret");
	run_script(
		"ln -s ../secret out; ln -s .. up; mkdir dir; echo x >dir/file; ln -s dir to-dir\n"
		"ln -s dir/file to-file; mkfifo fifo; ln -s loop loop");
	expect_exit(0);
	assert_int_equal(get_file_bytes("out"), ELOOP);
	assert_int_equal(last.stdout_bytes.len, 0);
	assert_int_equal(get_file_bytes("up/secret"), ELOOP);
	assert_int_equal(get_file_bytes("to-dir/file"), ELOOP);
	assert_int_equal(get_file_bytes("to-file"), ELOOP);
	assert_int_equal(get_file_bytes("loop"), ELOOP);
	assert_int_equal(get_file_bytes("fifo"), EINVAL);
	assert_int_equal(get_file_bytes("dir"), EISDIR);
	assert_int_equal(get_file_bytes("nothing"), ENOENT);
	assert_int_equal(get_file_bytes("dir/file/x"), ENOTDIR);
	assert_int_equal(get_file_bytes("dir/file"), 0);
	assert_string_equal(last.stdout_bytes.data, "x\n");
}

static void staging_is_not_led_out_by_symlinks_of_a_former_run(void **state)
{
	struct stat status;

	(void)state;
	make_dir(cell.scratch->fd, "outside");
	write_file(cell.scratch->fd, "victim", "untouched");
	run_script("ln -s ../outside dir; ln -s ../victim file; ln -s ../outside deep");
	expect_exit(0);
	/* What is there is replaced, not written through. */
	put_text("file", "mine");
	run_script("cat file; cat ../victim");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "mineuntouched");
	put_text("dir/x", "escaped");
	run_script("true");
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	assert_int_equal(fstatat(cell.scratch->fd, "outside/x", &status, 0), -1);
	put_text("deep/er/x", "escaped");
	run_script("true");
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	assert_int_equal(fstatat(cell.scratch->fd, "outside/er", &status, 0), -1);
}

static void a_file_that_cannot_be_staged_is_told_by_the_next_command_only(void **state)
{
	(void)state;
	put_text("file", "x");
	put_text("file/below", "x");
	put_text("another", "x");
	run_script("echo must not run >ran");
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	assert_non_null(strstr(last.text, "file"));
	run_script("test ! -e ran");
	expect_exit(0);
}

static void a_piece_of_a_file_that_was_not_begun_is_refused(void **state)
{
	(void)state;
	put_piece("file", "x", 1, true);
	run_script("true");
	assert_int_equal(last.exited.ended_by, ENDED_BY_FAILURE);
	assert_non_null(strstr(last.text, "not begun"));
}

/* The answer to PUT_END and to REMOVE: its text, "" if all is well. */
static const char *wait_until_served(uint32_t *ret_error)
{
	static char text[512];
	struct frame_in in;
	struct msg_served m;

	send_out();
	assert_int_equal(next_frame(&in), CELL_SERVED);
	assert_true(get_served(&in, &m));
	assert_int_equal(m.kind != ERR_NONE, m.text[0] != '\0');
	snprintf(text, sizeof(text), "%s", m.text);
	*ret_error = m.error;
	return text;
}

static uint32_t remove_what(const char *path, uint8_t is_code)
{
	uint32_t error;

	put_remove(&out, &(struct msg_remove){ path, is_code });
	wait_until_served(&error);
	return error;
}

static uint32_t remove_path(const char *path)
{
	return remove_what(path, 0);
}

static void files_are_put_without_a_program_and_stay_for_the_next(void **state)
{
	uint32_t error;

	(void)state;
	put_text("dir/data", "one");
	put_text("kept", "two");
	put_bare(&out, CELL_PUT_END);
	assert_string_equal(wait_until_served(&error), "");
	list_files();
	assert_string_equal(listing, "dir 2 0\ndir/data 1 3\nkept 1 3\n");
	put_text("main", "three");
	run_script("cat dir/data kept main; echo more >>dir/data");
	expect_exit(0);
	assert_string_equal(last.stdout_bytes.data, "onetwothree");
	put_text("kept", "four");
	put_bare(&out, CELL_PUT_END);
	assert_string_equal(wait_until_served(&error), "");
	list_files();
	assert_string_equal(listing, "dir 2 0\ndir/data 1 new 8\nkept 1 4\nmain 1 5\n");
}

static void a_file_that_cannot_be_put_is_told_once(void **state)
{
	uint32_t error;

	(void)state;
	put_text("file", "x");
	put_text("file/below", "x");
	put_bare(&out, CELL_PUT_END);
	assert_non_null(strstr(wait_until_served(&error), "file/below"));
	assert_int_equal(error, ENOTDIR);
	put_bare(&out, CELL_PUT_END);
	assert_string_equal(wait_until_served(&error), "");
	run_script("cat file");
	expect_exit(0);
}

static void put_code(const char *path, const char *text)
{
	put_put(&out, &(struct msg_put){
			      .path = path,
			      .kind = FILE_REGULAR,
			      .mode = 0644,
			      .is_code = 1,
			      .data = (const uint8_t *)text,
			      .data_len = strlen(text),
		      });
	send_out();
}

static void only_what_code_was_put_into_is_removed_as_code(void **state)
{
	(void)state;
	put_text("theirs", "x");
	put_code("code", "x");
	put_code("replaced", "x");
	run_script("rm replaced; echo new >replaced");
	expect_exit(0);
	assert_int_equal(remove_what("theirs", 1), 0);
	assert_int_equal(remove_what("replaced", 1), 0);
	assert_int_equal(remove_what("code", 1), 0);
	assert_int_equal(remove_what("none", 1), ENOENT);
	list_files();
	assert_string_equal(listing, "replaced 1 new 4\ntheirs 1 1\n");
}

static void half_a_file_is_dropped_if_its_run_is_given_up(void **state)
{
	(void)state;
	put_text("whole", "x");
	put_text("half", "x");
	put_bare(&out, CELL_DROP);
	send_out();
	list_files();
	assert_string_equal(listing, "whole 1 1\n");
	put_bare(&out, CELL_DROP);
	send_out();
	run_script("echo on");
	expect_exit(0);
}

static void what_a_run_that_was_given_up_could_not_put_harms_no_other(void **state)
{
	static const enum cell_frame ways[] = { CELL_DROP, CELL_CLEAR };

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		put_text("file", "x");
		put_text("file/below", "x");
		put_bare(&out, ways[i]);
		send_out();
		run_script("echo on");
		expect_exit(0);
	}
}

static void files_and_directories_are_removed(void **state)
{
	(void)state;
	run_script(
		"mkdir -p a/b/c locked/in; echo 1 >a/b/c/f; echo 2 >a/f; mkfifo a/p; ln -s nowhere a/l\n"
		"echo 3 >file; echo 4 >locked/in/f; chmod 0 locked/in; chmod 500 locked; chmod 0 file");
	expect_exit(0);
	assert_int_equal(remove_path("a/f"), 0);
	assert_int_equal(remove_path("a/f"), ENOENT);
	assert_int_equal(remove_path("a/b/f"), ENOENT);
	assert_int_equal(remove_path("file/x"), ENOTDIR);
	assert_int_equal(remove_path("file"), 0);
	assert_int_equal(remove_path("locked/in"), 0);
	list_files();
	assert_string_equal(listing, "a 2 new 0\na/b 2 new 0\na/b/c 2 new 0\na/b/c/f 1 new 2\n"
				     "a/l 3 new 0\na/p 4 new 0\nlocked 2 new 0\n");
	assert_int_equal(remove_path("a"), 0);
	assert_int_equal(remove_path("locked"), 0);
	list_files();
	assert_string_equal(listing, "");
}

static void removing_follows_no_symlink(void **state)
{
	struct stat status;

	(void)state;
	make_dir(cell.scratch->fd, "outside");
	write_file(cell.scratch->fd, "outside/victim", "x");
	run_script(
		"ln -s ../outside dir; ln -s ../outside/victim file; mkdir deep; ln -s ../../outside deep/er");
	expect_exit(0);
	assert_int_equal(remove_path("dir/victim"), ELOOP);
	assert_int_equal(remove_path("deep/er/victim"), ELOOP);
	assert_int_equal(remove_path("file"), 0);
	assert_int_equal(remove_path("deep"), 0);
	assert_int_equal(remove_path("dir"), 0);
	assert_int_equal(fstatat(cell.scratch->fd, "outside/victim", &status, 0), 0);
	list_files();
	assert_string_equal(listing, "");
}

static void what_was_put_and_removed_is_new_when_a_program_makes_it(void **state)
{
	(void)state;
	put_text("dir/file", "same");
	run_script("true");
	assert_int_equal(remove_path("dir"), 0);
	run_script("mkdir dir; printf same >dir/file");
	expect_exit(0);
	list_files();
	assert_string_equal(listing, "dir 2 new 0\ndir/file 1 new 4\n");
}

static void a_file_that_is_too_large_is_not_sent(void **state)
{
	(void)state;
	run_script("printf 12345 >file");
	get_max_bytes = 4;
	assert_int_equal(get_file_bytes("file"), EFBIG);
	assert_int_equal(last.stdout_bytes.len, 0);
	get_max_bytes = 5;
	assert_int_equal(get_file_bytes("file"), 0);
	assert_int_equal(last.stdout_bytes.len, 5);
	get_max_bytes = 0;
}

static void removing_while_a_program_runs_makes_the_keeper_leave(void **state)
{
	(void)state;
	send_script("sleep 100");
	put_remove(&out, &(struct msg_remove){ .path = "file" });
	send_out();
	expect_keeper_leaves();
}

static int forget_all(void **state)
{
	(void)state;
	buf_free(&last.stdout_bytes);
	buf_free(&last.stderr_bytes);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_CELL(what_a_program_prints_and_how_it_ends_comes_back),
		TEST_IN_CELL(output_comes_byte_for_byte),
		TEST_IN_CELL(a_signal_that_ends_the_program_is_in_its_status),
		TEST_IN_CELL(the_environment_is_what_was_given_and_nothing_else),
		TEST_IN_CELL(a_program_starts_in_the_workspace_as_leader_of_its_own_session),
		TEST_IN_CELL(a_program_has_three_descriptors_and_default_signals),
		TEST_IN_CELL(limits_of_a_process_are_set),
		TEST_IN_CELL(a_program_that_is_not_there_is_a_failure_with_its_name),
		TEST_IN_CELL(one_run_comes_after_another_in_the_same_workspace),
		TEST_IN_CELL(without_input_a_program_reads_an_end_of_file),
		TEST_IN_CELL(input_reaches_the_program_until_its_end),
		TEST_IN_CELL(input_without_end_waits_for_the_program_to_read_it),
		TEST_IN_CELL(input_that_nobody_reads_does_no_harm),
		TEST_IN_CELL(a_program_that_takes_too_long_is_ended_with_its_output),
		TEST_IN_CELL(a_program_that_prints_too_much_is_ended_at_the_very_byte),
		TEST_IN_CELL(orders_of_the_warden_end_the_program_for_their_reason),
		TEST_IN_CELL(nothing_that_a_program_left_behind_lives_on),
		TEST_IN_CELL(a_run_ends_when_its_program_does_whoever_holds_its_output),
		TEST_IN_CELL(when_the_engine_hangs_up_everything_ends),
		TEST_IN_CELL(when_the_lifeline_ends_everything_ends),
		TEST_IN_CELL(the_clock_goes_on_while_nobody_takes_the_output),
		TEST_IN_CELL(a_driver_that_waits_gets_its_request_and_is_the_program),
		TEST_IN_CELL(what_a_driver_prints_for_its_program_comes_and_nothing_before),
		TEST_IN_CELL(a_long_request_comes_whole),
		TEST_IN_CELL(the_status_that_a_driver_tells_is_the_runs),
		TEST_IN_CELL(what_is_not_the_drivers_word_ends_nothing),
		TEST_IN_CELL(a_driver_that_is_gone_leaves_the_run_to_the_command),
		TEST_IN_CELL(a_driver_that_is_not_wanted_ends),
		TEST_IN_CELL(a_request_in_the_middle_of_a_run_makes_the_keeper_leave),
		TEST_IN_CELL(what_a_run_leaves_in_its_interpreter_the_next_one_finds),
		TEST_IN_CELL(an_interpreter_that_ends_is_not_kept_and_another_takes_its_place),
		TEST_IN_CELL(one_that_cannot_be_started_is_a_failure),
		TEST_IN_CELL(each_kept_run_has_its_own_input),
		TEST_IN_CELL(a_kept_run_that_takes_too_long_is_interrupted_and_then_ended),
		TEST_IN_CELL(other_programs_run_beside_what_is_kept),
		TEST_IN_CELL(an_interruption_reaches_the_program_that_was_asked_for_before_it),
		TEST_IN_CELL(a_frame_of_an_unknown_kind_makes_the_keeper_leave),
		TEST_IN_CELL(an_answer_sent_as_a_request_makes_the_keeper_leave),
		TEST_IN_CELL(a_cut_command_makes_the_keeper_leave),
		TEST_IN_CELL(a_path_that_leads_out_makes_the_keeper_leave),
		TEST_IN_CELL(a_second_command_makes_the_keeper_leave_and_the_first_end),
		TEST_IN_CELL(a_descriptor_makes_the_keeper_leave),
		TEST_IN_CELL(staged_files_are_there_when_the_program_starts),
		TEST_IN_CELL(only_what_is_new_or_changed_is_generated),
		TEST_IN_CELL(files_are_listed_unasked_behind_the_end_if_the_command_says_so),
		TEST_IN_CELL(a_program_that_fails_beside_a_file_of_the_largest_size_hit_that_limit),
		TEST_IN_CELL(files_that_the_program_made_unreadable_are_listed_and_read),
		TEST_IN_CELL(a_file_comes_back_byte_for_byte),
		TEST_IN_CELL(names_with_newlines_and_invalid_utf8_are_listed_and_read),
		TEST_IN_CELL(reading_follows_no_symlink_and_waits_for_no_fifo),
		TEST_IN_CELL(staging_is_not_led_out_by_symlinks_of_a_former_run),
		TEST_IN_CELL(a_file_that_cannot_be_staged_is_told_by_the_next_command_only),
		TEST_IN_CELL(a_piece_of_a_file_that_was_not_begun_is_refused),
		TEST_IN_CELL(files_are_put_without_a_program_and_stay_for_the_next),
		TEST_IN_CELL(a_file_that_cannot_be_put_is_told_once),
		TEST_IN_CELL(only_what_code_was_put_into_is_removed_as_code),
		TEST_IN_CELL(half_a_file_is_dropped_if_its_run_is_given_up),
		TEST_IN_CELL(what_a_run_that_was_given_up_could_not_put_harms_no_other),
		TEST_IN_CELL(files_and_directories_are_removed),
		TEST_IN_CELL(removing_follows_no_symlink),
		TEST_IN_CELL(what_was_put_and_removed_is_new_when_a_program_makes_it),
		TEST_IN_CELL(a_file_that_is_too_large_is_not_sent),
		TEST_IN_CELL(removing_while_a_program_runs_makes_the_keeper_leave),
	};

	return cmocka_run_group_tests(tests, NULL, forget_all);
}
