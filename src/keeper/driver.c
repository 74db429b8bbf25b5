#include "keeper/driver.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static void close_pipes(struct driver *d)
{
	own_close(&d->request_fd);
	own_close(&d->answer_fd);
	d->request_fd = d->answer_fd = -1;
	d->request_at = d->request_len = 0;
	d->waits = false;
}

void driver_end(struct driver *d)
{
	if (d->program.pid > 0 && !d->program.main_reaped) {
		kill(d->program.pid, SIGKILL);
		d->given_up = d->program.pid;
	}
	close_pipes(d);
	program_close(&d->program);
}

int driver_start(struct driver *d, const struct msg_exec *exec,
	const struct keeper_options *options, struct err *e)
{
	int request[2] = { -1, -1 };
	int answer[2] = { -1, -1 };
	int failed;

	driver_end(d);
	if (pipe2(request, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		failed = err_sys(e, "pipe for a driver");
	else
		failed = program_start_driver(&d->program, exec, options,
			(const int[2]){ request[0], answer[1] }, e);
	own_close(&request[0]);
	own_close(&answer[1]);
	d->request_fd = request[1];
	d->answer_fd = answer[0];
	if (failed) {
		close_pipes(d);
		return -1;
	}
	fcntl(d->request_fd, F_SETFL, O_NONBLOCK);
	fcntl(d->answer_fd, F_SETFL, O_NONBLOCK);
	return 0;
}

void driver_discard_output(struct driver *d)
{
	static char dropped[16384];

	for (int i = 0; i < 2; i++)
		while (d->program.out_fd[i] >= 0) {
			ssize_t n = read(d->program.out_fd[i], dropped, sizeof(dropped));

			if (n == 0)
				close(take_fd(&d->program.out_fd[i]));
			else if (n < 0 && errno != EINTR)
				break;
		}
}

bool driver_listen(struct driver *d)
{
	uint8_t said[256];
	ssize_t n = read(d->answer_fd, said, sizeof(said));

	if (n == 0) {
		/* Its end is told by its wait status. */
		own_close(&d->answer_fd);
		d->answer_fd = -1;
	}
	if (n <= 0 || d->waits)
		return false;
	driver_discard_output(d);
	d->waits = true;
	return true;
}

void driver_note_request(struct driver *d, const uint8_t *data, size_t len)
{
	int head = snprintf((char *)d->request, sizeof(d->request), "%zu", len + WARM_SEED_SIZE);
	size_t at = (size_t)head + 1;

	memcpy(d->request + at, data, len);
	d->request_at = 0;
	d->request_len = at + len;
}

/* What a process has used until now. */
static uint64_t cpu_of(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

int driver_run(struct driver *d, struct program *p, bool with_stdin, struct err *e)
{
	if (getrandom(d->request + d->request_len, WARM_SEED_SIZE, 0) != WARM_SEED_SIZE)
		return err_sys(e, "getrandom");
	d->request_len += WARM_SEED_SIZE;
	*p = d->program;
	p->cpu_before_us = cpu_of(p->pid);
	if (!with_stdin)
		own_close(&p->stdin_fd);
	if (!with_stdin)
		p->stdin_fd = -1;
	d->program = (struct program){ .stdin_fd = -1, .out_fd = { -1, -1 } };
	d->waits = false;
	driver_feed(d);
	return 0;
}

void driver_feed(struct driver *d)
{
	while (d->request_fd >= 0 && d->request_at < d->request_len) {
		ssize_t n = write(d->request_fd, d->request + d->request_at,
			d->request_len - d->request_at);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EINTR)
			break; /* it is gone: its wait status tells the rest */
		d->request_at += n > 0 ? (size_t)n : 0;
	}
	close_pipes(d);
}
