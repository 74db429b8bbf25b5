/* A cell as the engine sees it. */
#include "engine/engine.h"

#include "base/own.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CELL_WORKSPACE "/workspace" /* in every kind of cell that has a root of its own */

/* CPU_SLACK_US, for each millisecond of the limit: so little of a cell's time that it does not matter. */
enum { CONTROL_BUFFER = 4 * FRAME_MAX, CPU_SLACK_US = 10, UNASKED_MAX = 100000 };

void cell_on_unasked(struct hotcell_cell *cell)
{
	if (cell->gone || ++cell->unasked != UNASKED_MAX)
		return;
	err_set(&cell->failure, ERR_PROTOCOL, "the cell sent what it must not send");
	cell_kill(cell);
}

/* What it took to get there is not its run's: the warden counts from here. Not while one runs, and not again: it would
 * have its time anew. */
static void on_waits(struct hotcell_cell *cell)
{
	if (!cell->work && driver_is_warming(cell) && !cell->gone) {
		cell_limit(cell, &cell->limits);
		cell->counts_from_ready = true;
	}
	cell->driver_waits = true;
}

static void on_frame(struct hotcell_cell *cell, uint8_t type, struct frame_in *in)
{
	if (type == CELL_WAITS && get_bare(in))
		on_waits(cell);
	else if (cell->work)
		run_on_frame(cell->work, type, in);
	else
		cell_on_unasked(cell);
}

void cell_notice(struct hotcell_cell *cell)
{
	struct frame_in in;
	uint8_t type;

	while (!cell->work && frame_recv(cell->control_fd, cell->engine->in_buffer, MSG_DONTWAIT,
				      &type, &in, NULL) == 1)
		on_frame(cell, type, &in);
}

static void on_event(struct hotcell *h, struct source *source, uint32_t events)
{
	struct hotcell_cell *cell =
		(struct hotcell_cell *)((char *)source - offsetof(struct hotcell_cell, source));
	struct hotcell_work *work = cell->work;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		struct frame_in in;
		uint8_t type;
		int got =
			frame_recv(cell->control_fd, h->in_buffer, MSG_DONTWAIT, &type, &in, NULL);

		if (got == 1) {
			on_frame(cell, type, &in);
		} else if (got == 0 || errno != EAGAIN) {
			/* What ended it, the warden will tell. A cell that sends what cannot be a
			 * frame is not listened to any more. */
			source_remove(h, &cell->source, cell->control_fd);
			cell->is_deaf = true;
			if (got < 0 && errno == EBADMSG)
				err_set(&cell->failure, ERR_PROTOCOL,
					"the cell sent what cannot be a frame");
			if (got != 0)
				cell_kill(cell);
		}
		return; /* one thing at a time: the work may be done, and the cell gone */
	}
	if ((events & EPOLLOUT) && cell->wants_room) {
		cell->wants_room = false;
		cell_watch(cell);
		if (work)
			run_on_room(work);
		else if (cell->owed)
			cell_send_owed(cell);
	}
}

void cell_watch(struct hotcell_cell *cell)
{
	bool takes = !cell->work || !run_is_paused(cell->work);
	struct epoll_event event = {
		.events = (takes ? EPOLLIN : 0) | (cell->wants_room ? EPOLLOUT : 0),
		.data.ptr = &cell->source,
	};

	if (cell->is_deaf || event.events == cell->watched)
		return;
	cell->watched = event.events;
	epoll_ctl(cell->engine->epoll_fd, EPOLL_CTL_MOD, cell->control_fd, &event);
}

void cell_end(struct hotcell_cell *cell)
{
	struct hotcell *h = cell->engine;
	struct hotcell_work *work = cell->work;
	uint32_t id = cell->id;
	struct frame_in in;
	uint8_t type;

	cell->gone = true;
	while (work && run_is_in(work, id) &&
		frame_recv(cell->control_fd, h->in_buffer, MSG_DONTWAIT, &type, &in, NULL) == 1 &&
		(type == CELL_OUTPUT || type == CELL_EXITED))
		run_on_frame(work, type, &in);
	/* What it had sent may have ended the work, and freed an own cell with it. */
	if (work && run_is_in(work, id))
		run_on_gone(work);
}

struct hotcell_cell *cell_find(struct hotcell *h, const struct link *link, uint32_t id)
{
	struct hotcell_cell *cell = h->cells[id % CELL_ROWS];

	while (cell && (cell->id != id || cell->link != link))
		cell = cell->next;
	return cell;
}

static void forget(struct hotcell_cell *cell)
{
	struct hotcell_cell **at = &cell->engine->cells[cell->id % CELL_ROWS];

	while (*at && *at != cell)
		at = &(*at)->next;
	if (*at)
		*at = cell->next;
	line_close(cell);
	source_remove(cell->engine, &cell->source, cell->control_fd);
	own_close(&cell->control_fd);
	own_close(&cell->peak_fd);
	free(cell->workspace);
	strings_free(cell->needs);
	strings_free(cell->mounts);
	free(cell);
}

static int check_mounts(const struct hotcell *h, const struct cell_wish *wish, struct err *e)
{
	for (unsigned i = 0; i < wish->mounts_count; i++)
		if (mount_find_dir((const char *const *)h->mount_dirs, wish->mounts[i].source) < 0)
			return err_set(e, ERR_INPUT,
				"'%s' is not below a directory from which mounts are allowed",
				wish->mounts[i].source);
	return 0;
}

/* One text for each mount, so that they can be compared. */
static char *mount_text(const struct mount_wish *mount)
{
	return xasprintf("%s=%s", mount->name, mount->source);
}

static void remember_what_it_shows(struct hotcell_cell *cell, const struct cell_wish *wish)
{
	cell->needs = xalloc((wish->needs_count + 1) * sizeof(char *));
	for (unsigned i = 0; i < wish->needs_count; i++)
		cell->needs[i] = xstrdup(wish->needs[i]);
	cell->mounts = xalloc((wish->mounts_count + 1) * sizeof(char *));
	for (unsigned i = 0; i < wish->mounts_count; i++)
		cell->mounts[i] = mount_text(&wish->mounts[i]);
}

int cell_make(
	struct hotcell *h, const struct cell_wish *wish, struct hotcell_cell **ret, struct err *e)
{
	struct link *link = &h->links[wish->kind];
	struct msg_make m = {
		.cell = h->next_cell++,
		.network = (uint8_t)wish->network,
		.explicit_limits = wish->explicit_limits,
		.explicit_network = wish->explicit_network,
		.limits = wish->limits,
		.binds_count = wish->needs_count,
		.mounts_count = wish->mounts_count,
	};
	struct hotcell_cell *cell;
	int size = CONTROL_BUFFER;
	int ends[2];

	if (check_mounts(h, wish, e) || link_start(h, link, false, e) || link_seal(h, link, e))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return err_sys(e, "socketpair");
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	memcpy(m.binds, wish->needs, sizeof(m.binds));
	memcpy(m.mounts, wish->mounts, sizeof(m.mounts));
	put_make(&h->out, &m);
	if (link_send(h, link, ends[1], e)) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	close(ends[1]);
	cell = xalloc(sizeof(*cell));
	cell->engine = h;
	cell->link = link;
	cell->id = m.cell;
	cell->control_fd = ends[0];
	cell->line_fd = cell->peak_fd = -1;
	if (link->kind != ISOLATION_PROCESS)
		cell->workspace = xstrdup(CELL_WORKSPACE);
	cell->limits = wish->limits;
	cell->network = wish->network;
	remember_what_it_shows(cell, wish);
	cell->source.on_event = on_event;
	cell->next = h->cells[cell->id % CELL_ROWS];
	h->cells[cell->id % CELL_ROWS] = cell;
	cell->watched = EPOLLIN;
	source_add(h, &cell->source, cell->control_fd, cell->watched);
	*ret = cell;
	return 0;
}

static bool has_string(char *const *list, const char *text)
{
	for (char *const *at = list; *at; at++)
		if (strcmp(*at, text) == 0)
			return true;
	return false;
}

/* Neither more nor less: as with its network, nobody is to see what was meant for another run. */
static bool same_mounts(const struct hotcell_cell *cell, const struct cell_wish *wish)
{
	unsigned count = 0;

	while (cell->mounts[count])
		count++;
	if (count != wish->mounts_count)
		return false;
	for (unsigned i = 0; i < count; i++) {
		auto_free char *text = mount_text(&wish->mounts[i]);

		if (!has_string(cell->mounts, text))
			return false;
	}
	return true;
}

static bool same_machine(const struct limits *a, const struct limits *b)
{
	static const enum limit held[] = { LIMIT_OPEN_FILES, LIMIT_PROCESSES, LIMIT_FILE_BYTES,
		LIMIT_MEMORY_BYTES };

	for (size_t i = 0; i < COUNT(held); i++)
		if (a->at[held[i]] != b->at[held[i]])
			return false;
	return true;
}

int cell_suit(struct hotcell_cell *cell, const struct cell_wish *wish, struct err *e)
{
	struct limits wanted = wish->limits;

	if (cell->link->kind != wish->kind || cell->network != wish->network)
		return err_set(e, ERR_INPUT, "the cell has another isolation or network");
	for (unsigned i = 0; i < wish->needs_count; i++)
		if (!has_string(cell->needs, wish->needs[i]))
			return err_set(e, ERR_INPUT,
				"the cell does not show '%s', which the language needs",
				wish->needs[i]);
	if (!same_mounts(cell, wish))
		return err_set(e, ERR_INPUT, "the cell was made with other mounts");
	/* Its disk is a file system that was made with it. */
	if ((wish->explicit_limits & LIMIT_BIT(LIMIT_DISK_BYTES)) &&
		wanted.at[LIMIT_DISK_BYTES] != cell->limits.at[LIMIT_DISK_BYTES])
		return err_set(e, ERR_INPUT, "the cell was made with another disk limit");
	wanted.at[LIMIT_DISK_BYTES] = cell->limits.at[LIMIT_DISK_BYTES];
	/* A machine that waits has what it was started with. */
	if (!cell->keeps && !same_machine(&wanted, &cell->limits))
		cell->warm = NULL;
	/* The warden counts a cell's time, and what was killed in it, from when it was last told its limits. */
	if (memcmp(&wanted, &cell->limits, sizeof(wanted)) != 0 || cell->is_counted ||
		cell->cpu_used_us > wanted.at[LIMIT_CPU_MS] * CPU_SLACK_US)
		cell_limit(cell, &wanted);
	return 0;
}

enum hotcell_cell_state hotcell_cell_state(const struct hotcell_cell *cell)
{
	if (cell->gone)
		return HOTCELL_CELL_GONE;
	if (cell->work)
		return HOTCELL_CELL_BUSY;
	return cell->made && !driver_is_warming(cell) ? HOTCELL_CELL_READY : HOTCELL_CELL_MAKING;
}

const char *hotcell_cell_isolation(const struct hotcell_cell *cell)
{
	return isolation_name(cell->link->kind);
}

const char *hotcell_cell_failure(const struct hotcell_cell *cell)
{
	return cell->gone ? cell->failure.text : NULL;
}

size_t hotcell_cells_count(const struct hotcell *h, enum hotcell_isolation isolation)
{
	static const enum isolation_kind kinds[] = {
		[HOTCELL_ISOLATION_PROCESS] = ISOLATION_PROCESS,
		[HOTCELL_ISOLATION_CONTAINER] = ISOLATION_CONTAINER,
		[HOTCELL_ISOLATION_VM] = ISOLATION_VM,
	};
	size_t count = 0;

	for (size_t i = 0; i < CELL_ROWS; i++)
		for (const struct hotcell_cell *cell = h->cells[i]; cell; cell = cell->next)
			if (!cell->gone && cell->link->kind == kinds[isolation])
				count++;
	return count;
}

static int tell_warden(struct hotcell_cell *cell)
{
	struct err ignored;

	return link_send(cell->engine, cell->link, -1, &ignored);
}

int cell_kill(struct hotcell_cell *cell)
{
	put_cell(&cell->engine->out, WARDEN_KILL, &(struct msg_cell){ .cell = cell->id });
	return tell_warden(cell);
}

int cell_order(struct hotcell_cell *cell, enum order order)
{
	put_order(&cell->engine->out,
		&(struct msg_order){ .cell = cell->id, .order = (uint8_t)order });
	return tell_warden(cell);
}

int cell_limit(struct hotcell_cell *cell, const struct limits *limits)
{
	cell->limits = *limits;
	cell->cpu_used_us = 0;
	cell->is_counted = false;
	put_limit(&cell->engine->out, &(struct msg_limit){ .cell = cell->id, .limits = *limits });
	return tell_warden(cell);
}

int cell_read_peak(const struct hotcell_cell *cell, uint64_t *ret)
{
	char text[32];
	ssize_t n = cell->peak_fd < 0 ? -1 : pread(cell->peak_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return -1;
	text[n] = '\0';
	*ret = strtoull(text, NULL, 10);
	return 0;
}

int cell_account(struct hotcell_cell *cell)
{
	put_cell(&cell->engine->out, WARDEN_ACCOUNT, &(struct msg_cell){ .cell = cell->id });
	return tell_warden(cell);
}

void cell_want_room(struct hotcell_cell *cell)
{
	cell->wants_room = true;
	cell_watch(cell);
}

int cell_send(struct hotcell_cell *cell)
{
	return cell_send_with(cell, -1);
}

int cell_send_with(struct hotcell_cell *cell, int fd)
{
	if (frame_send(cell->control_fd, &cell->engine->out, fd) == 0)
		return 0;
	if (errno != EAGAIN && errno != ENOBUFS)
		return -1;
	cell_want_room(cell);
	return 1;
}

int cell_send_owed(struct hotcell_cell *cell)
{
	int sent;

	put_bare(&cell->engine->out, cell->owed);
	sent = cell_send(cell);
	if (sent != 1)
		cell->owed = 0;
	return sent;
}

int cell_clear(struct hotcell_cell *cell)
{
	cell->owed = CELL_CLEAR;
	return cell_send_owed(cell);
}

void cell_drop_half(struct hotcell_cell *cell)
{
	if (cell->owed)
		return; /* to be cleared: of that nothing was put yet */
	cell->owed = CELL_DROP;
	cell_send_owed(cell);
}

void cell_drop(struct hotcell_cell *cell)
{
	if (!cell->gone)
		cell_kill(cell);
	forget(cell);
}
