/* Kept state: an interpreter stays when its run is over, and serves the next one with all that it has.
 *
 *	EXEC ──▶ request ──▶ driver or machine ──▶ its answer ──▶ EXITED, kept ──▶ it waits, aside
 *	                        └── ends, or is ended: EXITED, not kept. The next one starts another
 *
 * While it waits, it is k->driver.program: other programs may run in the cell meanwhile, beside it. From the first
 * such run on the cell is somebody's place, and what runs leave in it is left alone: only what is to be ended is
 * killed, and that is known by its descent and its session.
 *
 * Its stdout and stderr are the same pipes all the time. What is printed while no run is there to have it, stays in
 * them and comes with the next one; who prints more than they hold, waits for it.
 *
 * A run whose time is over gets SIGINT first, as from Ctrl-C, and GRACE_MS to end by itself: then all is kept. It
 * gets another one in the middle of that: some shells and interpreters have moments in which one is lost. */
#include "keeper/inner.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GRACE_MS = 250, INTERRUPTIONS = 2 };

/* ---- input ---- */

/* A fifo: a pipe would have to be handed over, which most interpreters have no means for. Open at both ends
 * here, so that nobody waits for anybody. */
static int open_stdin(const struct keeper *k, struct err *e)
{
	auto_free char *dir = xasprintf("%s/.hotcell", k->options->tmp);
	auto_free char *path = xasprintf("%s/" WARM_STDIN, k->options->tmp);
	auto_close int fd = -1;
	struct stat status;

	mkdir(dir, 0755);
	unlink(path);
	if (mkfifo(path, 0600))
		return err_sys(e, "make a fifo for stdin");
	fd = open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) || !S_ISFIFO(status.st_mode))
		return err_sys(e, "open a fifo for stdin");
	return take_fd(&fd);
}

void session_on_stdin(struct keeper *k)
{
	auto_free char *path = xasprintf("%s/" WARM_STDIN, k->options->tmp);

	unlink(path);
	k->stdin_waits = false;
	keeper_feed_stdin(k);
}

/* ---- beginning ---- */

static void restart_clock(struct keeper *k)
{
	int64_t now = clock_now_us();

	if (k->deadline_us)
		k->deadline_us += now - k->started_us;
	k->started_us = now;
}

static int give_request(struct keeper *k, struct err *e)
{
	int fifo = k->program.stdin_fd;

	if (driver_run(&k->driver, &k->program, false, e))
		return -1;
	k->program.stdin_fd = fifo;
	restart_clock(k);
	return 0;
}

int session_run(struct keeper *k, struct msg_exec *m, struct err *e)
{
	bool with_stdin = m->stdin_kind == STDIN_STREAM;
	int fifo = -1;

	k->keeps = k->has_session = true;
	k->waited = WAITED;
	if (with_stdin) {
		fifo = open_stdin(k, e);
		if (fifo < 0)
			return -1;
	}
	k->program = (struct program){ .stdin_fd = fifo, .out_fd = { -1, -1 } };
	k->stdin_waits = with_stdin;
	m->cpu_ms = 0; /* of all its runs together: the warden counts for each */
	if (k->driver.program.pid > 0 || driver_start(&k->driver, m, k->options, e) == 0)
		return k->driver.waits ? give_request(k, e) : 0;
	program_close(&k->program);
	return -1;
}

bool session_on_ready(struct keeper *k)
{
	struct err e = { 0 };

	if (k->state != RUNNING || !k->keeps)
		return false;
	if (give_request(k, &e))
		keeper_end_program(k, ENDED_BY_FAILURE);
	return true;
}

void session_start_machine(struct keeper *k, struct msg_exec *m, int snapshot_fd)
{
	k->has_session = true;
	k->files.touched = true;
	driver_end(&k->driver);
	warm_start(&k->warm, &k->driver.program, m, k->options, snapshot_fd, &k->warm_error);
}

int session_run_machine(struct keeper *k, const struct msg_exec *m, struct err *e)
{
	bool with_stdin = m->stdin_kind == STDIN_STREAM;

	k->keeps = k->has_session = k->in_warm = true;
	/* The first time it is any machine that waits. */
	if (k->driver.program.pid > 0) {
		k->program = k->driver.program;
		k->driver.program = (struct program){ .stdin_fd = -1, .out_fd = { -1, -1 } };
	}
	return k->program.out_fd[0] >= 0 ? warm_run_again(&k->warm, &k->program, with_stdin, e) :
					   warm_run(&k->warm, &k->program, with_stdin, e);
}

/* ---- the end ---- */

void session_finish(struct keeper *k, uint32_t status)
{
	struct program *p = &k->program;

	if (!k->in_warm)
		p->cpu_us = driver_cpu_us(p);
	p->processes = 1;
	k->is_kept = true;
	if (waiting_tell_end(k, status)) {
		own_close(&p->stdin_fd);
		k->driver.program = (struct program){
			.pid = p->pid,
			.stdin_fd = -1,
			.out_fd = { p->out_fd[0], p->out_fd[1] },
			.max_rss_bytes = p->max_rss_bytes,
		};
		*p = (struct program){ .stdin_fd = -1, .out_fd = { -1, -1 } };
		k->driver.waits = true;
		k->keeps = k->in_warm = false;
		k->stdin_at = k->stdin_len = 0; /* what it did not read, nobody will */
	}
	k->is_kept = false;
}

bool session_puts_off(struct keeper *k, enum ended_by why)
{
	bool is_time = why == ENDED_BY_TIMEOUT || why == ENDED_BY_CANCEL || why == ENDED_BY_CPU;

	if (!k->keeps || k->state != RUNNING || !is_time || k->program.pid <= 0)
		return false;
	if (!k->is_interrupted)
		k->ended_by = why;
	else if (clock_now_us() < k->deadline_us)
		return true;
	if (k->interruptions++ == INTERRUPTIONS)
		return false;
	k->is_interrupted = true;
	k->deadline_us = clock_now_us() + (int64_t)GRACE_MS * 1000 / INTERRUPTIONS;
	keeper_interrupt(k);
	return true;
}

bool session_is_beside(const struct keeper *k)
{
	return k->has_session && !k->keeps;
}

void session_kill(const struct keeper *k)
{
	if (k->ended_by != ENDED_BY_ITSELF && k->program.pid > 0)
		program_kill_tree(k->program.pid);
}
