#include "vmm/quiet.h"

#include <signal.h>
#include <sys/syscall.h>

bool quiet_stays(const struct call *call)
{
	switch (call->number) {
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
