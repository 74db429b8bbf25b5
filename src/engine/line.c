/* The short way to a warm machine: most of its runs only compute and print, and then engine and machine
 * have all that it takes between themselves. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/vmm_warm.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* A rehearsal and a request. */
enum { LINE_BUFFER = 4 * WARM_REQUEST_MAX };

/* It is gone, and what it may have kept with it. */
static void lose(struct hotcell_cell *cell)
{
	line_close(cell);
	if (!cell->session_by_driver)
		cell->session = NULL;
}

void line_notice(struct hotcell_cell *cell)
{
	char byte;

	if (cell->line_fd >= 0 && recv(cell->line_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		lose(cell);
}

static void on_event(struct hotcell *h, struct source *source, uint32_t events)
{
	struct hotcell_cell *cell =
		(struct hotcell_cell *)((char *)source -
					offsetof(struct hotcell_cell, line_source));
	struct frame_in in;
	uint8_t type = 0;
	int got = frame_recv(cell->line_fd, h->in_buffer, MSG_DONTWAIT, &type, &in, NULL);

	(void)events;
	if (got < 0 && errno == EAGAIN)
		return;
	if (got != 1)
		lose(cell);
	if (cell->work && got == 1)
		run_on_line(cell->work, type, &in);
	else if (cell->work)
		run_on_line_end(cell->work);
	else if (got == 1)
		cell_on_unasked(cell);
}

void line_close(struct hotcell_cell *cell)
{
	if (cell->line_fd < 0)
		return;
	source_remove(cell->engine, &cell->line_source, cell->line_fd);
	close(take_fd(&cell->line_fd));
	cell->warm = NULL;
}

/* A cell that has just gone cannot be told anything: that is its end, and no trouble of ours. */
static int cannot_start(struct err *e)
{
	if (errno == EPIPE || errno == ECONNRESET)
		return err_set(
			e, ERR_GONE, "the cell went away before a machine was started in it");
	return err_sys(e, "start a warm machine");
}

/* One end for us, the other for the machine that is started next. */
static int give_line(struct hotcell_cell *cell, struct err *e)
{
	struct hotcell *h = cell->engine;
	int size = LINE_BUFFER;
	int ends[2];
	int failed;
	int failed_errno;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	put_bare(&h->out, CELL_LINE);
	failed = frame_send(cell->control_fd, &h->out, ends[1]);
	failed_errno = errno;
	close(ends[1]);
	cell->line_fd = ends[0];
	cell->line_source.on_event = on_event;
	source_add(h, &cell->line_source, cell->line_fd, EPOLLIN);
	if (failed) {
		errno = failed_errno;
		return cannot_start(e);
	}
	return 0;
}

int line_rehearse(struct hotcell_cell *cell, const struct buf *rehearsal, struct err *e)
{
	if (!rehearsal->len)
		return 0;
	line_close(cell);
	if (give_line(cell, e))
		return -1;
	line_ask(cell, WARM_REHEARSAL | (cell->engine->cache_dir ? 0 : WARM_STAYS), rehearsal);
	return 0;
}

static bool are_many(struct hotcell *h)
{
	return pace_count(&h->pace, clock_now_us(), (unsigned)sysconf(_SC_NPROCESSORS_ONLN));
}

int line_open(struct hotcell_cell *cell, const struct profile *profile, int fd, bool for_one_run,
	const struct buf *rehearsal, struct err *e)
{
	struct msg_exec m = {
		.open_files = cell->limits.at[LIMIT_OPEN_FILES],
		.processes = cell->limits.at[LIMIT_PROCESSES],
		.file_bytes = cell->limits.at[LIMIT_FILE_BYTES],
		.memory_bytes = cell->limits.at[LIMIT_MEMORY_BYTES],
		.stdin_kind = STDIN_NULL,
		.warm = cell->keeps ? EXEC_KEEP_START :
			for_one_run ? EXEC_WARM_START_ONCE :
				      EXEC_WARM_START,
		.argv_count = 1,
		.words = { "hotcell-vmm", NULL, NULL },
	};

	if (cell->warm == profile)
		return 0;
	line_close(cell);
	if (give_line(cell, e))
		return -1;
	put_exec(&cell->engine->out, &m);
	if (frame_send(cell->control_fd, &cell->engine->out, fd))
		return cannot_start(e);
	cell->warm = profile;
	if (rehearsal->len)
		line_ask(cell, WARM_REHEARSAL | (are_many(cell->engine) ? WARM_LATER : 0),
			rehearsal);
	return 0;
}

/* A machine that is gone, an event tells. One that does not listen has had its last run. */
void line_ask(struct hotcell_cell *cell, uint8_t flags, const struct buf *request)
{
	struct iovec pieces[] = { { &flags, 1 }, { request->data, request->len } };
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = COUNT(pieces) };

	if (cell->line_fd >= 0 &&
		sendmsg(cell->line_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		errno != EPIPE && errno != ECONNRESET)
		cell_kill(cell);
}
