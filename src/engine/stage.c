/* What goes into a cell: files before the run, input during it. */
#include "engine/work.h"

#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

/* What is put in a row before others that wait for the engine have their turn. */
enum { ITEMS_IN_A_ROW = 64 };

/* The next bytes of the item at hand. Returns how many, 0 at its end, -1 on failure. */
static ssize_t next_piece(struct hotcell_work *work, const struct stage_item *item,
	const uint8_t **ret, struct err *e)
{
	const uint8_t *from = item->target ? (const uint8_t *)item->target : item->data;
	size_t total = item->target ? strlen(item->target) : item->data_len;
	size_t left;
	ssize_t n;

	if (item->kind == FILE_DIRECTORY)
		return 0;
	if (item->kind == FILE_SYMLINK || !item->host_path) {
		left = total - work->stage_offset;
		*ret = from + work->stage_offset;
		return left > FRAME_DATA_MAX ? FRAME_DATA_MAX : (ssize_t)left;
	}
	if (work->stage_fd < 0) {
		work->stage_fd = open(item->host_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (work->stage_fd < 0)
			return err_sys(e, "open '%s'", item->host_path);
	}
	/* By offset: a piece that found no room is read again. */
	n = pread(work->stage_fd, work->engine->piece, FRAME_DATA_MAX, (off_t)work->stage_offset);
	*ret = work->engine->piece;
	return n < 0 ? err_sys(e, "read '%s'", item->host_path) : n;
}

static void next_item(struct hotcell_work *work)
{
	own_close(&work->stage_fd);
	work->stage_fd = -1;
	work->stage_offset = 0;
	work->stage_at++;
}

static uint64_t memory_of(const struct hotcell_work *work)
{
	const struct limits *l = work->is_for_files ? &work->cell->limits : &work->limits;

	return l->at[LIMIT_MEMORY_BYTES];
}

int stage_continue(struct hotcell_work *work)
{
	size_t begun_at = work->stage_at;

	if (work->cell->owed && cell_send_owed(work->cell))
		return 0;
	while (work->stage_at < work->staging.count) {
		const struct stage_item *item = &work->staging.items[work->stage_at];
		struct msg_put m = {
			.path = item->path,
			.kind = (uint8_t)item->kind,
			.mode = item->mode,
			.append = work->stage_offset > 0,
			.is_code = item->is_code,
			.memory_bytes = memory_of(work),
		};
		struct err e = { 0 };
		ssize_t n;
		int sent;

		if (work->stage_at - begun_at == ITEMS_IN_A_ROW) {
			cell_want_room(work->cell);
			return 0;
		}
		n = next_piece(work, item, &m.data, &e);
		if (n < 0 && work->is_for_files) { /* the cell waits to hear the end of it */
			work->failure = e;
			work->stage_at = work->staging.count;
			break;
		}
		if (n < 0) {
			work_fail(work, &e);
			return -1;
		}
		if (n == 0 && work->stage_offset > 0) {
			next_item(work);
			continue;
		}
		m.data_len = (size_t)n;
		put_put(&work->engine->out, &m);
		sent = cell_send(work->cell);
		if (sent)
			return 0; /* no room, or the cell is gone and the warden will say so */
		work->stage_offset += (size_t)n;
		if (n == 0 || item->kind != FILE_REGULAR)
			next_item(work);
	}
	return 1;
}

/* ---- input ---- */

static void on_stdin_event(struct hotcell *h, struct source *source, uint32_t events)
{
	(void)h;
	(void)events;
	stage_stdin_continue((struct hotcell_work *)((char *)source -
						     offsetof(struct hotcell_work, stdin_source)));
}

static void poll_stdin(struct hotcell_work *work, bool on)
{
	struct hotcell *h = work->engine;
	struct source *source = &work->stdin_source;
	int fd = work->request.stdin_fd;

	if (on == work->stdin_polled)
		return;
	work->stdin_source.on_event = on_stdin_event;
	/* A regular file cannot be polled, and need not be: it is always ready. */
	if ((on ? source_add(h, source, fd, EPOLLIN) : source_remove(h, source, fd)) == 0)
		work->stdin_polled = on;
}

static ssize_t read_stdin(struct hotcell_work *work, const uint8_t **ret)
{
	const struct hotcell_request *q = &work->request;
	size_t left = q->stdin_len - work->stdin_at;
	ssize_t n;

	if (work->stdin_kept) {
		*ret = work->stdin_kept;
		return (ssize_t)work->stdin_kept_len;
	}
	if (!q->have_stdin_fd) {
		*ret = (const uint8_t *)q->stdin_data + work->stdin_at;
		return left > FRAME_DATA_MAX ? FRAME_DATA_MAX : (ssize_t)left;
	}
	do
		n = read(q->stdin_fd, work->engine->piece, FRAME_DATA_MAX);
	while (n < 0 && errno == EINTR);
	*ret = work->engine->piece;
	return n < 0 && errno != EAGAIN ? 0 : n;
}

/* A pipe cannot be read twice. */
static void keep(struct hotcell_work *work, const uint8_t *data, size_t len)
{
	if (work->stdin_kept)
		return;
	work->stdin_kept = xalloc(len);
	memcpy(work->stdin_kept, data, len);
	work->stdin_kept_len = len;
}

void stage_stdin_begin(struct hotcell_work *work)
{
	work->stdin_done = false;
	if (work->request.have_stdin_fd)
		poll_stdin(work, true);
	if (!work->stdin_polled)
		stage_stdin_continue(work);
}

void stage_stdin_continue(struct hotcell_work *work)
{
	while (!work->stdin_done && work->step == WORK_RUNNING && !work->cell->wants_room) {
		const uint8_t *data;
		ssize_t n = read_stdin(work, &data);
		int sent;

		if (n < 0)
			return;
		if (n == 0)
			put_bare(&work->engine->out, CELL_STDIN_END);
		else
			put_data(&work->engine->out, CELL_STDIN,
				&(struct msg_data){ .data = data, .data_len = (size_t)n });
		sent = cell_send(work->cell);
		if (sent < 0 || (sent == 0 && n == 0)) {
			stage_stdin_end(work);
			return;
		}
		if (sent == 1) {
			poll_stdin(work, false); /* until there is room */
			if (work->request.have_stdin_fd)
				keep(work, data, (size_t)n);
			return;
		}
		free(work->stdin_kept);
		work->stdin_kept = NULL;
		if (work->request.have_stdin_fd)
			poll_stdin(work, true);
		work->stdin_at += (size_t)n;
		if (work->stdin_polled)
			return; /* epoll tells when there is more */
	}
}

void stage_stdin_end(struct hotcell_work *work)
{
	work->stdin_done = true;
	poll_stdin(work, false);
}
