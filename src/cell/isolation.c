#include "cell/isolation.h"

#include "base/fd.h"
#include "base/own.h"
#include "cell/container/container.h"
#include "cell/process/process.h"
#include "cell/vm/vm.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

static const struct isolation *const table[] = { &isolation_process, &isolation_container,
	&isolation_vm };

const struct isolation *isolation_by_name(const char *name)
{
	for (size_t i = 0; i < COUNT(table); i++)
		if (strcmp(table[i]->name, name) == 0)
			return table[i];
	return NULL;
}

pid_t isolation_clone(unsigned long long flags, int into_cgroup, int *ret_pid_fd)
{
	struct clone_args args = {
		.flags = flags | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pid_fd,
	};
	pid_t pid;

	if (into_cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)into_cgroup;
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid >= 0 || errno != ENOSYS)
		return pid;
	/* Container runtimes say so, for programs to fall back. */
	pid = (pid_t)syscall(SYS_clone, flags | CLONE_PIDFD, NULL, ret_pid_fd, NULL, 0);
	if (pid == 0 && into_cgroup >= 0 && fd_write_text(into_cgroup, "cgroup.procs", "0"))
		_exit(125);
	return pid;
}

void isolation_child_failed(int report_fd, const struct err *e)
{
	fd_write_all(report_fd, e, sizeof(*e));
	_exit(125);
}
