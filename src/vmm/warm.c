#include "vmm/warm.h"

#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/call_path.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/signal.h"
#include "vmm/snapshot.h"
#include "vmm/stats.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "wire/vmm_start.h"
#include "wire/vmm_warm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 125, STREAMS = 3, PIDS_FROM = 1000000, PIDS = 1000000 };

static enum warm_mode mode;
static bool is_spoiled;
static bool is_last;
static bool is_rehearsal;
static uint8_t request[1 + WARM_REQUEST_MAX + WARM_SEED_SIZE];
static bool is_running;      /* between a request and its answer */
static bool is_whole;        /* the driver has read all of it */
static bool is_quiet;        /* the run has left no trace but in its memory (wire/vmm_warm.h) */
static bool has_streams;     /* descriptors 0 to 2 are there, and as a quiet run found them */
static bool has_new_streams; /* they came with this request */
static uint8_t seed[WARM_SEED_SIZE];
static size_t request_len; /* of what is left to be read */
static size_t request_at;
static size_t request_size; /* of all of it, without the seed */
static int ends_at_close;   /* of this descriptor; 0 = not */
static uint8_t foretold_status;
static uint64_t cpu_before_us;

void warm_open(struct guest *g, enum warm_mode wanted)
{
	(void)g;
	mode = wanted;
	/* Programs that the guest executes have no part in it. */
	fcntl(VMM_WARM_FD, F_SETFD, FD_CLOEXEC);
	fcntl(VMM_SNAPSHOT_FD, F_SETFD, FD_CLOEXEC);
}

void warm_leave(struct guest *g)
{
	(void)g;
	mode = WARM_OFF;
	close(VMM_WARM_FD);
	close(VMM_SNAPSHOT_FD);
}

void warm_spoil(struct guest *g)
{
	(void)g;
	is_spoiled = true;
}

/* Between runs nobody listens to what a program says. */
static _Noreturn void give_up(struct guest *g, const struct err *e)
{
	struct warm_answer a = { .kind = WARM_BROKEN };
	struct iovec pieces[] = {
		{ &a, sizeof(a) },
		{ (void *)(uintptr_t)e->text, strnlen(e->text, WARM_TEXT_MAX - 1) + 1 },
	};
	const struct msghdr message = { .msg_iov = pieces, .msg_iovlen = COUNT(pieces) };

	if (mode == WARM_SERVES)
		sendmsg(VMM_WARM_FD, &message, MSG_NOSIGNAL);
	else
		guest_say(g, "hotcell-vmm: %s", e->text);
	_exit(FAILED);
}

/* What this process has used so far. */
static uint64_t look_at_usage(uint64_t *ret_max_rss_bytes)
{
	struct rusage usage = { 0 };

	getrusage(RUSAGE_SELF, &usage);
	*ret_max_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void answer(uint32_t kind, uint32_t status)
{
	struct warm_answer a = { .kind = kind, .status = status };

	a.cpu_us = look_at_usage(&a.max_rss_bytes) - cpu_before_us;
	if (send(VMM_WARM_FD, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
		_exit(0); /* nobody is interested any more */
}

void warm_idle(struct guest *g)
{
	struct err e = { 0 };

	if (mode != WARM_MAKES_SNAPSHOT)
		return;
	guest_flush_output(g);
	if (snapshot_write(g, VMM_SNAPSHOT_FD, &e))
		give_up(g, &e);
	_exit(0);
}

/* ---- a request ---- */

static int add_seed(ssize_t n)
{
	if (getrandom(request + n, WARM_SEED_SIZE, 0) != WARM_SEED_SIZE)
		_exit(FAILED);
	request_at = 1;
	request_size = (size_t)n - 1;
	request_len = request_size + WARM_SEED_SIZE;
	memcpy(seed, request + n, WARM_SEED_SIZE);
	is_running = true;
	is_whole = false;
	is_quiet = true;
	return 1;
}

/* 1: there is one. 0: not yet. */
static int receive(void)
{
	struct iovec piece = { request, 1 + WARM_REQUEST_MAX };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(STREAMS * sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(VMM_WARM_FD, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int streams[STREAMS];
	bool are_low = true;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 1 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		_exit(0); /* the keeper is gone */
	is_rehearsal = request[0] & WARM_REHEARSAL;
	is_last = request[0] & WARM_LAST;
	has_new_streams = false;
	if (is_rehearsal || (has_streams && message.msg_controllen == 0))
		return add_seed(n);
	if (message.msg_controllen < CMSG_LEN(sizeof(streams)))
		_exit(0);
	memcpy(streams, CMSG_DATA(&control.head), sizeof(streams));
	/* Usually they are just those. */
	for (int i = 0; i < STREAMS; i++)
		are_low = are_low && streams[i] == i && fcntl(i, F_SETFD, 0) == 0;
	for (int i = 0; i < STREAMS && !are_low; i++) {
		/* Descriptors 0 to 2 are closed between runs: the new ones may be any of them. */
		int up = fcntl(streams[i], F_DUPFD_CLOEXEC, VMM_OWN_FDS);

		close(streams[i]);
		streams[i] = up;
	}
	for (int i = 0; i < STREAMS && !are_low; i++) {
		dup2(streams[i], i);
		close(streams[i]);
	}
	has_streams = has_new_streams = true;
	return add_seed(n);
}

const uint8_t *warm_request(size_t *ret_size)
{
	*ret_size = request_size;
	return request_size ? request + 1 : NULL;
}

/* In between nothing in the machine moves, whoever else in it waits for whatever. */
static void wait_for_request(void)
{
	struct pollfd poll_fd = { .fd = VMM_WARM_FD, .events = POLLIN };

	while (!receive())
		poll(&poll_fd, 1, -1);
}

/* What must not be the same in two runs: the time, and the number by which libraries notice that
 * their randomness is somebody else's too. */
static void begin_run(struct guest *g)
{
	static unsigned runs;
	static unsigned long out_fds; /* of the streams that are there */
	pid_t own = getpid();
	uint64_t ignored;

	g->pid = PIDS_FROM + (int)(((unsigned)own * 64 + runs++) % PIDS);
	pids_set(own, g->pid);
	guest_thread(g)->tid = g->pid;
	stats_clear();
	cpu_before_us = look_at_usage(&ignored);
	tick_start();
	thread_go_on(g);
	guest_set_clock(g);
	if (has_new_streams) {
		file_update_output(g);
		out_fds = guest_shared(g)->out_fds;
	}
	g->discards_output = is_rehearsal;
	guest_shared(g)->out_fds = is_rehearsal ? 1 << 1 | 1 << 2 : out_fds;
	thread_publish(g);
}

static int64_t read_request(struct guest *g, uint64_t address, uint64_t size)
{
	struct thread *t = guest_thread(g);
	uint64_t n;

	/* A request that ends where a portion does is followed by an empty one. */
	if (request_len == 0 && request_at && !is_whole) {
		is_whole = true;
		return 0;
	}
	if (request_len == 0 && is_running)
		return -EBADF; /* it is the program that asks, not its driver */
	if (request_len == 0 && mode == WARM_MAKES_SNAPSHOT) {
		t->waits_for_request = true;
		return CALL_WAITS;
	}
	if (request_len == 0) {
		wait_for_request();
		begin_run(g);
	}
	n = request_len < size ? request_len : size;
	if (mem_write(&g->mem, address, request + request_at, n))
		return -EFAULT;
	request_at += n;
	request_len -= n;
	is_whole = request_len == 0 && n < size;
	return (int64_t)n;
}

/* ---- going out ---- */

/* Calls that concern only the program's own memory and time, or one of its three streams without
 * changing how that works. */
static bool stays_inside(const struct call *call)
{
	switch (call->number) {
	case SYS_read:
	case SYS_write:
	case SYS_writev:
	case SYS_fstat:
	case SYS_lseek:
		return call->a[0] < STREAMS;
	case SYS_rt_sigaction: /* the host treats children as the program wants */
		return call->a[0] != SIGCHLD;
	case SYS_brk:
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_madvise:
	case SYS_futex:
	case SYS_rt_sigprocmask:
	case SYS_rt_sigreturn:
	case SYS_sigaltstack:
	case SYS_sched_yield:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_clock_gettime:
	case SYS_clock_getres:
	case SYS_gettimeofday:
	case SYS_time:
	case SYS_times:
	case SYS_getrusage:
	case SYS_getrandom:
	case SYS_getpid:
	case SYS_gettid:
	case SYS_getuid:
	case SYS_geteuid:
	case SYS_getgid:
	case SYS_getegid:
	case SYS_uname:
	case SYS_sysinfo:
	case SYS_exit:
	case SYS_exit_group:
		return true;
	default:
		return false;
	}
}

static void wait_for_order(uint8_t wanted)
{
	uint8_t order = 0;
	ssize_t n;

	do
		n = read(VMM_WARM_FD, &order, sizeof(order));
	while (n < 0 && errno == EINTR);
	if (n != 1 || order != wanted)
		_exit(0);
}

void warm_watch(const struct call *call)
{
	if (mode != WARM_SERVES || !is_quiet || stays_inside(call))
		return;
	is_quiet = has_streams = false;
	if (!is_running || is_rehearsal)
		return;
	answer(WARM_GOES_OUT, 0);
	wait_for_order(WARM_STAGED);
}

/* ---- the end of a run ---- */

static void reset_descriptors(struct guest *g)
{
	struct err e = { 0 };

	/* What is made then comes out at its number while these are still open. */
	syscall(SYS_close_range, STREAMS, VMM_GUEST_FDS - 1, 0);
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++)
		fds_forget(fd);
	if (snapshot_make_descriptors(&e))
		give_up(g, &e);
}

/* All that a run that was not quiet may have changed outside of its memory. */
static void reset_process(struct guest *g)
{
	static const struct itimerval none;

	reset_descriptors(g);
	syscall(SYS_close_range, 0, STREAMS - 1, 0);
	for (int i = ITIMER_REAL; i <= ITIMER_PROF; i++)
		setitimer((__itimer_which_t)i, &none, NULL);
	for (int i = 0; i < THREADS_MAX; i++)
		path_forget_opening(i);
	signal_forget_noted();
	umask(022);
	if (chdir("/workspace") && chdir("/"))
		_exit(FAILED);
}

static void end_run(struct guest *g, uint8_t status)
{
	struct err e = { 0 };

	if (!is_rehearsal)
		answer(is_spoiled ? WARM_DONE_SPOILED : WARM_DONE, status);
	if (is_spoiled || is_last)
		_exit(0);
	tick_stop();
	/* Going back takes a while, and whoever waits for the results comes first. */
	if (!is_rehearsal)
		wait_for_order(WARM_RESET);
	if (!is_quiet)
		reset_process(g);
	request_len = request_at = 0;
	ends_at_close = 0;
	is_running = false;
	if (snapshot_reset(g, &e) || (HOTCELL_VERIFY_RESETS && snapshot_verify(g, &e)))
		give_up(g, &e);
	if (!is_quiet)
		signal_settle_children(g);
	answer(WARM_READY, 0);
	/* The thread that waited for a request when the snapshot was made does so again. */
	guest_thread(g)->waits = false;
	guest_thread(g)->tries_again = true;
}

bool warm_exit(struct guest *g, uint8_t status)
{
	if (mode != WARM_SERVES || !is_running || g->in_vfork)
		return false;
	/* Who does not read what it wrote is a reason to die of, see guest_exit(). */
	if (guest_flush_output(g))
		return false;
	end_run(g, status);
	return true;
}

/* The seed says that it is the driver who writes, and not a program that tries every number. (One that
 * looks for the seed in its own memory gains nothing: it may end as it pleases anyway.) */
static int64_t end_by_driver(struct guest *g, uint64_t address, uint64_t size)
{
	struct {
		uint8_t status;
		uint8_t seed[WARM_SEED_SIZE];
		uint8_t closes;
	} end = { 0 };
	bool is_later = size == sizeof(end);

	if (!is_running || (size != offsetof(typeof(end), closes) && !is_later) ||
		mem_read(&g->mem, &end, address, size) || memcmp(end.seed, seed, sizeof(seed)) != 0)
		return -EBADF;
	if (is_later) {
		ends_at_close = end.closes;
		foretold_status = end.status;
		return (int64_t)size;
	}
	guest_flush_output(g);
	end_run(g, end.status);
	return CALL_SET_REGISTERS;
}

bool warm_takes(struct guest *g, const struct call *call)
{
	if (ends_at_close && call->number == SYS_close && call->a[0] == (uint64_t)ends_at_close)
		return mode == WARM_SERVES && !g->in_vfork;
	return mode != WARM_OFF && call->a[0] == WARM_DRIVER_FD &&
	       (call->number == SYS_read || call->number == SYS_write);
}

int64_t warm_call(struct guest *g, const struct call *call)
{
	if (call->number == SYS_close) {
		guest_flush_output(g);
		end_run(g, foretold_status);
		return CALL_SET_REGISTERS;
	}
	if (call->number == SYS_read)
		return read_request(g, call->a[1], call->a[2]);
	return mode == WARM_SERVES ? end_by_driver(g, call->a[1], call->a[2]) : -EBADF;
}
