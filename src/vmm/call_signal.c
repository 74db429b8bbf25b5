#include "vmm/call_signal.h"

#include "base/own.h"
#include "vmm/call_path.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/signal.h"
#include "vmm/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int64_t call_rt_sigaction(struct guest *g, const uint64_t a[6])
{
	uint64_t number = a[0];
	struct signal_action action;

	if (number < 1 || number > SIGNALS_MAX || a[3] != 8)
		return -EINVAL;
	if (a[1] && (number == SIGKILL || number == SIGSTOP))
		return -EINVAL;
	if (a[1] && mem_read(&g->mem, &action, a[1], sizeof(action)))
		return -EFAULT;
	if (a[2] && mem_write(&g->mem, a[2], &g->actions[number], sizeof(action)))
		return -EFAULT;
	if (a[1]) {
		g->actions[number] = action;
		signal_publish(g);
		if (number == SIGCHLD)
			signal_settle_children(g);
		for (int i = 0; i < g->threads_top && signal_is_ignored(g, (int)number); i++)
			g->threads[i].pending &= ~SIGNAL_BIT(number);
	}
	return 0;
}

int64_t call_rt_sigprocmask(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	uint64_t old = t->blocked;
	uint64_t set;

	if (a[3] != 8)
		return -EINVAL;
	if (a[1]) {
		if (mem_read(&g->mem, &set, a[1], sizeof(set)))
			return -EFAULT;
		switch (a[0]) {
		case SIG_BLOCK:
			t->blocked |= set;
			break;
		case SIG_UNBLOCK:
			t->blocked &= ~set;
			break;
		case SIG_SETMASK:
			t->blocked = set;
			break;
		default:
			return -EINVAL;
		}
		t->blocked &= ~SIGNAL_UNBLOCKABLE;
	}
	if (a[2] && mem_write(&g->mem, a[2], &old, sizeof(old)))
		return -EFAULT;
	return 0;
}

int64_t call_rt_sigsuspend(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	uint64_t set;

	if (a[1] != 8)
		return -EINVAL;
	if (t->tries_again)
		return CALL_WAITS; /* woken by one that turned out to be ignored */
	if (mem_read(&g->mem, &set, a[0], sizeof(set)))
		return -EFAULT;
	t->blocked_before = t->blocked;
	t->restores_blocked = true;
	t->blocked = set & ~SIGNAL_UNBLOCKABLE;
	thread_wait_signal(t);
	return CALL_WAITS;
}

int64_t call_pause(struct guest *g, const uint64_t a[6])
{
	(void)a;
	thread_wait_signal(guest_thread(g));
	return CALL_WAITS;
}

int64_t call_rt_sigpending(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	uint64_t bits;

	signal_distribute(g);
	bits = (g->pending | t->pending) & t->blocked;
	return mem_write(&g->mem, a[0], &bits, sizeof(bits));
}

int64_t call_rt_sigtimedwait(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	uint64_t set;
	uint64_t bits;
	int result;

	if (a[3] != 8)
		return -EINVAL;
	if (mem_read(&g->mem, &set, a[0], sizeof(set)))
		return -EFAULT;
	signal_distribute(g);
	bits = (g->pending | t->pending) & set;
	if (bits) {
		int number = __builtin_ctzll(bits) + 1;

		g->pending &= ~SIGNAL_BIT(number);
		t->pending &= ~SIGNAL_BIT(number);
		if (a[1] && mem_write(&g->mem, a[1], &g->infos[number], sizeof(siginfo_t)))
			return -EFAULT;
		return number;
	}
	if (t->tries_again)
		return thread_expired(t) ? -EAGAIN : -EINTR;
	result = thread_deadline(g, a[2], false, 0);
	if (result)
		return result;
	t->awaited = set; /* blocked ones too end this wait */
	return CALL_WAITS;
}

int64_t call_sigaltstack(struct guest *g, const uint64_t a[6])
{
	struct thread *t = guest_thread(g);
	struct alt_stack old = t->alt_stack;
	struct alt_stack new;

	old.flags = !old.size                                        ? SS_DISABLE :
		    signal_on_alt_stack(t, t->registers.general.rsp) ? SS_ONSTACK :
								       0;
	if (a[0]) {
		if (mem_read(&g->mem, &new, a[0], sizeof(new)))
			return -EFAULT;
		if (old.flags == SS_ONSTACK)
			return -EPERM;
		if (new.flags & SS_DISABLE)
			new = (struct alt_stack){ 0 };
		else if (new.size < 2048)
			return -ENOMEM;
		t->alt_stack = new;
	}
	return a[1] ? mem_write(&g->mem, a[1], &old, sizeof(old)) : 0;
}

static int64_t send_to_thread(struct guest *g, uint64_t tid, uint64_t number)
{
	if (number > SIGNALS_MAX)
		return -EINVAL;
	for (int i = 0; i < g->threads_top; i++) {
		if (!g->threads[i].used || g->threads[i].tid != (int)tid)
			continue;
		if (number)
			signal_raise(g, &g->threads[i], (int)number, NULL);
		return 0;
	}
	return -ESRCH;
}

/* The host takes the number of any thread for that of its process; a VMM has threads of KVM's, whose
 * numbers its guest cannot know, and would end itself by. */
static bool is_a_thread(int host_pid)
{
	return host_pid > 0 && syscall(SYS_tgkill, host_pid, host_pid, 0) && errno == ESRCH;
}

static int send_to_process(int pid, int number)
{
	pid = pids_host(pid);
	if (is_a_thread(pid))
		return -ESRCH;
	return kill(pid, number) ? -errno : 0;
}

static int64_t queue_to_process(int pid, int number, siginfo_t *info)
{
	pid = pids_host(pid);
	if (is_a_thread(pid))
		return -ESRCH;
	return host_result(syscall(SYS_rt_sigqueueinfo, pid, number, info));
}

int64_t call_kill(struct guest *g, const uint64_t a[6])
{
	int pid = (int)a[0];
	uint64_t number = a[1];
	siginfo_t info = { .si_signo = (int)number, .si_code = SI_USER };

	if (number > SIGNALS_MAX)
		return -EINVAL;
	if (pid != g->pid)
		return send_to_process(pid, (int)number);
	info.si_pid = pid;
	info.si_uid = 1000;
	if (number)
		signal_raise(g, NULL, (int)number, &info);
	return 0;
}

int64_t call_rt_sigqueueinfo(struct guest *g, const uint64_t a[6])
{
	int pid = (int)a[0];
	uint64_t number = a[1];
	siginfo_t info;

	if (mem_read(&g->mem, &info, a[2], sizeof(info)))
		return -EFAULT;
	info.si_signo = (int)number;
	if (number > SIGNALS_MAX)
		return -EINVAL;
	/* As below: nothing that would pass for one of the kernel's. */
	if (pid != g->pid && info.si_code != SI_QUEUE)
		return -EPERM;
	if (pid != g->pid)
		return queue_to_process(pid, (int)number, &info);
	if (number)
		signal_raise(g, NULL, (int)number, &info);
	return 0;
}

/* One to ourselves comes back to us like any other, and must not pass for one of the kernel's: that would be a fault of
 * ours, or the clock. */
int64_t call_pidfd_send_signal(struct guest *g, const uint64_t a[6])
{
	int fd = fds_get(a[0]);
	siginfo_t info;

	if (fd < 0)
		return fd;
	if (a[2] && mem_read(&g->mem, &info, a[2], sizeof(info)))
		return -EFAULT;
	if (a[2] && info.si_code != SI_QUEUE)
		return -EPERM;
	return host_result(
		syscall(SYS_pidfd_send_signal, fd, (int)a[1], a[2] ? &info : NULL, (unsigned)a[3]));
}

int64_t call_tkill(struct guest *g, const uint64_t a[6])
{
	return send_to_thread(g, a[0], a[1]);
}

int64_t call_tgkill(struct guest *g, const uint64_t a[6])
{
	if ((int)a[0] != g->pid)
		return (int)a[0] > 0 && a[0] == a[1] && a[2] <= SIGNALS_MAX ?
			       send_to_process((int)a[0], (int)a[2]) :
			       -ESRCH;
	return send_to_thread(g, a[1], a[2]);
}
