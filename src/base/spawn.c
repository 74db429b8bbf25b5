#include "base/spawn.h"

#include "base/fd.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CHILD_STACK = 65536 };

struct birth {
	const char *path;
	char *const *argv;
	char *const *environment;
	int in_fd;
	int out_fd;
	int err_fd;
	int socket_fd; /* -1: none */
	pid_t lord;    /* with whom it dies; 0: with nobody */
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

/* Runs in the child, which shares our memory until it is that program. */
static int be_born(void *context)
{
	struct birth *b = context;
	bool has_socket = b->socket_fd >= 0;
	sigset_t none;

	/* Out of the way of the numbers that are given next. */
	int in = fcntl(b->in_fd, F_DUPFD_CLOEXEC, SPAWN_SOCKET_FD + 1);
	int out = fcntl(b->out_fd, F_DUPFD_CLOEXEC, SPAWN_SOCKET_FD + 1);
	int err = fcntl(b->err_fd, F_DUPFD_CLOEXEC, SPAWN_SOCKET_FD + 1);
	int sock = has_socket ? fcntl(b->socket_fd, F_DUPFD_CLOEXEC, SPAWN_SOCKET_FD + 1) : -1;

	setsid(); /* a Ctrl-C in our terminal is not for it */
	/* Whoever waits for the end of our output must not wait for the program's too. The
	 * sanitizers' reports are worth that, though. */
	if (in < 0 || out < 0 || err < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0)
		goto failed;
#ifndef __SANITIZE_ADDRESS__
	if (dup2(err, 2) < 0)
		goto failed;
#endif
	if (has_socket && dup2(sock, SPAWN_SOCKET_FD) < 0)
		goto failed;
	syscall(SYS_close_range, SPAWN_SOCKET_FD + has_socket, ~0U, 0);
	if (b->lord && prctl(PR_SET_PDEATHSIG, SIGKILL))
		goto failed;
	if (b->lord && getppid() != b->lord)
		_exit(127); /* too late to be told */
	/* Handlers end at exec by themselves; what is ignored stays so unless it is undone. */
	for (int s = 1; s <= 64; s++)
		if (b->ignored & (1ULL << (s - 1)))
			reset_signal(s);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(b->path, b->argv, b->environment);
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

int spawn_program(
	const char *path, const char *const *argv, int socket_fd, int *ret_pid_fd, struct err *e)
{
	static char *const no_environment[] = { NULL };
	auto_close int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct birth birth = {
		.path = path,
		.argv = (char *const *)(uintptr_t)argv,
		.environment = no_environment,
		.in_fd = null_fd,
		.out_fd = null_fd,
		.err_fd = null_fd,
		.socket_fd = socket_fd,
		.ignored = find_ignored(),
	};

	return spawn(&birth, ret_pid_fd, e);
}

int spawn_filter(const char *path, const char *const *environment, int in_fd, int out_fd,
	int *ret_pid_fd, struct err *e)
{
	const char *argv[] = { path, NULL };
	auto_close int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct birth birth = {
		.path = path,
		.argv = (char *const *)(uintptr_t)argv,
		.environment = (char *const *)(uintptr_t)environment,
		.in_fd = in_fd,
		.out_fd = out_fd,
		.err_fd = null_fd,
		.socket_fd = -1,
		.lord = getpid(),
		.ignored = find_ignored(),
	};

	return spawn(&birth, ret_pid_fd, e);
}
