#include "keeper/driver.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void close_request(struct driver *d)
{
	own_close(&d->request_fd);
	d->request_fd = -1;
}

static void close_answers(struct driver *d)
{
	own_close(&d->answer_fd);
	d->answer_fd = -1;
}

static void close_pipes(struct driver *d)
{
	close_request(d);
	close_answers(d);
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
		failed = program_start_driver(
			&d->program, exec, options, (const int[2]){ request[0], answer[1] }, e);
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

	if (n == 0)
		close_answers(d); /* its end is told by its wait status */
	if (n <= 0 || d->waits)
		return false;
	driver_discard_output(d);
	d->waits = true;
	return true;
}

/* Whatever else comes before it, and in whatever pieces: all programs of the run can write there. */
static bool look_for_end(struct driver *d, uint8_t byte, uint8_t *ret_status)
{
	const size_t size = 1 + WARM_SEED_SIZE;

	if (d->heard_len == sizeof(d->heard)) {
		memmove(d->heard, d->heard + size, sizeof(d->heard) - size);
		d->heard_len -= size;
	}
	d->heard[d->heard_len++] = byte;
	if (d->heard_len < size ||
		memcmp(d->heard + d->heard_len - WARM_SEED_SIZE, d->seed, WARM_SEED_SIZE) != 0)
		return false;
	*ret_status = d->heard[d->heard_len - size];
	return true;
}

bool driver_hear_end(struct driver *d, uint8_t *ret_status)
{
	uint8_t said[4096];
	ssize_t n = read(d->answer_fd, said, sizeof(said));

	if (n == 0)
		close_answers(d);
	for (ssize_t i = 0; i < n; i++)
		if (look_for_end(d, said[i], ret_status))
			return true;
	return false;
}

/* The last field of /proc/loadavg: of our pid namespace, in which threads have numbers as well. */
static long find_last_pid(void)
{
	char text[128];
	auto_close int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *space;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	space = strrchr(text, ' ');
	return space ? strtol(space, NULL, 10) : 0;
}

bool driver_was_alone(const struct driver *d)
{
	return d->last_pid && find_last_pid() == d->last_pid;
}

void driver_note_request(struct driver *d, const uint8_t *data, size_t len)
{
	int head = snprintf((char *)d->request, sizeof(d->request), "%zu", len + WARM_SEED_SIZE);
	size_t at = (size_t)head + 1;

	memcpy(d->request + at, data, len);
	d->request_at = 0;
	d->request_len = at + len;
}

uint64_t driver_cpu_us(const struct program *p)
{
	uint64_t used = program_cpu_of(p->pid);

	return used > p->cpu_before_us ? used - p->cpu_before_us : 0;
}

void driver_rehearse(struct driver *d)
{
	if (d->request_len)
		return;
	driver_note_request(d, (const uint8_t *)"", 0);
	warm_make_seed(d->seed);
	d->last_pid = find_last_pid();
	program_cpu_of(d->program.pid);
	d->request_len = 0;
}

int driver_run(struct driver *d, struct program *p, bool with_stdin, struct err *e)
{
	if (!warm_make_seed(d->seed))
		return err_sys(e, "getrandom");
	memcpy(d->request + d->request_len, d->seed, WARM_SEED_SIZE);
	d->request_len += WARM_SEED_SIZE;
	d->heard_len = 0;
	d->last_pid = find_last_pid();
	*p = d->program;
	p->cpu_before_us = program_cpu_of(p->pid);
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
		ssize_t n = write(
			d->request_fd, d->request + d->request_at, d->request_len - d->request_at);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EINTR)
			break; /* it is gone: its wait status tells the rest */
		d->request_at += n > 0 ? (size_t)n : 0;
	}
	d->request_at = d->request_len = 0;
}

void driver_let_go(struct driver *d)
{
	close_request(d);
}
