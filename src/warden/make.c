#include "warden/inner.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

enum { REMOVE_RETRY_US = 5000 };

static void tell_failure(struct warden *w, uint32_t id, const struct err *e)
{
	struct msg_gone m = {
		.cell = id, .failed = 1, .err_kind = (uint8_t)e->kind, .text = e->text
	};

	put_gone(&w->out, &m);
	warden_tell(w);
}

/* ---- asking ---- */

static int refuse_need(const struct warden *w, const char *path, struct err *e)
{
	for (size_t i = 0; i < w->refused_count; i++)
		if (strcmp(w->refused[i].path, path) == 0)
			return err_set(e, ERR_INPUT, "%s", w->refused[i].why);
	return err_set(e, ERR_INPUT, "'%s' was not allowed for cells", path);
}

static int read_needs(
	struct warden *w, const struct msg_make *m, struct cell_spec *spec, struct err *e)
{
	for (uint32_t i = 0; i < m->binds_count; i++) {
		int index = w->options->isolation->find_need(w->state, m->binds[i]);

		if (index < 0)
			return refuse_need(w, m->binds[i], e);
		spec->needs[spec->needs_count++] = (unsigned)index;
	}
	return 0;
}

static size_t texts_size(const struct msg_make *m)
{
	size_t size = 0;

	for (uint32_t i = 0; i < m->mounts_count; i++)
		size += strlen(m->mounts[i].source) + strlen(m->mounts[i].name) + 2;
	return size;
}

static const char *keep_text(char **at, const char *text)
{
	size_t size = strlen(text) + 1;
	char *kept = memcpy(*at, text, size);

	*at += size;
	return kept;
}

static int read_mounts(struct warden *w, const struct msg_make *m, struct pending *p, struct err *e)
{
	const struct isolation *isolation = w->options->isolation;
	char *at = p->texts;

	if (m->mounts_count && !isolation->find_mount)
		return err_set(e, ERR_INPUT,
			"%s isolation has no mounts: its programs see the machine's files",
			isolation->name);
	for (uint32_t i = 0; i < m->mounts_count; i++) {
		const char *below;
		int dir = isolation->find_mount(w->state, m->mounts[i].source, &below, e);

		if (dir < 0)
			return -1;
		p->spec.mounts[p->spec.mounts_count++] = (struct cell_mount){
			.dir = (unsigned)dir,
			.below = keep_text(&at, below),
			.name = keep_text(&at, m->mounts[i].name),
		};
	}
	return 0;
}

void make_ask(struct warden *w, const struct msg_make *m, int control_fd)
{
	auto_free struct pending *p = xalloc(sizeof(*p) + texts_size(m));
	struct pending **end = &w->pending;
	struct err e = w->unusable;

	p->id = m->cell;
	p->control_fd = control_fd;
	p->explicit_limits = m->explicit_limits;
	p->explicit_network = m->explicit_network;
	p->spec.limits = m->limits;
	p->spec.network = m->network;
	if (e.kind == ERR_NONE && cells_find(w->cells, m->cell))
		err_set(&e, ERR_PROTOCOL, "cell %u exists", m->cell);
	if (e.kind == ERR_NONE && read_needs(w, m, &p->spec, &e) == 0)
		read_mounts(w, m, p, &e);
	if (e.kind != ERR_NONE) {
		close(control_fd);
		tell_failure(w, m->cell, &e);
		return;
	}
	while (*end)
		end = &(*end)->next;
	*end = take_ptr(&p);
}

struct pending *make_find_pending(struct warden *w, uint32_t id)
{
	struct pending *p = w->pending;

	while (p && p->id != id)
		p = p->next;
	return p;
}

void make_drop_pending(struct warden *w, uint32_t id)
{
	struct pending *p = make_find_pending(w, id);
	struct pending **at = &w->pending;
	struct err e;

	if (!p)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	close(p->control_fd);
	free(p);
	err_set(&e, ERR_GONE, "it was ended before it was built");
	tell_failure(w, id, &e);
}

/* ---- building ---- */

static int take_group(struct warden *w, bool with_cpus, struct cgroup *ret, struct err *e)
{
	cgroup_forget(ret);
	if (w->tree.version == 0)
		return 0;
	if (w->spare_ready && !(with_cpus && w->tree.version == 1)) {
		*ret = w->spare;
		w->spare_ready = false;
		return 0;
	}
	return cgroup_make(&w->tree, w->next_group++, with_cpus, ret, e);
}

/* What nothing holds here, what only a watch holds; and whether the caller insisted. */
static int judge_limits(
	struct warden *w, const struct pending *p, struct msg_made *made, struct err *e)
{
	const struct isolation *isolation = w->options->isolation;
	uint32_t held = isolation->holds | cgroup_tree_holds(&w->tree);
	uint32_t watched = LIMIT_BIT(LIMIT_MEMORY_BYTES) | LIMIT_BIT(LIMIT_CPU_MS);
	uint32_t wanted = 0;

	for (int i = 0; i < LIMIT_COUNT; i++)
		if (p->spec.limits.at[i])
			wanted |= LIMIT_BIT(i);
	made->soft = wanted & ~held & watched;
	made->not_enforced = wanted & ~held & ~watched;
	made->network_not_enforced = p->spec.network == NETWORK_NONE && !isolation->holds_network;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const char *why_not = cgroup_tree_why_not(&w->tree, (enum limit)i);

		if (p->explicit_limits & made->not_enforced & LIMIT_BIT(i))
			return err_set(e, ERR_UNAVAILABLE,
				"the %s limit cannot be held here in %s isolation%s%s",
				limit_table[i].name, isolation->name, *why_not ? ": " : "",
				why_not);
	}
	if (p->explicit_network && made->network_not_enforced)
		return err_set(e, ERR_UNAVAILABLE,
			"%s isolation cannot keep a program from the network", isolation->name);
	return 0;
}

static int clone_cell(struct warden *w, struct pending *p, struct cell *cell,
	struct isolation_made *made, struct err *e)
{
	auto_close int lifeline_end = -1;
	auto_close int report_end = -1;
	int ends[2];
	int failed;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return err_sys(e, "pipe");
	lifeline_end = ends[0];
	cell->lifeline_fd = ends[1];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return err_sys(e, "pipe");
	cell->report_fd = ends[0];
	report_end = ends[1];
	p->spec.cgroup = &cell->cgroup;
	p->spec.uid = cell->uid;
	p->spec.gid = w->uids.count ? cell->uid : getegid();
	p->spec.control_fd = p->control_fd;
	p->spec.lifeline_fd = lifeline_end;
	p->spec.report_fd = report_end;
	failed = w->options->isolation->make(w->state, &p->spec, made, e);
	if (failed) {
		struct err inner;

		/* The child may know better why, unless all it knows is that we gave up. */
		if (read(cell->report_fd, &inner, sizeof(inner)) == (ssize_t)sizeof(inner) &&
			inner.kind != ERR_GONE)
			*e = inner;
		return -1;
	}
	cell->pid = made->pid;
	cell->pid_fd = made->pid_fd;
	return 0;
}

static void release(struct warden *w, struct cell *cell)
{
	own_close(&cell->lifeline_fd);
	own_close(&cell->report_fd);
	own_close(&cell->pid_fd);
	if (cell->uid != (uid_t)-1)
		uids_give_back(&w->uids, cell->uid);
	if (cell->cgroup.tree && !cgroup_remove(&cell->cgroup)) {
		w->leftovers =
			xgrow(w->leftovers, (w->leftovers_count + 1) * sizeof(*w->leftovers));
		w->leftovers[w->leftovers_count++] = cell->cgroup;
		w->retry_at_us = clock_now_us() + REMOVE_RETRY_US;
	}
	free(cell);
}

static int build(
	struct warden *w, struct pending *p, struct cell *cell, struct msg_made *m, struct err *e)
{
	struct isolation_made made = { .pid_fd = -1 };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = cell };

	if (judge_limits(w, p, m, e))
		return -1;
	cell->soft = m->soft;
	cell->has_namespaces = w->options->isolation->kind != ISOLATION_PROCESS;
	cell->uid = uids_take(&w->uids);
	if (cell->uid == (uid_t)-1)
		return err_set(e, ERR_LIMIT, "all user ids for cells are in use");
	if (take_group(w, p->spec.limits.at[LIMIT_CPUS_MILLI] != 0, &cell->cgroup, e))
		return -1;
	if (cell->cgroup.tree && cgroup_set_limits(&cell->cgroup, &p->spec.limits, e))
		return -1;
	if (clone_cell(w, p, cell, &made, e))
		return -1;
	epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, cell->pid_fd, &event);
	cell_plan_look(cell, clock_now_us());
	m->workspace = made.workspace;
	return 0;
}

/* Who has it need not ask us when a container's run has ended. Machines count for themselves. */
static int peak_to_hand_over(const struct warden *w, const struct cell *cell)
{
	bool is_container = w->options->isolation->kind == ISOLATION_CONTAINER;

	return is_container && cell->cgroup.tree ? cgroup_peak_fd(&cell->cgroup) : -1;
}

void make_next(struct warden *w)
{
	auto_free struct pending *p = w->pending;
	struct cell *cell = xalloc(sizeof(*cell));
	struct msg_made m = { .cell = p->id };
	struct err e = { 0 };

	w->pending = p->next;
	cell->id = p->id;
	cell->uid = (uid_t)-1;
	cell->limits = p->spec.limits;
	cell->pid_fd = cell->lifeline_fd = cell->report_fd = -1;
	cgroup_forget(&cell->cgroup);
	if (build(w, p, cell, &m, &e)) {
		tell_failure(w, p->id, &e);
		release(w, cell);
	} else {
		put_made(&w->out, &m);
		warden_tell_with(w, peak_to_hand_over(w, cell));
		cells_add(&w->cells, cell);
	}
	close(p->control_fd);
}

/* ---- clearing ---- */

void make_point_to_doctor(struct err *e)
{
	size_t used = strlen(e->text);

	if (strstr(e->text, "hotcell doctor") || strstr(e->text, ERR_ADVICE))
		return;
	if (e->sys_errno == EPERM || e->sys_errno == EACCES)
		snprintf(e->text + used, sizeof(e->text) - used,
			"; 'hotcell doctor' says what is missing here");
}

static void describe_end(
	struct cell *cell, const siginfo_t *info, struct msg_gone *m, struct err *e)
{
	if (read(cell->report_fd, e, sizeof(*e)) == (ssize_t)sizeof(*e)) {
		e->text[sizeof(e->text) - 1] = '\0';
		make_point_to_doctor(e);
		m->failed = 1;
		m->err_kind = (uint8_t)e->kind;
		m->text = e->text;
	} else if (info->si_code != CLD_EXITED) {
		m->text = "its keeper was killed";
	}
}

void make_undo(struct warden *w, struct cell *cell)
{
	struct msg_gone m = { .cell = cell->id, .text = "" };
	struct err e = { 0 };
	siginfo_t info = { 0 };

	waitid(P_PIDFD, (id_t)cell->pid_fd, &info, WEXITED | __WALL);
	cells_take_out(&w->cells, cell);
	/* By hand: a child that is being born may still hold a copy of the descriptor, and closing
	 * ours would then not take it out of the set. */
	epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, cell->pid_fd, NULL);
	/* Only a process cell can have anything left now: a pid namespace dies as a whole. */
	if (w->options->isolation->kind == ISOLATION_PROCESS && cell->cgroup.tree)
		cgroup_kill(&cell->cgroup);
	describe_end(cell, &info, &m, &e);
	cell_tell_usage(cell, &m.usage);
	w->options->isolation->clear(w->state, cell->pid);
	put_gone(&w->out, &m);
	warden_tell(w);
	release(w, cell);
	w->get_ahead_at_us = clock_now_us();
}

void make_retry_leftovers(struct warden *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->leftovers_count; i++)
		if (!cgroup_remove(&w->leftovers[i]))
			w->leftovers[kept++] = w->leftovers[i];
	w->leftovers_count = kept;
	w->retry_at_us = kept ? clock_now_us() + REMOVE_RETRY_US : 0;
}

void make_sweep(struct warden *w)
{
	if (!w->swept)
		cgroup_tree_sweep(&w->tree);
	w->swept = true;
}

/* ---- getting ahead ---- */

void make_get_ahead(struct warden *w)
{
	struct limits usual;
	struct err ignored;

	w->get_ahead_at_us = 0;
	if (w->unusable.kind != ERR_NONE || !w->sealed || w->options->once)
		return;
	make_sweep(w);
	w->options->isolation->get_ahead(w->state);
	if (!w->spare_ready && w->tree.version)
		w->spare_ready =
			cgroup_make(&w->tree, w->next_group++, false, &w->spare, &ignored) == 0;
	/* Most cells have the defaults: then nothing is left to be written. */
	limits_set_defaults(&usual);
	if (w->spare_ready)
		cgroup_set_limits(&w->spare, &usual, &ignored);
}

void make_drop_spare(struct warden *w)
{
	if (w->spare_ready)
		cgroup_remove(&w->spare);
	w->spare_ready = false;
}
