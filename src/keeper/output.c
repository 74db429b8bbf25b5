#include "keeper/inner.h"

#include "base/clock.h"
#include "base/own.h"
#include "keeper/vmm.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static struct frame_out out_frame;
static uint8_t piece[FRAME_DATA_MAX];
static uint8_t last_data[2][EXITED_OUTPUT_MAX];

/* ---- how it ended ---- */

static bool disk_is_full(const char *path)
{
	struct statvfs s;

	return statvfs(path, &s) == 0 && (s.f_bavail == 0 || (s.f_files && s.f_favail == 0));
}

static int is_at_limit(void *context, const char *path, const struct stat *status)
{
	const struct keeper *k = context;

	(void)path;
	return S_ISREG(status->st_mode) && (uint64_t)status->st_size >= k->file_max;
}

/* A program that fails beside a file of exactly the largest size has hit that limit. */
static bool file_is_at_limit(struct keeper *k, const char *dir)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk_options options = {
		.entries_max = 10000, .depth_max = 32, .on_entry = is_at_limit, .context = k
	};
	bool complete;

	return fd >= 0 && k->file_max && walk(fd, &options, &complete) == 1;
}

/* Only asked when something went wrong: reading directories takes time. */
static bool hit_disk_limit(struct keeper *k)
{
	const struct keeper_options *o = k->options;

	if (k->program.wait_status == 0)
		return false;
	if (o->owns_disk && (disk_is_full(o->workspace) || disk_is_full(o->tmp)))
		return true;
	return file_is_at_limit(k, o->workspace) || file_is_at_limit(k, o->tmp);
}

void output_send_exited(struct keeper *k, const char *text)
{
	struct msg_exited m = {
		.ended_by = (uint8_t)k->ended_by,
		.wait_status = (uint32_t)k->program.wait_status,
		.wall_us = (uint64_t)(clock_now_us() - k->started_us),
		.cpu_us = k->program.cpu_us,
		.max_rss_bytes = k->program.max_rss_bytes,
		.processes = k->program.processes,
		.disk_full = hit_disk_limit(k),
		.warm = k->exited_warm,
		.nothing_new = k->nothing_new,
		.waited = (uint8_t)k->waited,
		.kept = k->is_kept,
		.out = { k->last[0].data, k->last[1].data },
		.out_len = { k->last[0].len, k->last[1].len },
		.failed_put = (uint8_t)k->put_error.kind,
		.failed_put_as = (uint32_t)k->put_error.sys_errno,
		.text = text,
	};

	if (k->options->runs_vmm)
		vmm_read_stats(&m.vm);
	put_exited(&out_frame, &m);
	keeper_send(k, &out_frame);
}

/* ---- what it prints ---- */

/* Passes on what there is in one pipe; returns false at its end. */
static bool forward(struct keeper *k, int which)
{
	ssize_t n = read(k->program.out_fd[which], piece, sizeof(piece));
	struct msg_output m = {
		.stream = which ? STREAM_STDERR : STREAM_STDOUT,
		.data = piece,
		.data_len = n > 0 ? (size_t)n : 0,
	};

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	if (k->output_max && m.data_len > k->output_max - k->output_seen[which])
		m.data_len = k->output_max - k->output_seen[which];
	k->output_seen[which] += m.data_len;
	if (m.data_len) {
		put_output(&out_frame, &m);
		keeper_send(k, &out_frame);
	}
	if (k->output_max && k->output_seen[which] >= k->output_max)
		keeper_end_program(k, ENDED_BY_OUTPUT);
	return true;
}

void output_pass(struct keeper *k, int which)
{
	if (!forward(k, which))
		close(take_fd(&k->program.out_fd[which]));
}

/* All writers are dead, so both pipes come to their end. Unless one was handed to somebody outside
 * (a process cell has no wall), or waits in a socket for the kernel to collect: hence the bound. */
void output_drain(struct keeper *k)
{
	int64_t until_us = clock_now_us() + 100000;

	while (!k->hung_up && (k->program.out_fd[0] >= 0 || k->program.out_fd[1] >= 0)) {
		struct pollfd fds[2] = {
			{ .fd = k->program.out_fd[0], .events = POLLIN },
			{ .fd = k->program.out_fd[1], .events = POLLIN },
		};

		if (poll(fds, 2, clock_ms_until(until_us)) == 0)
			return;
		for (int which = 0; which < 2; which++)
			if (fds[which].revents)
				output_pass(k, which);
	}
}

static void send_last_bytes(struct keeper *k, int which, const uint8_t *data, size_t len)
{
	struct msg_output m = {
		.stream = which ? STREAM_STDERR : STREAM_STDOUT,
		.data = data,
		.data_len = len,
	};

	put_output(&out_frame, &m);
	keeper_send(k, &out_frame);
}

static void send_last(struct keeper *k, int which)
{
	if (k->last[which].len)
		send_last_bytes(k, which, k->last[which].data, k->last[which].len);
	k->last[which].len = 0;
}

/* Reads what there is: somebody lives on, so the pipes have no end, and there may be more at once. */
static void drain_now(struct keeper *k, int which)
{
	uint64_t until = k->output_seen[which];
	int left = 0;

	if (k->program.out_fd[which] < 0 || ioctl(k->program.out_fd[which], FIONREAD, &left))
		return;
	until += (uint64_t)left;
	while (k->program.out_fd[which] >= 0 && k->output_seen[which] < until && !k->hung_up) {
		uint64_t before = k->output_seen[which];

		output_pass(k, which);
		if (k->output_seen[which] == before)
			return;
	}
}

void output_drain_now(struct keeper *k)
{
	drain_now(k, 0);
	drain_now(k, 1);
}

/* What is left in a pipe at the end, if it is little. */
static size_t read_last(struct keeper *k, int which, uint8_t *ret)
{
	size_t max = EXITED_OUTPUT_MAX;
	ssize_t n;

	if (k->program.out_fd[which] < 0)
		return 0;
	if (k->output_max && k->output_max - k->output_seen[which] < max)
		max = k->output_max - k->output_seen[which];
	n = read(k->program.out_fd[which], ret, max);
	if (n <= 0)
		return 0;
	k->output_seen[which] += (size_t)n;
	if (k->output_max && k->output_seen[which] >= k->output_max) {
		send_last_bytes(k, which, ret, (size_t)n);
		keeper_end_program(k, ENDED_BY_OUTPUT);
		return 0;
	}
	return (size_t)n;
}

/* That less came than was asked for says nothing: a program may have made packets of its output. */
static bool has_more(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & POLLIN;
}

void output_keep(struct keeper *k)
{
	for (int which = 0; which < 2; which++) {
		k->last[which].data = last_data[which];
		k->last[which].len = read_last(k, which, last_data[which]);
		if (k->last[which].len && has_more(k->program.out_fd[which])) {
			send_last(k, which);
			drain_now(k, which);
		}
	}
}

void output_rehearse(void)
{
	put_exited(&out_frame, &(struct msg_exited){ .text = "" });
	piece[0] = last_data[0][0] = last_data[1][0] = 0;
}
