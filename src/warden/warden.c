/* Theory of operation
 *
 *	engine ──socket── warden ──clone3── cell, cell, …
 *
 * One epoll loop. It never waits for a cell: a build goes on in the child while the loop serves
 * others; kills, orders and accounts are answered before builds are begun. What a cell leaves
 * behind is cleared when its pidfd says that it is gone. When the engine hangs up, every cell is
 * killed and cleared, and the warden ends. */
#include "warden/warden.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "keeper/keeper.h"
#include "warden/inner.h"
#include "warden/privileges.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { GET_AHEAD_US = 5000, EVENTS_MAX = 64, LAST_PATIENCE_MS = 2000 };

/* One warden per process; its frame buffers are too large for a stack. */
static struct warden the_warden;
static uint8_t in_buffer[FRAME_MAX];

void warden_tell(struct warden *w)
{
	/* Blocking: the engine reads, or it is gone. */
	if (frame_send(w->options->socket_fd, &w->out, -1))
		w->engine_gone = true;
}

void warden_tell_with(struct warden *w, int fd)
{
	/* There may be too many on their way already. */
	if (fd < 0 || frame_send(w->options->socket_fd, &w->out, fd))
		warden_tell(w);
}

static void keeper_inside(const struct cell_inside *inside)
{
	struct keeper_options options = {
		.control_fd = KEEPER_CONTROL_FD,
		.lifeline_fd = KEEPER_LIFELINE_FD,
		.workspace = inside->workspace,
		.tmp = inside->tmp,
		.kill_all_is_safe = inside->kill_all_is_safe,
		.owns_disk = inside->owns_disk,
		.runs_vmm = inside->runs_vmm,
		.started = &the_warden.started,
		.tasks_each = the_warden.tree.tasks_each,
	};

	/* A cell can read its keeper's command line. */
	memset(the_warden.options->command_line, 0, the_warden.options->command_line_size);
	snprintf(the_warden.options->command_line, the_warden.options->command_line_size, "keeper");
	prctl(PR_SET_NAME, "keeper");
	keeper_main(&options);
}

/* ---- what the engine asks ---- */

static void answer_allow(struct warden *w, struct frame_in *in)
{
	struct msg_path m;
	struct err e = { 0 };

	if (!get_path(in, &m) || w->sealed)
		w->engine_gone = true; /* not an engine of ours */
	else if (w->unusable.kind == ERR_NONE &&
		 w->options->isolation->allow(w->state, m.path, &e) &&
		 w->refused_count < REFUSED_MAX)
		w->refused[w->refused_count++] =
			(struct refusal){ .path = xstrdup(m.path), .why = xstrdup(e.text) };
}

static void answer_seal(struct warden *w, struct frame_in *in)
{
	if (!get_nothing(in)) {
		w->engine_gone = true;
		return;
	}
	if (w->sealed)
		return;
	w->sealed = true;
	if (w->unusable.kind != ERR_NONE)
		return;
	if (w->options->isolation->seal(w->state, &w->unusable) == 0)
		privileges_drop(&w->unusable);
}

static void answer_make(struct warden *w, struct frame_in *in, int fd)
{
	struct msg_make m;

	if (!get_make(in, &m) || fd < 0 || !w->sealed) {
		own_close(&fd);
		w->engine_gone = true;
		return;
	}
	make_ask(w, &m, fd);
}

static void answer_limit(struct warden *w, struct frame_in *in)
{
	struct msg_limit m;
	struct pending *pending;
	struct cell *cell;
	struct usage usage = { 0 };
	struct err e = { 0 };
	bool is_new;

	if (!get_limit(in, &m)) {
		w->engine_gone = true;
		return;
	}
	cell = cells_find(w->cells, m.cell);
	pending = make_find_pending(w, m.cell);
	if (pending)
		pending->spec.limits = m.limits;
	if (!cell)
		return;
	cgroup_forget_peak(&cell->cgroup);
	cell_read_usage(cell, &usage);
	is_new = memcmp(&cell->limits, &m.limits, sizeof(m.limits)) != 0;
	cell->limits = m.limits;
	cell->cpu_base_us = usage.cpu_us;
	cell->oom_base = usage.oom_kills;
	cell_plan_look(cell, clock_now_us());
	/* It has done as it was told, and goes on; unless it was sent away. */
	if (cell->lifeline_fd >= 0)
		cell->kill_at_us = 0;
	/* Limits that cannot be set would not be held: rather no cell than one without them. */
	if (is_new && cell->cgroup.tree && cgroup_set_limits(&cell->cgroup, &m.limits, &e))
		cell_kill(cell);
}

static void answer_order(struct warden *w, struct frame_in *in)
{
	struct msg_order m;
	struct cell *cell;

	if (!get_order(in, &m)) {
		w->engine_gone = true;
		return;
	}
	cell = cells_find(w->cells, m.cell);
	if (cell)
		cell_give_order(cell, m.order, clock_now_us());
	else if (m.order != ORDER_INTERRUPT)
		make_drop_pending(w, m.cell);
}

static void answer_account(struct warden *w, struct frame_in *in)
{
	struct msg_cell m;
	struct msg_usage usage = { 0 };
	struct cell *cell;

	if (!get_cell(in, &m)) {
		w->engine_gone = true;
		return;
	}
	cell = cells_find(w->cells, m.cell);
	if (!cell)
		return; /* GONE is on its way, with the same figures */
	usage.cell = m.cell;
	cell_tell_usage(cell, &usage.usage);
	put_usage(&w->out, &usage);
	warden_tell(w);
}

/* A pid namespace dies with its keeper. A process cell's keeper must have time to kill the rest. */
static void end_cell(struct warden *w, struct cell *cell)
{
	if (w->options->isolation->kind == ISOLATION_PROCESS)
		cell_dismiss(cell, clock_now_us());
	else
		cell_kill(cell);
}

static void answer_kill(struct warden *w, struct frame_in *in)
{
	struct msg_cell m;
	struct cell *cell;

	if (!get_cell(in, &m)) {
		w->engine_gone = true;
		return;
	}
	cell = cells_find(w->cells, m.cell);
	if (cell)
		end_cell(w, cell);
	else
		make_drop_pending(w, m.cell);
}

static void answer_check(struct warden *w)
{
	for (size_t i = 0; i < w->checks.count; i++) {
		put_checked(&w->out, &w->checks.rows[i]);
		warden_tell(w);
	}
	put_nothing(&w->out, WARDEN_CHECK_END);
	warden_tell(w);
}

static void answer(struct warden *w, uint8_t type, struct frame_in *in, int fd)
{
	if (type != WARDEN_MAKE)
		own_close(&fd);
	switch (type) {
	case WARDEN_ALLOW:
		answer_allow(w, in);
		break;
	case WARDEN_SEAL:
		answer_seal(w, in);
		break;
	case WARDEN_MAKE:
		answer_make(w, in, fd);
		break;
	case WARDEN_LIMIT:
		answer_limit(w, in);
		break;
	case WARDEN_ORDER:
		answer_order(w, in);
		break;
	case WARDEN_ACCOUNT:
		answer_account(w, in);
		break;
	case WARDEN_KILL:
		answer_kill(w, in);
		break;
	case WARDEN_CHECK:
		answer_check(w);
		break;
	default:
		w->engine_gone = true;
	}
}

/* Reads all that is there: a kill behind ten builds is found before the first of them begins. */
static void on_engine(struct warden *w)
{
	while (!w->engine_gone) {
		struct frame_in in;
		uint8_t type;
		int fd;
		int got =
			frame_recv(w->options->socket_fd, in_buffer, MSG_DONTWAIT, &type, &in, &fd);

		if (got == 1) {
			answer(w, type, &in, fd);
			continue;
		}
		if (got == 0 || errno != EAGAIN)
			w->engine_gone = true;
		return;
	}
}

/* ---- the loop ---- */

static void look_at_cells(struct warden *w)
{
	int64_t now = clock_now_us();

	for (struct cell *cell = w->cells; cell; cell = cell->next) {
		if (cell->kill_at_us && now >= cell->kill_at_us) {
			cell->kill_at_us = 0;
			cell_kill(cell);
		} else if (cell->look_at_us && now >= cell->look_at_us) {
			enum order order = cell_look(cell, now);

			if (order != ORDER_NONE) {
				cell->look_at_us = 0;
				cell_give_order(cell, order, now);
			}
		}
	}
	if (w->retry_at_us && now >= w->retry_at_us)
		make_retry_leftovers(w);
}

static void sooner(int64_t *due, int64_t at)
{
	if (at && (*due == 0 || at < *due))
		*due = at;
}

static int patience_ms(const struct warden *w)
{
	int64_t due = 0;

	if (w->pending)
		return 0;
	sooner(&due, w->retry_at_us);
	sooner(&due, w->get_ahead_at_us);
	for (const struct cell *cell = w->cells; cell; cell = cell->next) {
		sooner(&due, cell->look_at_us);
		sooner(&due, cell->kill_at_us);
	}
	return due ? clock_ms_until(due) : -1;
}

static void step(struct warden *w)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(w->epoll_fd, events, EVENTS_MAX, patience_ms(w));

	/* Ends before requests: an id may be asked for again. */
	for (int i = 0; i < count; i++)
		if (events[i].data.ptr)
			make_undo(w, events[i].data.ptr);
	for (int i = 0; i < count; i++)
		if (!events[i].data.ptr)
			on_engine(w);
	look_at_cells(w);
	if (count == 0 && w->get_ahead_at_us && clock_now_us() >= w->get_ahead_at_us)
		make_get_ahead(w);
	if (w->pending && !w->engine_gone) {
		make_next(w);
		/* Not at once: the child begins on our processor, and would wait for us. When its cell
		 * has ended, or when it runs for long enough not to notice. */
		w->get_ahead_at_us = clock_now_us() + GET_AHEAD_US;
	}
}

static int prepare(struct warden *w)
{
	const struct warden_options *o = w->options;
	struct isolation_options options;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

	tsc_mark(&w->started);
	signal(SIGPIPE, SIG_IGN);
	umask(022); /* the caller's may be too strict for what cells must be able to enter */
	/* Never in the way of whoever wakes us: clearing up after a cell can wait until the caller
	 * has its result. Children are not batch. */
	if (sched_getscheduler(0) == SCHED_OTHER)
		sched_setscheduler(
			0, SCHED_BATCH | SCHED_RESET_ON_FORK, &(struct sched_param){ 0 });
	prctl(PR_SET_CHILD_SUBREAPER, o->isolation->kind == ISOLATION_PROCESS);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0 || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, o->socket_fd, &event))
		return -1;
	/* All three while the machine's files are in view. */
	cgroup_tree_open(&w->tree);
	if (o->isolation->tasks_each)
		w->tree.tasks_each = o->isolation->tasks_each();
	uids_open(&w->uids);
	if (o->check)
		checks_gather(&w->checks, &w->tree, &w->uids);
	options = (struct isolation_options){
		.drivers = o->drivers,
		.mount_dirs = o->mount_dirs,
		.host_network = o->host_network,
		.memory_is_soft = !(cgroup_tree_holds(&w->tree) & LIMIT_BIT(LIMIT_MEMORY_BYTES)),
		.inside = keeper_inside,
	};
	if (o->isolation->prepare(&options, &w->state, &w->unusable)) {
		err_wrap(&w->unusable, "%s isolation", o->isolation->name);
		make_point_to_doctor(&w->unusable);
	}
	uids_check_again(&w->uids);
	return 0;
}

static void finish(struct warden *w)
{
	struct cell *cell;

	while (w->pending) {
		struct pending *p = w->pending;

		w->pending = p->next;
		close(p->control_fd);
		free(p);
	}
	for (cell = w->cells; cell; cell = cell->next)
		end_cell(w, cell);
	while (w->cells) {
		struct pollfd gone = { .fd = w->cells->pid_fd, .events = POLLIN };

		if (poll(&gone, 1, LAST_PATIENCE_MS) == 0)
			cell_kill(w->cells);
		make_undo(w, w->cells);
	}
	make_drop_spare(w);
	make_sweep(w);
	for (int tries = 0; w->leftovers_count && tries < 200; tries++) {
		make_retry_leftovers(w);
		if (w->leftovers_count)
			usleep(2000);
	}
	free(w->leftovers);
	cgroup_tree_close(&w->tree);
	uids_close(&w->uids);
	w->options->isolation->close(w->state);
	checks_free(&w->checks);
	for (size_t i = 0; i < w->refused_count; i++) {
		free(w->refused[i].path);
		free(w->refused[i].why);
	}
	close(w->epoll_fd);
}

int warden_run(const struct warden_options *options)
{
	struct warden *w = &the_warden;

	w->options = options;
	if (prepare(w))
		return 125;
	while (!w->engine_gone)
		step(w);
	finish(w);
	return 0;
}
