#include "vmm/call_misc.h"

#include "base/own.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/signal.h"
#include "vmm/stub/layout.h"
#include "vmm/thread.h"
#include "vmm/warm.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define CALL(name) int64_t call_##name(struct guest *g, const uint64_t a[6])
#define UNUSED                                                                                     \
	(void)g;                                                                                   \
	(void)a
#define HOST(value) ((value) < 0 ? -errno : 0)

enum { ID = 1000, TIMERS_MAX = 32 };

static int64_t put(struct guest *g, uint64_t address, const void *from, size_t size)
{
	return address ? mem_write(&g->mem, address, from, size) : 0;
}

CALL(zero)
{
	UNUSED;
	return 0;
}

CALL(enosys)
{
	UNUSED;
	return -ENOSYS;
}

CALL(eperm)
{
	UNUSED;
	return -EPERM;
}

/* ---- who ---- */

CALL(getpid)
{
	UNUSED;
	return g->pid;
}

CALL(gettid)
{
	UNUSED;
	return guest_thread(g)->tid;
}

CALL(getppid)
{
	UNUSED;
	return pids_shown(getppid());
}

CALL(getpgrp)
{
	UNUSED;
	return pids_shown(getpgrp());
}

CALL(getpgid)
{
	pid_t group = getpgid(pids_host((int)a[0]));

	(void)g;
	return group < 0 ? -errno : pids_shown(group);
}

CALL(setpgid)
{
	warm_spoil(g);
	return HOST(setpgid(pids_host((int)a[0]), pids_host((int)a[1])));
}

CALL(getsid)
{
	pid_t session = getsid(pids_host((int)a[0]));

	(void)g;
	return session < 0 ? -errno : pids_shown(session);
}

CALL(setsid)
{
	pid_t session = setsid();

	UNUSED;
	warm_spoil(g);
	return session < 0 ? -errno : pids_shown(session);
}

CALL(get_id)
{
	UNUSED;
	return ID;
}

CALL(getresid)
{
	const uint32_t id = ID;

	for (int i = 0; i < 3; i++)
		if (mem_write(&g->mem, a[i], &id, sizeof(id)))
			return -EFAULT;
	return 0;
}

/* To what it is already, or "leave it"; nothing else. */
static int64_t set_ids(const uint64_t *ids, int count)
{
	for (int i = 0; i < count; i++)
		if ((uint32_t)ids[i] != ID && (uint32_t)ids[i] != UINT32_MAX)
			return -EPERM;
	return 0;
}

CALL(set_id)
{
	(void)g;
	return (uint32_t)a[0] == UINT32_MAX ? -EINVAL : set_ids(a, 1);
}

CALL(set_two_ids)
{
	(void)g;
	return set_ids(a, 2);
}

CALL(set_three_ids)
{
	(void)g;
	return set_ids(a, 3);
}

CALL(getgroups)
{
	const uint32_t id = ID;

	if (a[0] == 0)
		return 1;
	return mem_write(&g->mem, a[1], &id, sizeof(id)) ? -EFAULT : 1;
}

CALL(capget)
{
	struct __user_cap_header_struct header;
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (mem_read(&g->mem, &header, a[0], sizeof(header)))
		return -EFAULT;
	if (header.version != _LINUX_CAPABILITY_VERSION_3) {
		header.version = _LINUX_CAPABILITY_VERSION_3;
		return mem_write(&g->mem, a[0], &header, sizeof(header)) ? -EFAULT :
		       a[1]                                              ? -EINVAL :
									   0;
	}
	return put(g, a[1], none, sizeof(none));
}

CALL(arch_prctl)
{
	struct registers *r = &guest_thread(g)->registers;

	switch (a[0]) {
	case 0x1001: /* ARCH_SET_GS */
	case 0x1002: /* ARCH_SET_FS */
		if (a[1] >= ADDRESS_END)
			return -EPERM;
		*(a[0] == 0x1001 ? &r->gs_base : &r->fs_base) = a[1];
		return 0;
	case 0x1003:
		return mem_write(&g->mem, a[1], &r->fs_base, 8);
	case 0x1004:
		return mem_write(&g->mem, a[1], &r->gs_base, 8);
	default:
		return -EINVAL;
	}
}

CALL(prctl)
{
	char name[16] = "";

	switch (a[0]) {
	case PR_SET_NAME:
		if (mem_string(&g->mem, name, a[1], sizeof(name)) == -EFAULT)
			return -EFAULT;
		name[15] = '\0';
		memcpy(g->comm, name, sizeof(name));
		return 0;
	case PR_GET_NAME:
		return mem_write(&g->mem, a[1], g->comm, sizeof(g->comm));
	case PR_GET_DUMPABLE:
		return 1;
	case PR_SET_DUMPABLE:
	case PR_SET_PDEATHSIG:
	case PR_SET_VMA:
	case PR_SET_TIMERSLACK:
	case PR_SET_THP_DISABLE:
		return 0;
	case PR_SET_NO_NEW_PRIVS: /* there is no way back */
		return a[1] == 1 && !a[2] && !a[3] && !a[4] ? 0 : -EINVAL;
	case PR_GET_NO_NEW_PRIVS:
		return 1;
	case PR_SET_CHILD_SUBREAPER:
		warm_spoil(g);
		return HOST(prctl(PR_SET_CHILD_SUBREAPER, a[1]));
	case PR_CAPBSET_READ:
		return a[1] <= 40 ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

CALL(set_tid_address)
{
	guest_thread(g)->clear_tid = a[0];
	return guest_thread(g)->tid;
}

/* ---- what machine ---- */

CALL(uname)
{
	struct utsname name;

	if (uname(&name))
		return -errno;
	return mem_write(&g->mem, a[0], &name, sizeof(name));
}

CALL(sysinfo)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return -errno;
	info.totalram = g->memory_bytes;
	info.freeram = g->memory_bytes / 2;
	info.sharedram = info.bufferram = info.totalswap = info.freeswap = 0;
	info.totalhigh = info.freehigh = 0;
	info.mem_unit = 1;
	info.procs = 1;
	return mem_write(&g->mem, a[0], &info, sizeof(info));
}

CALL(getrandom)
{
	struct iovec pieces[16];
	int count = mem_pieces(&g->mem, a[0], a[1] < 1 << 20 ? a[1] : 1 << 20, true, pieces, 16);
	int64_t done = 0;

	if (a[2] & ~7ULL)
		return -EINVAL;
	if (a[1] == 0)
		return 0;
	for (int i = 0; i < count; i++) {
		ssize_t n = getrandom(pieces[i].iov_base, pieces[i].iov_len, 0);

		if (n < 0)
			return done ? done : -errno;
		done += n;
		if ((size_t)n < pieces[i].iov_len)
			break;
	}
	return count < 0 ? count : done;
}

/* ---- how much ---- */

struct own_limit {
	uint64_t *now;
	uint64_t *most;
};

/* Descriptors and address space are the program's, not ours. */
static int64_t own_limit(
	const struct own_limit *limit, const struct rlimit *new, struct rlimit *old)
{
	*old = (struct rlimit){ *limit->now, *limit->most };
	if (!new)
		return 0;
	if (new->rlim_max > *limit->most)
		return -EPERM;
	*limit->now = new->rlim_cur;
	*limit->most = new->rlim_max;
	return 0;
}

static int64_t limit(struct guest *g, uint64_t which, const struct rlimit *new, struct rlimit *old)
{
	struct own_limit files = { &g->open_files, &g->open_files_most };
	struct own_limit space = { &g->address_space, &g->address_space_most };

	if (which >= RLIM_NLIMITS)
		return -EINVAL;
	if (new &&new->rlim_cur > new->rlim_max)
		return -EINVAL;
	if (which == RLIMIT_NOFILE)
		return own_limit(&files, new, old);
	if (which == RLIMIT_AS)
		return own_limit(&space, new, old);
	if (getrlimit((__rlimit_resource_t)which, old))
		return -errno;
	/* The host may count more than one for a process. */
	if (which == RLIMIT_NPROC && g->processes && old->rlim_cur > g->processes)
		old->rlim_cur = old->rlim_max = g->processes;
	if (!new || which == RLIMIT_DATA || which == RLIMIT_STACK)
		return 0;
	warm_spoil(g); /* it cannot be raised again */
	return HOST(setrlimit((__rlimit_resource_t)which, new));
}

CALL(getrlimit)
{
	struct rlimit old;
	int64_t result = limit(g, a[0], NULL, &old);

	return result ? result : mem_write(&g->mem, a[1], &old, sizeof(old));
}

CALL(setrlimit)
{
	struct rlimit old;
	struct rlimit new;

	if (mem_read(&g->mem, &new, a[1], sizeof(new)))
		return -EFAULT;
	return limit(g, a[0], &new, &old);
}

CALL(prlimit64)
{
	struct rlimit old;
	struct rlimit new;
	int64_t result;

	if (a[0] && (int)a[0] != g->pid)
		return (int)a[0] < 0 || kill((int)a[0], 0) ? -ESRCH : -EPERM;
	if (a[2] && mem_read(&g->mem, &new, a[2], sizeof(new)))
		return -EFAULT;
	result = limit(g, a[1], a[2] ? &new : NULL, &old);
	return result ? result : put(g, a[3], &old, sizeof(old));
}

CALL(getrusage)
{
	struct rusage usage;
	int who = (int)a[0] == 1 /* a thread */ ? RUSAGE_SELF : (int)a[0];

	if (getrusage(who, &usage))
		return -errno;
	return mem_write(&g->mem, a[1], &usage, sizeof(usage));
}

CALL(times)
{
	struct tms used;
	clock_t now = times(&used);
	int64_t result = put(g, a[0], &used, sizeof(used));

	return result ? result : now;
}

CALL(sched_yield)
{
	UNUSED;
	if (thread_others_run(g)) {
		/* The result must stand before another one runs. */
		guest_thread(g)->registers.general.rax = 0;
		guest_thread(g)->tries_again = false;
		thread_schedule(g);
		return CALL_SET_REGISTERS;
	}
	return 0;
}

/* There is one processor, and everybody is scheduled as everybody is. What a program asks or says of
 * that is checked as Linux would, no more. */
CALL(sched_setaffinity)
{
	uint64_t mask = 0;

	if ((int)a[0] < 0)
		return -ESRCH;
	if (mem_read(&g->mem, &mask, a[2], a[1] < sizeof(mask) ? a[1] : sizeof(mask)))
		return -EFAULT;
	return mask & 1 ? 0 : -EINVAL;
}

CALL(sched_getscheduler)
{
	(void)g;
	return (int)a[0] < 0 ? -EINVAL : SCHED_OTHER;
}

CALL(sched_setparam)
{
	int priority;

	if ((int)a[0] < 0)
		return -EINVAL;
	if (mem_read(&g->mem, &priority, a[1], sizeof(priority)))
		return -EFAULT;
	return priority ? -EINVAL : 0;
}

CALL(sched_setscheduler)
{
	int policy = (int)a[1] & ~SCHED_RESET_ON_FORK;

	if (policy == SCHED_FIFO || policy == SCHED_RR)
		return -EPERM;
	return policy < 0 ? -EINVAL : call_sched_setparam(g, (uint64_t[6]){ a[0], a[2] });
}

static bool is_realtime(uint64_t policy)
{
	return (int)policy == SCHED_FIFO || (int)policy == SCHED_RR;
}

static bool is_policy(uint64_t policy)
{
	return is_realtime(policy) || (int)policy == SCHED_OTHER || (int)policy == SCHED_BATCH ||
	       (int)policy == SCHED_IDLE;
}

CALL(sched_get_priority_max)
{
	(void)g;
	return is_policy(a[0]) ? (is_realtime(a[0]) ? 99 : 0) : -EINVAL;
}

CALL(sched_get_priority_min)
{
	(void)g;
	return is_policy(a[0]) ? is_realtime(a[0]) : -EINVAL;
}

CALL(sched_rr_get_interval)
{
	const struct timespec interval = { .tv_nsec = 10000000 }; /* a tick */

	return (int)a[0] < 0 ? -EINVAL : mem_write(&g->mem, a[1], &interval, sizeof(interval));
}

CALL(sched_getaffinity)
{
	const uint64_t one = 1;

	if ((int)a[0] < 0)
		return -ESRCH;
	if (a[1] < 8)
		return -EINVAL;
	return mem_write(&g->mem, a[2], &one, sizeof(one)) ? -EFAULT : 8;
}

CALL(sched_getparam)
{
	const int zero = 0;

	return (int)a[0] < 0 ? -EINVAL : mem_write(&g->mem, a[1], &zero, sizeof(zero));
}

/* Nothing competes with a program inside its machine: what it says is remembered, no more. */
static bool is_own(const struct guest *g, const uint64_t a[6])
{
	return a[0] == PRIO_PROCESS && ((int)a[1] == 0 || (int)a[1] == g->pid);
}

CALL(getpriority)
{
	return 20 - (is_own(g, a) ? g->nice : 0);
}

CALL(setpriority)
{
	int nice = (int)a[2] < -20 ? -20 : (int)a[2] > 19 ? 19 : (int)a[2];

	if (!is_own(g, a))
		return 0;
	if (nice < g->nice)
		return -EACCES;
	g->nice = nice;
	return 0;
}

CALL(getcpu)
{
	const uint32_t zero = 0;

	if (put(g, a[0], &zero, sizeof(zero)) || put(g, a[1], &zero, sizeof(zero)))
		return -EFAULT;
	return 0;
}

CALL(membarrier)
{
	const uint64_t known = MEMBARRIER_CMD_PRIVATE_EXPEDITED |
			       MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |
			       MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE |
			       MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE;
	uint32_t command = (uint32_t)a[0];

	(void)g;
	if (a[1])
		return -EINVAL;
	if (command == MEMBARRIER_CMD_QUERY)
		return (int64_t)known;
	return command & known && !(command & (command - 1)) ? 0 : -EINVAL;
}

/* ---- when ---- */

/* Clocks of processes and threads have negative numbers: the number turned over, and in the last
 * three bits which of its clocks, 4 for a thread's. Those of the program itself have others here. */
static clockid_t host_clock(const struct guest *g, uint64_t clock)
{
	int id = (int)(~(uint32_t)clock >> 3);

	if ((int32_t)clock >= 0)
		return (clockid_t)clock;
	if (!(clock & 4))
		return id == 0 || id == g->pid ? CLOCK_PROCESS_CPUTIME_ID : -1;
	for (int i = 0; i < g->threads_top; i++)
		if (g->threads[i].used && (id == 0 || g->threads[i].tid == id))
			return CLOCK_THREAD_CPUTIME_ID;
	return -1;
}

CALL(clock_gettime)
{
	clockid_t clock = host_clock(g, a[0]);
	struct timespec now;

	if (clock < 0 || clock_gettime(clock, &now))
		return -EINVAL;
	return mem_write(&g->mem, a[1], &now, sizeof(now));
}

CALL(clock_getres)
{
	struct timespec resolution;

	if (host_clock(g, a[0]) < 0 || clock_getres(host_clock(g, a[0]), &resolution))
		return -EINVAL;
	return put(g, a[1], &resolution, sizeof(resolution));
}

CALL(gettimeofday)
{
	const struct timezone utc = { 0 };
	struct timeval now;

	gettimeofday(&now, NULL);
	if (put(g, a[0], &now, sizeof(now)) || put(g, a[1], &utc, sizeof(utc)))
		return -EFAULT;
	return 0;
}

CALL(time)
{
	time_t now = time(NULL);
	int64_t result = put(g, a[0], &now, sizeof(now));

	return result ? result : now;
}

static int64_t sleep_until(struct guest *g, uint64_t timeout, bool is_absolute, int clock)
{
	int result;

	if (!timeout)
		return -EFAULT;
	if (guest_thread(g)->tries_again && thread_expired(guest_thread(g)))
		return 0;
	result = thread_deadline(g, timeout, is_absolute, clock);
	return result ? result : CALL_WAITS;
}

CALL(nanosleep)
{
	return sleep_until(g, a[0], false, CLOCK_MONOTONIC);
}

CALL(clock_nanosleep)
{
	if ((int)a[0] < 0)
		return -EINVAL;
	return sleep_until(g, a[2], a[1] & TIMER_ABSTIME, (int)a[0]);
}

/* Timers are the host's: their signals come to us like those from anywhere else. */
CALL(alarm)
{
	(void)g;
	return alarm((unsigned)a[0]);
}

CALL(getitimer)
{
	struct itimerval value;

	if (getitimer((__itimer_which_t)a[0], &value))
		return -errno;
	return mem_write(&g->mem, a[1], &value, sizeof(value));
}

CALL(setitimer)
{
	struct itimerval new;
	struct itimerval old;

	if (mem_read(&g->mem, &new, a[1], sizeof(new)))
		return -EFAULT;
	if (setitimer((__itimer_which_t)a[0], &new, &old))
		return -errno;
	return put(g, a[2], &old, sizeof(old));
}

static struct {
	bool used;
	int host;
} timers[TIMERS_MAX];

/* A vfork child has none, but sees its parent's. */
static int host_timer(const struct guest *g, uint64_t id)
{
	return id < TIMERS_MAX && timers[id].used && !g->in_vfork ? timers[id].host : -1;
}

void misc_forget_timers(void)
{
	memset(timers, 0, sizeof(timers));
}

CALL(timer_create)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	int id = 0;

	while (id < TIMERS_MAX && timers[id].used)
		id++;
	if (id == TIMERS_MAX || g->in_vfork)
		return -EAGAIN;
	if (a[1] && mem_read(&g->mem, &event, a[1], sizeof(event)))
		return -EFAULT;
	if ((int)a[0] < 0 || event.sigev_signo < 1 || event.sigev_signo > SIGNALS_MAX)
		return -EINVAL;
	/* To a thread: to whichever takes it. */
	if (event.sigev_notify == SIGEV_THREAD_ID)
		event.sigev_notify = SIGEV_SIGNAL;
	if (event.sigev_notify != SIGEV_SIGNAL && event.sigev_notify != SIGEV_NONE)
		return -EINVAL;
	warm_spoil(g);
	if (syscall(SYS_timer_create, (int)a[0], &event, &timers[id].host))
		return -errno;
	if (mem_write(&g->mem, a[2], &id, sizeof(id))) {
		syscall(SYS_timer_delete, timers[id].host);
		return -EFAULT;
	}
	timers[id].used = true;
	return 0;
}

CALL(timer_settime)
{
	struct itimerspec new;
	struct itimerspec old;

	if (host_timer(g, a[0]) < 0)
		return -EINVAL;
	if (mem_read(&g->mem, &new, a[2], sizeof(new)))
		return -EFAULT;
	if (syscall(SYS_timer_settime, host_timer(g, a[0]), (int)a[1], &new, &old))
		return -errno;
	return put(g, a[3], &old, sizeof(old));
}

CALL(timer_gettime)
{
	struct itimerspec now;

	if (host_timer(g, a[0]) < 0 || syscall(SYS_timer_gettime, host_timer(g, a[0]), &now))
		return -EINVAL;
	return mem_write(&g->mem, a[1], &now, sizeof(now));
}

CALL(timer_getoverrun)
{
	return host_timer(g, a[0]) < 0 ? -EINVAL :
					 syscall(SYS_timer_getoverrun, host_timer(g, a[0]));
}

CALL(timer_delete)
{
	if (host_timer(g, a[0]) < 0)
		return -EINVAL;
	syscall(SYS_timer_delete, timers[a[0]].host);
	timers[a[0]].used = false;
	return 0;
}
