#include "vmm/call_time.h"

#include "base/own.h"
#include "vmm/call_util.h"
#include "vmm/signal.h"
#include "vmm/thread.h"
#include "vmm/warm.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { TIMERS_MAX = 32 };

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
	return call_put(g, a[1], &resolution, sizeof(resolution));
}

CALL(gettimeofday)
{
	const struct timezone utc = { 0 };
	struct timeval now;

	gettimeofday(&now, NULL);
	if (call_put(g, a[0], &now, sizeof(now)) || call_put(g, a[1], &utc, sizeof(utc)))
		return -EFAULT;
	return 0;
}

CALL(time)
{
	time_t now = time(NULL);
	int64_t result = call_put(g, a[0], &now, sizeof(now));

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
	return call_put(g, a[2], &old, sizeof(old));
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

void time_forget_timers(void)
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
	return call_put(g, a[3], &old, sizeof(old));
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
