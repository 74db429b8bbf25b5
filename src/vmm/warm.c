#include "vmm/warm.h"

#include "base/fd.h"
#include "base/own.h"
#include "vmm/call_file.h"
#include "vmm/call_path.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/quiet.h"
#include "vmm/signal.h"
#include "vmm/snapshot.h"
#include "vmm/stats.h"
#include "vmm/thread.h"
#include "vmm/tick.h"
#include "wire/cell_wire.h"
#include "wire/vmm_start.h"
#include "wire/vmm_warm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
	FAILED = 125,
	SOON_MS = 100,
	LATER_MS = 1000,
	STREAMS = 3,
	PIDS_FROM = 1000000,
	PIDS = 1000000
};

static enum warm_mode mode;
static bool rehearses_after; /* once the snapshot is made */
static bool is_spoiled;
static uint8_t request[1 + WARM_REQUEST_MAX + WARM_SEED_SIZE];
static uint8_t flags;   /* of it */
static bool is_running; /* between a request and its answer */
static bool is_whole;   /* the driver has read all of it */
static bool is_quiet;   /* the run has left no trace but in its memory (wire/vmm_warm.h) */
static uint8_t seed[WARM_SEED_SIZE];
static size_t request_len; /* of what is left to be read */
static size_t request_at;
static size_t request_size; /* of all of it, without the seed */
static int ends_at_close;   /* of this descriptor; 0 = not */
static uint8_t foretold_status;
static uint64_t cpu_before_us;
static int64_t begun_ns;
static bool is_kept; /* it has had a run after which it stays as it is */
static bool
	has_streams; /* descriptors 0 to 2 are those of that run, or what the program made of them */
/* What a quiet run has printed. */
static uint8_t kept[2][EXITED_OUTPUT_MAX];
static size_t kept_len[2];

void warm_open(struct guest *g, enum warm_mode wanted)
{
	(void)g;
	mode = wanted;
	rehearses_after = wanted == WARM_MAKES_SNAPSHOT && fcntl(VMM_LINE_FD, F_GETFD) >= 0;
	/* Programs that the guest executes have no part in it. */
	fcntl(VMM_WARM_FD, F_SETFD, FD_CLOEXEC);
	fcntl(VMM_LINE_FD, F_SETFD, FD_CLOEXEC);
	fcntl(VMM_SNAPSHOT_FD, F_SETFD, FD_CLOEXEC);
}

void warm_leave(struct guest *g)
{
	(void)g;
	mode = WARM_OFF;
	close(VMM_WARM_FD);
	close(VMM_LINE_FD);
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

static uint64_t add_times(const struct rusage *usage)
{
	return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* What this process has used so far, and those of its children that it has waited for. */
static uint64_t look_at_usage(uint64_t *ret_max_rss_bytes)
{
	struct rusage own = { 0 };
	struct rusage children = { 0 };

	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	*ret_max_rss_bytes = (uint64_t)own.ru_maxrss * 1024;
	return add_times(&own) + add_times(&children);
}

static void tell_keeper(uint32_t kind, uint32_t status)
{
	struct warm_answer a = { .kind = kind, .status = status };

	a.cpu_us = look_at_usage(&a.max_rss_bytes) - cpu_before_us;
	if (send(VMM_WARM_FD, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
		_exit(FAILED); /* nobody is interested any more */
}

static struct frame_out frame;

static void tell_engine(void)
{
	if (frame_send(VMM_LINE_FD, &frame, -1))
		_exit(FAILED);
}

/* All that there is to say of a quiet run. */
static void tell_exited(uint8_t status)
{
	struct msg_exited m = {
		.ended_by = ENDED_BY_ITSELF,
		.wait_status = (uint32_t)status << 8,
		.wall_us = (uint64_t)(guest_now_ns() - begun_ns) / 1000,
		.warm = true,
		.nothing_new = true,
		.kept = (flags & WARM_KEEP) != 0,
		.out = { kept[0], kept[1] },
		.out_len = { kept_len[0], kept_len[1] },
		.text = "",
	};

	m.cpu_us = look_at_usage(&m.max_rss_bytes) - cpu_before_us;
	stats_read(&m.vm);
	put_exited(&frame, &m);
	tell_engine();
}

/* ---- a request ---- */

/* A rehearsal is for the time until somebody comes, and where machines are made for one run each and as fast as it goes,
 * that is soon. */
static bool is_waited_for(void)
{
	struct pollfd line = { .fd = VMM_LINE_FD, .events = POLLIN };

	return poll(&line, 1, request[0] & WARM_LATER ? LATER_MS : SOON_MS) > 0;
}

static void wait_for_request(void)
{
	sigset_t all;
	sigset_t old;
	ssize_t n;

	/* In between nothing in the machine moves, whoever else in it waits for whatever: neither does a signal
	 * happen. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	do
		n = read(VMM_LINE_FD, request, 1 + WARM_REQUEST_MAX);
	while ((n < 0 && errno == EINTR) ||
		(n > 0 && request[0] & WARM_REHEARSAL && is_waited_for()));
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (n < 1)
		_exit(FAILED); /* the engine is gone */
	if (!warm_make_seed(seed))
		_exit(FAILED);
	memcpy(request + n, seed, WARM_SEED_SIZE);
	flags = request[0];
	request_at = 1;
	request_size = (size_t)n - 1;
	request_len = request_size + WARM_SEED_SIZE;
	is_running = true;
	is_whole = false;
	is_quiet = true;
	kept_len[0] = kept_len[1] = 0;
}

const uint8_t *warm_request(size_t *ret_size)
{
	*ret_size = request_size;
	return request_size ? request + 1 : NULL;
}

/* ---- going out ---- */

/* Descriptors 0 to 2 may be closed: the new ones may be any of them. */
static void place_streams(int *streams)
{
	bool are_low = true;

	for (int i = 0; i < STREAMS; i++)
		are_low = are_low && streams[i] == i && fcntl(i, F_SETFD, 0) == 0;
	for (int i = 0; i < STREAMS && !are_low; i++) {
		int up = fcntl(streams[i], F_DUPFD_CLOEXEC, VMM_OWN_FDS);

		close(streams[i]);
		streams[i] = up;
	}
	for (int i = 0; i < STREAMS && !are_low; i++) {
		dup2(streams[i], i);
		close(streams[i]);
	}
}

/* Of a program that has the others still, or has put something else in their place. */
static void place_input(int fd)
{
	if (fd == 0) {
		fcntl(fd, F_SETFD, 0);
		return;
	}
	dup2(fd, 0);
	close(fd);
}

/* The keeper has put the run's files in place, and gives it its streams. False: it could not. */
static bool take_streams(struct guest *g)
{
	uint8_t order = 0;
	struct iovec piece = { &order, sizeof(order) };
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
	size_t wanted = has_streams ? 1 : STREAMS;
	int streams[STREAMS];
	ssize_t n;

	do
		n = recvmsg(VMM_WARM_FD, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n == 1 && order == WARM_DROPPED)
		return false;
	if (n != 1 || order != WARM_STAGED || message.msg_flags & MSG_CTRUNC ||
		control.head.cmsg_len != CMSG_LEN(wanted * sizeof(int)))
		_exit(FAILED); /* the keeper is gone */
	memcpy(streams, CMSG_DATA(&control.head), wanted * sizeof(int));
	if (has_streams)
		place_input(streams[0]);
	else
		place_streams(streams);
	/* Only now: the run before may have locked it. */
	if (!has_streams && chdir("/workspace") && chdir("/"))
		_exit(FAILED);
	has_streams = is_kept;
	file_update_output(g);
	for (int i = 0; i < 2; i++)
		if (kept_len[i])
			fd_write_all(1 + i, kept[i], kept_len[i]);
	return true;
}

static bool is_on_record(void)
{
	return mode == WARM_SERVES && is_running && is_quiet;
}

static void go_out(struct guest *g)
{
	is_quiet = false;
	if (flags & WARM_REHEARSAL)
		return;
	put_bare(&frame, CELL_GOES_OUT);
	tell_engine();
	if (!take_streams(g))
		_exit(FAILED); /* in the middle of it there is no way back */
}

/* The C library remembers a thread's number in the place that is cleared when the thread ends. */
static void become_thread(struct guest *g, int tid)
{
	struct thread *t = guest_thread(g);
	int remembered;

	if (t->clear_tid && mem_read(&g->mem, &remembered, t->clear_tid, sizeof(remembered)) == 0 &&
		remembered == t->tid)
		mem_write(&g->mem, t->clear_tid, &tid, sizeof(tid));
	t->tid = tid;
}

/* What must not be the same in two runs: the time, and the number by which libraries notice that
 * their randomness is somebody else's too. */
static void become_another(struct guest *g)
{
	static unsigned runs;
	pid_t own = getpid();

	g->pid = PIDS_FROM + (int)(((unsigned)own * 64 + runs++) % PIDS);
	pids_set(own, g->pid);
	become_thread(g, g->pid);
	thread_go_on(g);
	guest_shared(g)->out_fds = 1 << 1 | 1 << 2;
}

/* False: it is not to be. */
static bool begin_run(struct guest *g)
{
	uint64_t ignored;

	stats_clear();
	cpu_before_us = look_at_usage(&ignored);
	tick_start();
	if (!is_kept)
		become_another(g);
	is_kept = flags & WARM_KEEP;
	guest_set_clock(g);
	begun_ns = guest_now_ns();
	g->discards_output = flags & WARM_REHEARSAL;
	if (flags & WARM_OUT) {
		is_quiet = false;
		if (!take_streams(g)) {
			tick_stop();
			return false;
		}
	}
	thread_publish(g);
	return true;
}

static void take_next_run(struct guest *g)
{
	do
		wait_for_request();
	while (!begin_run(g));
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
	if (request_len == 0)
		take_next_run(g);
	n = request_len < size ? request_len : size;
	if (mem_write(&g->mem, address, request + request_at, n))
		return -EFAULT;
	request_at += n;
	request_len -= n;
	is_whole = request_len == 0 && n < size;
	return (int64_t)n;
}

void warm_watch(struct guest *g, const struct call *call)
{
	if (is_on_record() && !quiet_stays(call))
		go_out(g);
}

void warm_go_out(struct guest *g)
{
	if (is_on_record())
		go_out(g);
}

bool warm_keeps(struct guest *g, int fd, const uint8_t *data, size_t len)
{
	int which = fd - 1;

	if (!is_on_record())
		return false;
	if (len > EXITED_OUTPUT_MAX - kept_len[which]) {
		go_out(g);
		return false;
	}
	memcpy(kept[which] + kept_len[which], data, len);
	kept_len[which] += len;
	return true;
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
}

/* The thread that waited for a request when the snapshot was made does so again. */
static void wait_again(struct guest *g)
{
	guest_thread(g)->waits = false;
	guest_thread(g)->tries_again = true;
}

static void end_run(struct guest *g, uint8_t status)
{
	bool is_rehearsal = flags & WARM_REHEARSAL;
	struct err e = { 0 };

	/* What was to be kept ends with it: nobody is to find it as new. */
	is_spoiled |= is_kept;
	if (is_spoiled && is_on_record())
		go_out(g);
	if (is_quiet && !is_rehearsal)
		tell_exited(status);
	else if (!is_rehearsal)
		tell_keeper(is_spoiled ? WARM_DONE_SPOILED : WARM_DONE, status);
	if (rehearses_after && snapshot_write_use(g, flags & WARM_STAYS, &e))
		give_up(g, &e);
	if (is_spoiled || rehearses_after || flags & WARM_LAST)
		_exit(0);
	tick_stop();
	if (!is_quiet)
		reset_process(g);
	request_len = request_at = 0;
	ends_at_close = 0;
	is_running = false;
	if (snapshot_reset(g, &e) || (HOTCELL_VERIFY_RESETS && snapshot_verify(g, &e)))
		give_up(g, &e);
	if (!is_quiet)
		signal_settle_children(g);
	wait_again(g);
}

/* It stays as it is, and stands still until the next request. */
static void end_kept_run(struct guest *g, uint8_t status)
{
	if (is_quiet)
		tell_exited(status);
	else
		tell_keeper(WARM_KEPT, status);
	tick_stop();
	request_len = request_at = 0;
	take_next_run(g);
	/* Whom it has started may have printed something meanwhile, for the keeper to pass on. */
	if (is_spoiled)
		warm_go_out(g);
}

void warm_idle(struct guest *g)
{
	struct err e = { 0 };

	if (mode != WARM_MAKES_SNAPSHOT)
		return;
	guest_flush_output(g);
	if (snapshot_write(g, VMM_SNAPSHOT_FD, &e))
		give_up(g, &e);
	if (!rehearses_after)
		_exit(0);
	if (snapshot_watch_use(g, VMM_SNAPSHOT_FD, &e))
		give_up(g, &e);
	mode = WARM_SERVES;
	reset_process(g);
	wait_again(g);
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
	if (is_kept) {
		end_kept_run(g, end.status);
		return (int64_t)size;
	}
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
