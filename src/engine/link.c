/* The connection to a warden: starting it, and what it says. */
#include "engine/engine.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const char *const isolation_names[] = {
	[ISOLATION_PROCESS] = "process",
	[ISOLATION_CONTAINER] = "container",
	[ISOLATION_VM] = "vm",
};

const char *isolation_name(enum isolation_kind kind)
{
	return isolation_names[kind];
}

static void on_made(struct hotcell *h, struct link *link, struct frame_in *in, int *peak_fd)
{
	struct msg_made m;
	struct hotcell_cell *cell;

	if (!get_made(in, &m))
		return;
	cell = cell_find(h, link, m.cell);
	if (!cell)
		return;
	cell->made = true;
	own_close(&cell->peak_fd);
	cell->peak_fd = take_fd(peak_fd);
	cell->facts = m;
	cell->facts.workspace = NULL;
	free(cell->workspace);
	cell->workspace = xstrdup(m.workspace);
	if (cell->work)
		run_on_made(cell->work);
}

static void on_usage(struct hotcell *h, struct link *link, struct frame_in *in)
{
	struct msg_usage m;
	struct hotcell_cell *cell;

	if (!get_usage(in, &m))
		return;
	cell = cell_find(h, link, m.cell);
	if (!cell)
		return;
	cell->last_usage = m.usage;
	if (cell->work)
		run_on_usage(cell->work, &m.usage);
}

static void on_gone(struct hotcell *h, struct link *link, struct frame_in *in)
{
	struct msg_gone m;
	struct hotcell_cell *cell;

	if (!get_gone(in, &m))
		return;
	cell = cell_find(h, link, m.cell);
	if (!cell)
		return;
	cell->last_usage = m.usage;
	cell->never_up = m.failed;
	if (cell->failure.kind != ERR_NONE)
		; /* we had it killed, and know why */
	else if (m.failed)
		err_set(&cell->failure, m.err_kind ? m.err_kind : ERR_SYSTEM, "%s", m.text);
	else
		err_set(&cell->failure, ERR_GONE, "the cell ended unexpectedly%s%s",
			*m.text ? ": " : "", m.text);
	cell_end(cell);
}

static void lose_cell(struct hotcell_cell *cell)
{
	err_set(&cell->failure, ERR_GONE, "hotcell-warden ended unexpectedly");
	cell_end(cell);
}

/* The warden is no more, and so are all its cells. */
static void on_lost(struct hotcell *h, struct link *link)
{
	link_close(h, link, true);
	link->is_lost = true;
	for (size_t i = 0; i < COUNT(h->cells); i++)
		for (struct hotcell_cell *cell = h->cells[i]; cell;) {
			struct hotcell_cell *next = cell->next;

			if (cell->link == link && !cell->gone)
				lose_cell(cell);
			cell = next;
		}
}

static void on_event(struct hotcell *h, struct source *source, uint32_t events)
{
	struct link *link = (struct link *)source;

	(void)events;
	while (link->socket_fd >= 0) {
		struct frame_in in;
		uint8_t type;
		auto_close int fd = -1;
		int got = frame_recv(link->socket_fd, h->in_buffer, MSG_DONTWAIT, &type, &in, &fd);

		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			on_lost(h, link);
			return;
		}
		if (type == WARDEN_MADE)
			on_made(h, link, &in, &fd);
		else if (type == WARDEN_USAGE)
			on_usage(h, link, &in);
		else if (type == WARDEN_GONE)
			on_gone(h, link, &in);
	}
}

static size_t mount_dirs_count(const struct hotcell *h)
{
	size_t count = 0;

	while (h->mount_dirs[count])
		count++;
	return count;
}

static int spawn_warden(struct hotcell *h, struct link *link, bool check, struct err *e)
{
	const char *argv[16 + 2 * MOUNT_DIRS_MAX];
	size_t argc = 0;
	int ends[2];
	int failed;

	if (mount_dirs_count(h) > MOUNT_DIRS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d directories for mounts", MOUNT_DIRS_MAX);
	argv[argc++] = "hotcell-warden";
	argv[argc++] = "--isolation";
	argv[argc++] = isolation_names[link->kind];
	argv[argc++] = "--socket";
	argv[argc++] = "3";
	if (h->drivers_dir) {
		argv[argc++] = "--drivers";
		argv[argc++] = h->drivers_dir;
	}
	if (h->allow_host_network)
		argv[argc++] = "--host-network";
	for (char **at = h->mount_dirs; *at; at++) {
		argv[argc++] = "--mount";
		argv[argc++] = *at;
	}
	if (h->once)
		argv[argc++] = "--once";
	if (check)
		argv[argc++] = "--check";
	argv[argc] = NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	failed = spawn_program(h->warden_path, argv, ends[1], &link->pid_fd, e);
	close(ends[1]);
	if (failed) {
		close(ends[0]);
		return -1;
	}
	link->socket_fd = ends[0];
	return 0;
}

/* Another one's child: how it ends is not for us to wait for. */
static int ask_for_warden(struct hotcell *h, struct link *link, bool check, struct err *e)
{
	struct hotcell_error error = { 0 };
	int socket_fd = -1;

	if (check)
		return err_set(e, ERR_UNAVAILABLE, "this warden cannot be asked for what it finds");
	if (h->start_warden(h->context, isolation_names[link->kind], &socket_fd, &error))
		return err_set(
			e, error.kind ? (enum err_kind)error.kind : ERR_SYSTEM, "%s", error.text);
	link->socket_fd = socket_fd;
	link->pid_fd = -1;
	return 0;
}

int link_start(struct hotcell *h, struct link *link, bool check, struct err *e)
{
	if (link->socket_fd >= 0)
		return 0;
	if (h->start_warden ? ask_for_warden(h, link, check, e) : spawn_warden(h, link, check, e))
		return -1;
	link->sealed = link->is_lost = false;
	link->source.on_event = on_event;
	return source_add(h, &link->source, link->socket_fd, EPOLLIN) ? err_sys(e, "epoll") : 0;
}

int link_send(struct hotcell *h, struct link *link, int fd, struct err *e)
{
	if (link->socket_fd >= 0 && frame_send(link->socket_fd, &h->out, fd) == 0)
		return 0;
	return err_set(e, errno == EMSGSIZE ? ERR_LIMIT : ERR_GONE, "hotcell-warden: %s",
		link->socket_fd < 0 ? "not running" : strerror(errno));
}

static int allow_all(struct hotcell *h, struct link *link, char **needs, struct err *e)
{
	for (char **at = needs; *at; at++) {
		put_path(&h->out, WARDEN_ALLOW, &(struct msg_path){ .path = *at });
		if (link_send(h, link, -1, e))
			return -1;
	}
	return 0;
}

int link_seal(struct hotcell *h, struct link *link, struct err *e)
{
	if (link->sealed || h->wardens_are_sealed)
		return 0;
	for (unsigned i = 0; i < registry_count(h->registry); i++) {
		const struct language *language = registry_at(h->registry, i);

		for (unsigned k = 0; k < language->find_count; k++) {
			char **needs = language_needs(language, &language->find[k]);
			int failed = allow_all(h, link, needs, e);

			strings_free(needs);
			if (failed)
				return -1;
		}
	}
	put_nothing(&h->out, WARDEN_SEAL);
	if (link_send(h, link, -1, e))
		return -1;
	link->sealed = true;
	return 0;
}

int hotcell_is_well(const struct hotcell *h)
{
	for (size_t i = 0; i < COUNT(h->links); i++)
		if (h->links[i].is_lost)
			return 0;
	return 1;
}

int hotcell_mend(struct hotcell *h, struct hotcell_error *error)
{
	struct err e = { 0 };

	for (size_t i = 0; i < COUNT(h->links); i++) {
		struct link *link = &h->links[i];

		if (link->is_lost && (link_start(h, link, false, &e) || link_seal(h, link, &e))) {
			error_out(error, &e);
			return -1;
		}
	}
	return 0;
}

void link_close(struct hotcell *h, struct link *link, bool wait)
{
	if (link->socket_fd < 0)
		return;
	source_remove(h, &link->source, link->socket_fd);
	close(take_fd(&link->socket_fd));
	if (link->pid_fd < 0)
		return;
	if (wait)
		waitid(P_PIDFD, (id_t)link->pid_fd, &(siginfo_t){ 0 }, WEXITED | __WALL);
	close(take_fd(&link->pid_fd));
}
