/* The connection to a warden: starting it, and what it says. */
#include "engine/engine.h"

#include "base/fd.h"
#include "base/own.h"

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

enum { WARDEN_SOCKET_FD = 3, CHILD_STACK = 65536 };

struct birth {
	const char *path;
	char *const *argv;
	int socket_fd;
	int null_fd;
	int errno_at_exec;
	uint64_t ignored; /* a bit for each signal, 1 at the bottom */
};

/* glibc keeps two signals to itself and will not touch them, but whoever started us may have ignored
 * those too. */
static void reset_signal(int number)
{
	static const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} by_default = { 0 };

	syscall(SYS_rt_sigaction, number, &by_default, NULL, sizeof(by_default.mask));
}

/* Runs in the child, which shares our memory until it is the warden. */
static int be_born(void *context)
{
	struct birth *b = context;
	static char *const no_environment[] = { NULL };
	sigset_t none;

	/* Out of the way of the numbers that are given next. */
	int sock = fcntl(b->socket_fd, F_DUPFD_CLOEXEC, WARDEN_SOCKET_FD + 1);
	int null = fcntl(b->null_fd, F_DUPFD_CLOEXEC, WARDEN_SOCKET_FD + 1);

	setsid(); /* a Ctrl-C in our terminal is not for it */
	/* Whoever waits for the end of our output must not wait for the warden's too. The
	 * sanitizers' reports are worth that, though. */
	if (sock < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		goto failed;
#ifndef __SANITIZE_ADDRESS__
	if (dup2(null, 2) < 0)
		goto failed;
#endif
	if (dup2(sock, WARDEN_SOCKET_FD) < 0)
		goto failed;
	syscall(SYS_close_range, WARDEN_SOCKET_FD + 1, ~0U, 0);
	/* Handlers end at exec by themselves; what is ignored stays so unless it is undone. */
	for (int s = 1; s <= 64; s++)
		if (b->ignored & (1ULL << (s - 1)))
			reset_signal(s);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(b->path, b->argv, no_environment);
failed:
	b->errno_at_exec = errno;
	_exit(127);
}

/* One line of /proc tells it; asking for each signal would take 64 calls. */
static uint64_t find_ignored(void)
{
	auto_buf struct buf text = { 0 };
	struct err e;
	char *line;

	if (fd_slurp(AT_FDCWD, "/proc/self/status", 65536, &text, &e))
		return ~0ULL;
	line = strstr(text.data, "SigIgn:");
	return line ? strtoull(line + 7, NULL, 16) : ~0ULL;
}

/* Like vfork, with a pidfd and without SIGCHLD: whoever embeds us never hears of it. */
static int spawn(struct birth *b, int *ret_pid_fd, struct err *e)
{
	auto_free char *stack = xalloc(CHILD_STACK);
	sigset_t all;
	sigset_t old;
	pid_t pid;

	/* No handler of the program may run in the child on our memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(
		be_born, stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | CLONE_PIDFD, b, ret_pid_fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return err_sys(e, "start '%s'", b->path);
	if (b->errno_at_exec) {
		waitid(P_PIDFD, (id_t)*ret_pid_fd, &(siginfo_t){ 0 }, WEXITED | __WALL);
		close(*ret_pid_fd);
		errno = b->errno_at_exec;
		return err_sys(e, "start '%s'", b->path);
	}
	return 0;
}

static void on_made(struct hotcell *h, struct link *link, struct frame_in *in)
{
	struct msg_made m;
	struct hotcell_cell *cell;

	if (!get_made(in, &m))
		return;
	cell = cell_find(h, link, m.cell);
	if (!cell)
		return;
	cell->made = true;
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
		int got = frame_recv(link->socket_fd, h->in_buffer, MSG_DONTWAIT, &type, &in, NULL);

		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			on_lost(h, link);
			return;
		}
		if (type == WARDEN_MADE)
			on_made(h, link, &in);
		else if (type == WARDEN_USAGE)
			on_usage(h, link, &in);
		else if (type == WARDEN_GONE)
			on_gone(h, link, &in);
	}
}

static int spawn_warden(struct hotcell *h, struct link *link, bool check, struct err *e)
{
	const char *argv[16];
	size_t argc = 0;
	int ends[2];
	struct birth birth;
	int failed;

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
	if (h->once)
		argv[argc++] = "--once";
	if (check)
		argv[argc++] = "--check";
	argv[argc] = NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, "socketpair");
	birth = (struct birth){
		.path = h->warden_path,
		.argv = (char *const *)(uintptr_t)argv,
		.socket_fd = ends[1],
		.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC),
	};
	birth.ignored = find_ignored();
	failed = spawn(&birth, &link->pid_fd, e);
	own_close(&birth.null_fd);
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
	if (link->sealed)
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
