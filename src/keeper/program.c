#include "keeper/program.h"

#include "base/own.h"
#include "keeper/tree.h"
#include "keeper/vmm.h"
#include "wire/vmm_start.h"
#include "wire/vmm_warm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

struct pipes {
	int in[2];
	int out[2];
	int err[2];
};

static void pipes_close(struct pipes *p)
{
	int *all = p->in;

	for (size_t i = 0; i < sizeof(*p) / sizeof(int); i++)
		own_close(&all[i]);
}

/* A vm cell has no /dev; there the keeper's own input, opened before the cell had its root, is one. */
static int open_null(bool runs_vmm)
{
	return runs_vmm ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) :
			  open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int pipes_open(struct pipes *p, bool with_stdin, bool runs_vmm, struct err *e)
{
	*p = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (with_stdin) {
		if (pipe2(p->in, O_CLOEXEC))
			return err_sys(e, "pipe for stdin");
	} else {
		p->in[0] = open_null(runs_vmm);
		if (p->in[0] < 0)
			return err_sys(e, "open /dev/null");
	}
	if (pipe2(p->out, O_CLOEXEC) || pipe2(p->err, O_CLOEXEC))
		return err_sys(e, "pipe for output");
	return 0;
}

/* Never above the hard limit that we have ourselves: raising needs a capability. */
static void lower_limit(__rlimit_resource_t which, uint64_t soft, uint64_t hard)
{
	struct rlimit now = { .rlim_cur = soft, .rlim_max = hard };

	if (setrlimit(which, &now) == 0 || getrlimit(which, &now))
		return;
	if (hard < now.rlim_max)
		now.rlim_max = hard;
	now.rlim_cur = soft < now.rlim_max ? soft : now.rlim_max;
	setrlimit(which, &now);
}

static void set_limits(const struct msg_exec *exec, const struct keeper_options *options)
{
	/* One more for the keeper, and a mother of machines. */
	uint64_t tasks = (exec->processes + 1) * (options->tasks_each ? options->tasks_each : 1);

	/* 1, not 0: see step_core() of the container, where this was done before its filter. */
	lower_limit(RLIMIT_CORE, 1, 1);
	lower_limit(RLIMIT_MEMLOCK, 65536, 65536);
	lower_limit(RLIMIT_MSGQUEUE, 65536, 65536);
	lower_limit(RLIMIT_NICE, 0, 0);
	lower_limit(RLIMIT_RTPRIO, 0, 0);
	lower_limit(RLIMIT_SIGPENDING, 1024, 1024);
	lower_limit(RLIMIT_STACK, 8 << 20, 64 << 20);
	if (exec->file_bytes)
		lower_limit(RLIMIT_FSIZE, exec->file_bytes, exec->file_bytes);
	/* The VMM holds its guest's limit itself. */
	if (options->runs_vmm)
		lower_limit(RLIMIT_NOFILE, VMM_FDS_MAX, VMM_FDS_MAX);
	else if (exec->open_files)
		lower_limit(RLIMIT_NOFILE, exec->open_files, exec->open_files);
	if (exec->processes)
		lower_limit(RLIMIT_NPROC, tasks, tasks);
	/* Whole seconds, rounded up: the finer limit is the warden's. SIGXCPU at the first,
	 * SIGKILL a second later. */
	if (exec->cpu_ms)
		lower_limit(RLIMIT_CPU, exec->cpu_ms / 1000 + 1, exec->cpu_ms / 1000 + 2);
}

/* Of all signals the keeper ignores one, and the warden was started with none ignored. */
static void default_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

struct start {
	const struct pipes *pipes;
	const struct msg_exec *exec;
	const struct keeper_options *options;
	struct vmm_fds vmm_fds;
	const int *driver_fds; /* NULL: it is no driver */
};

/* The numbers are above what programs may have: to be done before their limits are set. */
static int place_driver_fds(const int *fds)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur <= WARM_DRIVER_FD) {
		files.rlim_cur = WARM_DRIVER_FD + 1;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return dup2(fds[0], WARM_DRIVER_FD) < 0 || dup2(fds[1], WARM_ANSWER_FD) < 0 ? errno : 0;
}

/* Runs in the child, which shares our memory until it is another program (vfork): it must touch
 * nothing but its own descriptors, limits and signals. */
static int become(const struct start *s)
{
	const struct pipes *p = s->pipes;

	setsid();
	/* If the keeper is killed, so is what it started; in a pid namespace the kernel sees to
	 * that anyway. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(p->in[0], 0) < 0 || dup2(p->out[1], 1) < 0 || dup2(p->err[1], 2) < 0)
		return errno;
	if (chdir(s->options->workspace))
		return errno;
	if (s->driver_fds && place_driver_fds(s->driver_fds))
		return errno;
	set_limits(s->exec, s->options);
	default_signals();
	if (s->options->runs_vmm)
		return vmm_become(s->exec, &s->vmm_fds);
	execve(exec_argv(s->exec)[0], (char *const *)(uintptr_t)exec_argv(s->exec),
		(char *const *)(uintptr_t)exec_env(s->exec));
	return errno;
}

static pid_t start(const struct start *s, struct err *e)
{
	volatile int child_errno = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		child_errno = become(s); // NOLINT(clang-analyzer-unix.Vfork)
		_exit(127);
	}
	if (pid > 0 && !child_errno)
		return pid;
	if (pid > 0) {
		waitpid(pid, NULL, 0);
		errno = child_errno;
	}
	err_sys(e, "start '%s'", exec_argv(s->exec)[0]);
	return -1;
}

/* Our ends, ready for the loop; the others stay with the caller. */
static void keep_ends(struct program *p, struct pipes *pipes)
{
	p->stdin_fd = take_fd(&pipes->in[1]);
	p->out_fd[0] = take_fd(&pipes->out[0]);
	p->out_fd[1] = take_fd(&pipes->err[0]);
	fcntl(p->out_fd[0], F_SETFL, O_NONBLOCK);
	fcntl(p->out_fd[1], F_SETFL, O_NONBLOCK);
	if (p->stdin_fd >= 0)
		fcntl(p->stdin_fd, F_SETFL, O_NONBLOCK);
}

int program_start(struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, int line_fd, int snapshot_fd, struct err *e)
{
	struct pipes pipes;
	struct start s = { &pipes, exec, options, { -1, line_fd, snapshot_fd, -1 }, NULL };
	pid_t pid = -1;

	if (options->runs_vmm)
		vmm_write_command(exec, options);
	if (pipes_open(&pipes, exec->stdin_kind == STDIN_STREAM, options->runs_vmm, e) == 0)
		pid = start(&s, e);
	if (pid > 0) {
		*p = (struct program){ .pid = pid };
		keep_ends(p, &pipes);
	}
	pipes_close(&pipes);
	return pid > 0 ? 0 : -1;
}

int program_start_driver(struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, const int fds[2], struct err *e)
{
	struct pipes pipes;
	struct start s = { &pipes, exec, options, { -1, -1, -1, -1 }, fds };
	pid_t pid = -1;

	if (options->runs_vmm)
		vmm_write_command(exec, options);
	if (pipes_open(&pipes, true, false, e) == 0)
		pid = start(&s, e);
	if (pid > 0) {
		*p = (struct program){ .pid = pid };
		keep_ends(p, &pipes);
	}
	pipes_close(&pipes);
	return pid > 0 ? 0 : -1;
}

int program_start_warm(struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, const struct vmm_fds *fds, struct err *e)
{
	struct pipes pipes;
	struct start s = { &pipes, exec, options, *fds, NULL };
	pid_t pid = -1;

	vmm_write_warm_command(exec, fds->mother >= 0);
	if (pipes_open(&pipes, false, true, e) == 0)
		pid = start(&s, e);
	/* What it says before its first run, nobody would hear. */
	pipes_close(&pipes);
	*p = (struct program){ .pid = pid, .stdin_fd = -1, .out_fd = { -1, -1 } };
	return pid > 0 ? 0 : -1;
}

int program_open_pipes(struct program *p, bool with_stdin, int ret_streams[3], struct err *e)
{
	struct pipes pipes;

	if (pipes_open(&pipes, with_stdin, true, e)) {
		pipes_close(&pipes);
		return -1;
	}
	keep_ends(p, &pipes);
	ret_streams[0] = pipes.in[0];
	ret_streams[1] = pipes.out[1];
	ret_streams[2] = pipes.err[1];
	return 0;
}

int program_open_stdin(struct program *p, bool with_stdin, int *ret_stream, struct err *e)
{
	int ends[2] = { -1, -1 };

	if (with_stdin && pipe2(ends, O_CLOEXEC))
		return err_sys(e, "pipe for stdin");
	if (!with_stdin)
		ends[0] = open_null(true);
	if (ends[0] < 0)
		return err_sys(e, "open /dev/null");
	p->stdin_fd = ends[1];
	if (p->stdin_fd >= 0)
		fcntl(p->stdin_fd, F_SETFL, O_NONBLOCK);
	*ret_stream = ends[0];
	return 0;
}

static void note_end(struct program *p, int status)
{
	p->main_reaped = true;
	p->wait_status = status;
}

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

static bool is_counted(pid_t pid, const pid_t uncounted[UNCOUNTED])
{
	for (int i = 0; i < UNCOUNTED; i++)
		if (pid == uncounted[i])
			return false;
	return true;
}

uint64_t program_cpu_of(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

void program_reap(struct program *p, struct program *aside, const pid_t uncounted[UNCOUNTED])
{
	for (;;) {
		int status;
		struct rusage used;
		pid_t pid = wait4(-1, &status, WNOHANG, &used);
		uint64_t cpu_us;

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0) {
			p->all_reaped = pid < 0;
			return;
		}
		if (pid == aside->pid)
			note_end(aside, status);
		if (pid == aside->pid || !is_counted(pid, uncounted))
			continue;
		cpu_us = micros(&used.ru_utime) + micros(&used.ru_stime);
		if (pid == p->pid) {
			note_end(p, status);
			cpu_us -= cpu_us < p->cpu_before_us ? cpu_us : p->cpu_before_us;
		}
		p->processes++;
		p->cpu_us += cpu_us;
		if ((uint64_t)used.ru_maxrss * 1024 > p->max_rss_bytes)
			p->max_rss_bytes = (uint64_t)used.ru_maxrss * 1024;
	}
}

void program_kill_all(bool kill_all_is_safe)
{
	if (kill_all_is_safe)
		kill(-1, SIGKILL);
	else
		tree_kill_descendants();
}

void program_kill_tree(pid_t pid)
{
	kill(pid, SIGKILL);
	tree_kill(pid);
}

void program_close_pipes(struct program *p)
{
	own_close(&p->stdin_fd);
	own_close(&p->out_fd[0]);
	own_close(&p->out_fd[1]);
	p->stdin_fd = p->out_fd[0] = p->out_fd[1] = -1;
}

void program_close(struct program *p)
{
	program_close_pipes(p);
	*p = (struct program){ .stdin_fd = -1, .out_fd = { -1, -1 } };
}

void program_end_all(struct program *p)
{
	kill(-1, SIGKILL);
	while (wait4(-1, NULL, 0, NULL) > 0 || errno == EINTR)
		;
	program_close(p);
}
