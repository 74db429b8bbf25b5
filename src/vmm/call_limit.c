#include "vmm/call_limit.h"

#include "base/own.h"
#include "vmm/call_util.h"
#include "vmm/signal.h"
#include "vmm/thread.h"
#include "vmm/warm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <unistd.h>

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
	return result ? result : call_put(g, a[3], &old, sizeof(old));
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
	int64_t result = call_put(g, a[0], &used, sizeof(used));

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

	if (call_put(g, a[0], &zero, sizeof(zero)) || call_put(g, a[1], &zero, sizeof(zero)))
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
