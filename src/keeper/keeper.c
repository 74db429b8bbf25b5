/* Theory of operation
 *
 *	          control socket (frames)              lifeline (orders; end = die)
 *	                 │                                   │
 *	            ┌────┴───────────────────────────────────┴────┐
 *	            │ keeper: one poll() loop, one program at most │
 *	            └────┬──────────────┬──────────────┬──────────┘
 *	            stdin│        stdout│        stderr│   pipes
 *	                 └────────── program ──────────┘
 *
 *	IDLE --EXEC--> RUNNING --program ended, or we end it--> ENDING --all reaped, pipes dry--> IDLE
 *	                  └── a driver says so, and was alone --> LEAVING --reaped--> IDLE
 *
 * RUNNING lasts until the program that was started ends. Then whatever it left behind is killed,
 * the pipes are read to their end, and EXITED is sent: after that nothing of the run is alive.
 * A large process takes milliseconds to go. Where a driver says with what status it is about to, and
 * the run has started nothing else, that is not waited for, but for the next EXEC.
 * Sending to the engine may block; while it does, the clock and the lifeline are still watched. */
#include "keeper/inner.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/own.h"
#include "keeper/vmm.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { EARLY_US = 2000 };

/* One keeper per process; its buffers are too large for a stack. */
static struct keeper the_keeper;
static uint8_t in_buffer[FRAME_MAX];

void keeper_end_program(struct keeper *k, enum ended_by why)
{
	if (k->state == IDLE || k->state == LEAVING || session_puts_off(k, why))
		return;
	if (k->state == RUNNING && !k->is_interrupted)
		k->ended_by = why;
	k->state = ENDING;
	k->last_kill_us = clock_now_us();
	if (session_is_beside(k))
		session_kill(k);
	else
		program_kill_all(k->options->kill_all_is_safe);
}

/* As a terminal does it: all that the program has not put into groups of their own. It leads its session, and
 * so the group with its number. */
void keeper_interrupt(const struct keeper *k)
{
	if (k->state == RUNNING && k->program.pid > 0 && !k->program.main_reaped)
		kill(-k->program.pid, SIGINT);
}

static void on_control(struct keeper *k);

/* Unlike other orders it is given once. It comes behind its command, but by another way. */
static void on_interrupt(struct keeper *k)
{
	struct pollfd control = { .fd = k->options->control_fd, .events = POLLIN };

	while (k->state == IDLE && !k->hung_up && poll(&control, 1, 0) > 0)
		on_control(k);
	keeper_interrupt(k);
}

static void on_lifeline(struct keeper *k)
{
	char order;
	ssize_t n = read(k->options->lifeline_fd, &order, 1);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		k->hung_up = true;
	if (n != 1)
		return;
	if (order == 'x')
		keeper_end_program(k, ENDED_BY_CANCEL);
	else if (order == 'c')
		keeper_end_program(k, ENDED_BY_CPU);
	else if (order == 'm')
		keeper_end_program(k, ENDED_BY_MEMORY);
	else if (order == 'i')
		on_interrupt(k);
}

static void watch_clock(struct keeper *k)
{
	if (k->state == RUNNING && k->deadline_us && clock_now_us() >= k->deadline_us)
		keeper_end_program(k, ENDED_BY_TIMEOUT);
}

/* What a driver's program prints waits for its end a moment, and goes with that in one frame: each time that one
 * process wakes another costs more than many a run. */
static bool is_early(const struct keeper *k)
{
	return k->state == RUNNING && k->waited && clock_now_us() < k->started_us + EARLY_US;
}

/* Milliseconds that poll() may sleep. */
static int patience_ms(const struct keeper *k)
{
	if (is_early(k))
		return EARLY_US / 1000;
	if (k->state == LEAVING && k->leave_us)
		return clock_ms_until(k->leave_us);
	if (k->state == ENDING || k->state == LEAVING)
		return 20; /* kill again what was born during the last pass */
	return k->state == RUNNING && k->deadline_us ? clock_ms_until(k->deadline_us) : -1;
}

/* Sends, and waits as long as the engine takes; the clock and the lifeline go on meanwhile. */
int keeper_send(void *context, const struct frame_out *frame)
{
	struct keeper *k = context;

	while (!k->hung_up) {
		struct pollfd fds[2] = {
			{ .fd = k->options->control_fd, .events = POLLOUT },
			{ .fd = k->options->lifeline_fd, .events = POLLIN },
		};

		if (frame_send(k->options->control_fd, frame, -1) == 0)
			return 0;
		if (errno != EAGAIN && errno != ENOBUFS)
			k->hung_up = true;
		if (k->hung_up || poll(fds, 2, patience_ms(k)) < 0)
			continue;
		if (fds[1].revents)
			on_lifeline(k);
		watch_clock(k);
	}
	return 1;
}

void keeper_feed_stdin(struct keeper *k)
{
	while (k->program.stdin_fd >= 0 && k->stdin_at < k->stdin_len) {
		ssize_t n = write(k->program.stdin_fd, k->stdin_data + k->stdin_at,
			k->stdin_len - k->stdin_at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			k->stdin_ends = true; /* it no longer listens: the rest has no reader */
		k->stdin_at = n < 0 ? k->stdin_len : k->stdin_at + (size_t)n;
	}
	k->stdin_at = k->stdin_len = 0;
	if (k->stdin_ends && k->program.stdin_fd >= 0 && !k->stdin_waits)
		close(take_fd(&k->program.stdin_fd));
}

static int start_run(struct keeper *k, struct msg_exec *m, int fd, struct err *e)
{
	auto_close int line = m->warm == EXEC_SNAPSHOT ? take_fd(&k->warm.line_fd) : -1;

	k->files.touched = true;
	k->files.kept = false;
	if (m->warm == EXEC_DRIVER_RUN)
		return session_run(k, m, e);
	if (m->warm == EXEC_KEEP_RUN)
		return session_run_machine(k, m, e);
	if (m->warm == EXEC_WARM_RUN && k->driver.waits && !k->has_session)
		k->waited = WAITED;
	if (k->waited)
		return driver_run(&k->driver, &k->program, m->stdin_kind == STDIN_STREAM, e);
	if (!k->has_session)
		driver_end(&k->driver);
	k->in_warm = m->warm == EXEC_WARM_RUN && k->options->runs_vmm;
	if (k->in_warm) /* whose counts have begun */
		return warm_run(&k->warm, &k->program, m->stdin_kind == STDIN_STREAM, e);
	vmm_clear_stats();
	return program_start(&k->program, m, k->options, line, fd, e);
}

static void on_exec(struct keeper *k, struct msg_exec *m, int fd)
{
	struct err e = { 0 };
	bool is_start = m->warm == EXEC_WARM_START || m->warm == EXEC_WARM_START_ONCE ||
			m->warm == EXEC_KEEP_START;

	/* Counted by user: if the user is not the cell's own, others would be counted too. */
	if (!k->options->kill_all_is_safe)
		m->processes = 0;
	if (m->warm == EXEC_KEEP_START)
		session_start_machine(k, m, fd);
	else if (is_start && k->options->runs_vmm)
		waiting_start_machine(k, m, fd);
	else if (is_start)
		waiting_start_driver(k, m);
	if (is_start)
		return;

	k->ended_by = ENDED_BY_ITSELF;
	k->started_us = clock_now_us();
	k->deadline_us = m->wall_ms ? k->started_us + (int64_t)m->wall_ms * 1000 : 0;
	k->output_max = m->output_bytes;
	k->file_max = m->file_bytes;
	k->list_when_done = m->list_when_done;
	k->output_seen[0] = k->output_seen[1] = 0;
	k->is_told = k->exited_warm = k->in_warm = false;
	k->waited = WAITED_NO;
	k->keeps = k->is_interrupted = k->stdin_waits = false;
	k->interruptions = 0;
	k->stdin_at = k->stdin_len = 0;
	k->stdin_ends = false;
	if (k->warm_error.kind != ERR_NONE || k->put_error.kind != ERR_NONE)
		e = k->put_error.kind != ERR_NONE ? k->put_error : k->warm_error;
	else if (files_put_end(&k->files, &e) == 0)
		start_run(k, m, fd, &e);
	if (e.kind == ERR_NONE) {
		k->state = RUNNING;
		/* A machine may be no more by now. */
		if (k->program.main_reaped)
			keeper_end_program(k, ENDED_BY_ITSELF);
		return;
	}
	if (k->options->runs_vmm && (m->warm == EXEC_WARM_RUN || m->warm == EXEC_KEEP_RUN))
		warm_drop(&k->warm);
	k->ended_by = ENDED_BY_FAILURE;
	k->is_kept = k->driver.program.pid > 0; /* an interpreter that waits has not heard of it */
	output_send_exited(k, e.text);
	k->is_kept = false;
	k->put_error = k->warm_error = (struct err){ 0 };
}

static void on_stdin(struct keeper *k, struct frame_in *in)
{
	struct msg_data m;

	if (!get_data(in, &m)) {
		k->hung_up = true;
		return;
	}
	if (k->state != RUNNING)
		return;
	memcpy(k->stdin_data, m.data, m.data_len);
	k->stdin_at = 0;
	k->stdin_len = m.data_len;
	keeper_feed_stdin(k);
}

static void on_put(struct keeper *k, struct frame_in *in)
{
	struct msg_put m;

	if (!get_put(in, &m))
		k->hung_up = true;
	else if (k->put_error.kind == ERR_NONE)
		files_put(&k->files, &m, &k->put_error);
}

static struct frame_out served;

static void answer_served(struct keeper *k, const struct err *e)
{
	put_served(&served, &(struct msg_served){
				    .kind = (uint8_t)e->kind,
				    .error = (uint32_t)e->sys_errno,
				    .text = e->text,
			    });
	keeper_send(k, &served);
}

/* What was put is not for a program that starts now, but for one that is to come. */
static void on_put_end(struct keeper *k)
{
	struct err e = k->put_error;

	if (e.kind == ERR_NONE)
		files_put_end(&k->files, &e);
	k->put_error = (struct err){ 0 };
	k->files.kept = true;
	answer_served(k, &e);
}

static void on_remove(struct keeper *k, const struct msg_remove *m)
{
	struct err e = { 0 };

	files_remove(&k->files, m->path, m->is_code, &e);
	answer_served(k, &e);
}

/* Where compilers leave their programs: out of sight of the workspace. */
static void make_build_dir(const char *tmp)
{
	auto_free char *path = xasprintf("%s/.hotcell", tmp);

	mkdir(path, 0755);
}

/* Emptied for the next run; if that cannot be done, the cell has seen its last. */
static void on_clear(struct keeper *k)
{
	struct err e = { 0 };

	k->put_error = (struct err){ 0 }; /* of a run that never was */
	if (files_clear(&k->files, k->options->tmp, &e))
		k->hung_up = true;
	if (!k->options->runs_vmm)
		make_build_dir(k->options->tmp);
}

/* Whether it can be done in this kind of cell, and has the descriptor that it takes. */
static bool exec_fits(const struct keeper *k, const struct msg_exec *exec, int fd)
{
	bool takes_fd = exec->warm == EXEC_SNAPSHOT || exec->warm == EXEC_WARM_START ||
			exec->warm == EXEC_WARM_START_ONCE || exec->warm == EXEC_KEEP_START;

	if (k->options->runs_vmm)
		return (fd >= 0) == takes_fd;
	return fd < 0 && (exec->warm == EXEC_COLD || exec->warm == EXEC_WARM_START ||
				 exec->warm == EXEC_WARM_RUN || exec->warm == EXEC_DRIVER_RUN);
}

static void on_request(struct keeper *k, struct frame_in *in)
{
	struct msg_data m;

	if (!get_data(in, &m) || k->state != IDLE)
		k->hung_up = true;
	else
		driver_note_request(&k->driver, m.data, m.data_len);
}

static void on_frame(struct keeper *k, uint8_t type, struct frame_in *in, int fd)
{
	static struct msg_exec exec;
	auto_close int given = fd;
	struct msg_get get;
	struct msg_remove gone;

	/* A snapshot comes with its command, a line by itself, and nothing else with anything. */
	if (given >= 0 && type != CELL_EXEC && type != CELL_LINE)
		type = 0;
	switch (type) {
	case CELL_PUT:
		on_put(k, in);
		return;
	case CELL_EXEC:
		if (k->state != IDLE || !get_exec(in, &exec) || !exec_fits(k, &exec, given))
			break;
		on_exec(k, &exec, take_fd(&given));
		return;
	case CELL_STDIN:
		on_stdin(k, in);
		return;
	case CELL_STDIN_END:
		if (!get_bare(in))
			break;
		k->stdin_ends = true;
		keeper_feed_stdin(k);
		return;
	case CELL_LIST:
		if (!get_bare(in))
			break;
		files_list(&k->files, keeper_send, k);
		return;
	case CELL_CLEAR:
		if (k->state != IDLE || !get_bare(in))
			break;
		on_clear(k);
		return;
	case CELL_DROP:
		if (k->state != IDLE || !get_bare(in))
			break;
		k->put_error = (struct err){ 0 };
		files_drop_half(&k->files);
		return;
	case CELL_LINE:
		if (given < 0 || !get_bare(in))
			break;
		own_close(&k->warm.line_fd);
		k->warm.line_fd = take_fd(&given);
		return;
	case CELL_REQUEST:
		on_request(k, in);
		return;
	case CELL_GET:
		if (!get_get(in, &get))
			break;
		files_get(&k->files, &get, keeper_send, k);
		return;
	case CELL_PUT_END:
		if (k->state != IDLE || !get_bare(in))
			break;
		on_put_end(k);
		return;
	case CELL_REMOVE:
		if (k->state != IDLE || !get_remove(in, &gone))
			break;
		on_remove(k, &gone);
		return;
	default:
		break;
	}
	k->hung_up = true; /* the engine does not speak like this */
}

static void on_control(struct keeper *k)
{
	struct frame_in in;
	uint8_t type;
	int fd = -1;
	/* Only what starts machines has any use for descriptors. */
	int got = frame_recv(k->options->control_fd, in_buffer, MSG_DONTWAIT, &type, &in,
		k->options->runs_vmm ? &fd : NULL);

	if (got == 1)
		on_frame(k, type, &in, fd);
	else if (got == 0 || (errno != EAGAIN && errno != EINTR))
		k->hung_up = true;
}

void keeper_reap(struct keeper *k)
{
	const pid_t uncounted[UNCOUNTED] = { k->driver.given_up, k->warm.mother.pid };

	program_reap(&k->program, &k->driver.program, uncounted);
}

/* Input that it did not read has no reader any more, and nobody waits for room for it. */
void keeper_become_idle(struct keeper *k)
{
	k->stdin_at = k->stdin_len = 0;
	k->state = IDLE;
}

static void on_child(struct keeper *k)
{
	struct signalfd_siginfo ignored;

	while (read(k->signal_fd, &ignored, sizeof(ignored)) == sizeof(ignored))
		;
	keeper_reap(k);
	if (k->state == RUNNING && k->program.main_reaped)
		keeper_end_program(k, ENDED_BY_ITSELF);
	if (k->driver.program.main_reaped)
		waiting_on_driver_end(k);
}

/* Nothing of the run is alive any more; or its program is not, and others are none of its business. */
static bool is_over(const struct keeper *k)
{
	return k->program.all_reaped || (session_is_beside(k) && k->program.main_reaped);
}

static void finish_if_over(struct keeper *k)
{
	waiting_leave_if_over(k);
	if (k->state != ENDING)
		return;
	keeper_reap(k);
	if (!is_over(k)) {
		if (clock_now_us() - k->last_kill_us > 15000)
			keeper_end_program(k, k->ended_by);
		return;
	}
	if (session_is_beside(k))
		output_drain_now(k);
	else
		output_drain(k);
	if (k->is_told)
		k->program.wait_status = k->told_status;
	output_send_exited(k, k->warm_error.text);
	k->warm_error = (struct err){ 0 };
	if (!session_is_beside(k))
		driver_end(&k->driver);
	program_close(&k->program);
	keeper_become_idle(k);
	/* Unasked: it would be asked for next. */
	if (k->list_when_done && k->ended_by != ENDED_BY_FAILURE)
		files_list_run(&k->files, keeper_send, k);
}

static void step(struct keeper *k)
{
	bool waits_for_room = k->stdin_at < k->stdin_len;
	struct driver *d = &k->driver;
	bool is_warming = d->program.pid > 0 && !d->waits;
	bool is_passing = !is_early(k);
	bool is_telling = k->state == RUNNING && k->waited && d->request_len;
	struct pollfd fds[] = {
		{ .fd = k->options->lifeline_fd, .events = POLLIN },
		{ .fd = k->state == LEAVING && !k->leave_us ? -1 : k->options->control_fd,
			.events = waits_for_room ? 0 : POLLIN },
		{ .fd = k->signal_fd, .events = POLLIN },
		{ .fd = is_passing ? k->program.out_fd[0] : -1, .events = POLLIN },
		{ .fd = is_passing ? k->program.out_fd[1] : -1, .events = POLLIN },
		{ .fd = waits_for_room ? k->program.stdin_fd : -1, .events = POLLOUT },
		{ .fd = k->warm.socket_fd, .events = POLLIN },
		{ .fd = d->answer_fd, .events = POLLIN },
		{ .fd = is_warming ? d->program.out_fd[0] : -1, .events = POLLIN },
		{ .fd = is_warming ? d->program.out_fd[1] : -1, .events = POLLIN },
		{ .fd = is_telling ? d->request_fd : -1, .events = POLLOUT },
	};

	if (poll(fds, COUNT(fds), patience_ms(k)) < 0 && errno != EINTR)
		k->hung_up = true;
	if (fds[0].revents)
		on_lifeline(k);
	/* Before the output: if the run is over, all of it goes in one frame. */
	if (fds[6].revents)
		waiting_on_warm(k);
	if (fds[8].revents || fds[9].revents)
		driver_discard_output(d);
	if (fds[7].revents)
		waiting_on_driver(k);
	if (fds[10].revents)
		driver_feed(d);
	if (fds[3].revents && k->program.out_fd[0] >= 0)
		output_pass(k, 0);
	if (fds[4].revents && k->program.out_fd[1] >= 0)
		output_pass(k, 1);
	if (fds[5].revents)
		keeper_feed_stdin(k);
	waiting_kill_who_leaves(k, fds[1].revents);
	if (fds[1].revents && !k->hung_up && k->state != LEAVING)
		on_control(k);
	if (fds[2].revents)
		on_child(k);
	watch_clock(k);
	finish_if_over(k);
}

/* Nothing may outlive us: in a pid namespace our end would do, elsewhere we must see to it. */
static void kill_what_is_left(struct keeper *k)
{
	for (int tries = 0; tries < 500 && !k->program.all_reaped; tries++) {
		program_kill_all(k->options->kill_all_is_safe);
		keeper_reap(k);
		if (!k->program.all_reaped)
			poll(NULL, 0, 2);
	}
}

static int begin(struct keeper *k, const struct keeper_options *options, struct err *e)
{
	sigset_t child;

	/* Field by field: it is zero already, and assigning all of it would touch its buffers. */
	k->options = options;
	k->program = (struct program){ .stdin_fd = -1, .out_fd = { -1, -1 } };
	k->driver.program = k->program;
	k->driver.request_fd = k->driver.answer_fd = -1;
	k->warm.socket_fd = k->warm.line_fd = -1;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	k->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (k->signal_fd < 0)
		return err_sys(e, "signalfd");
	fcntl(options->control_fd, F_SETFL, O_NONBLOCK);
	if (options->runs_vmm) {
		fd_set_proc(VMM_PROC_FD);
		vmm_open_stats();
	}
	if (!options->runs_vmm) /* compilers are no guests */
		make_build_dir(options->tmp);
	return files_open(&k->files, options->workspace, options->owns_disk, e);
}

void keeper_main(const struct keeper_options *options)
{
	struct keeper *k = &the_keeper;
	struct err e = { 0 };

	if (begin(k, options, &e)) {
		k->ended_by = ENDED_BY_FAILURE;
		output_send_exited(k, e.text);
		return;
	}
	while (!k->hung_up)
		step(k);
	kill_what_is_left(k);
	files_close(&k->files);
}
