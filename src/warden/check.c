#include "warden/check.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "cell/wall/landlock.h"
#include "cell/isolation.h"
#include "cell/vm/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

enum { NEEDED = 1, WELCOME = 0 };

struct finding {
	const char *name;
	enum check_state state;
	int needed;
	const char *fix;
};

static void add(struct checks *c, struct finding f, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add(struct checks *c, struct finding f, const char *format, ...)
{
	char detail[512];
	va_list args;

	if (c->count == CHECKS_MAX)
		return;
	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	c->rows[c->count++] = (struct msg_checked){
		.name = xstrdup(f.name),
		.state = (uint8_t)f.state,
		.needed = (uint8_t)f.needed,
		.detail = xstrdup(detail),
		.fix = xstrdup(f.state == CHECK_FINE || !f.fix ? "" : f.fix),
	};
}

void checks_free(struct checks *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free((void *)(uintptr_t)c->rows[i].name);
		free((void *)(uintptr_t)c->rows[i].detail);
		free((void *)(uintptr_t)c->rows[i].fix);
	}
	c->count = 0;
}

static void check_kernel(struct checks *c)
{
	struct utsname u;
	int major = 0;
	int minor = 0;
	bool fine;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	fine = major > 5 || (major == 5 && minor >= 15);
	add(c,
		(struct finding){ "kernel", fine ? CHECK_FINE : CHECK_MISSING, NEEDED,
			"install a kernel of version 5.15 or later" },
		"%s (5.15 or later is wanted)", u.release);
}

/* 0, or the errno that a child met. Sysctls do not tell of seccomp filters and security modules. */
static int try_user_namespace(void)
{
	int pid_fd = -1;
	int status = 0;
	pid_t pid = isolation_clone(0, -1, &pid_fd);

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) ? errno : 0);
	if (pid < 0)
		return errno;
	waitpid(pid, &status, __WALL);
	close(pid_fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

static void check_user_namespaces(struct checks *c)
{
	static const char apparmor[] = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
	unsigned long long most = 1;
	unsigned long long value;
	struct finding f = { "user namespaces", CHECK_FINE, NEEDED, NULL };

	int failed = try_user_namespace();

	fd_read_u64(AT_FDCWD, "/proc/sys/user/max_user_namespaces", &most);
	if (access("/proc/self/ns/user", F_OK)) {
		f.state = CHECK_MISSING;
		f.fix = "install a kernel built with CONFIG_USER_NS";
		add(c, f, "the kernel has none");
	} else if (most == 0) {
		f.state = CHECK_MISSING;
		f.fix = "sysctl -w user.max_user_namespaces=15000";
		add(c, f, "user.max_user_namespaces is 0");
	} else if (geteuid() != 0 &&
		   fd_read_u64(AT_FDCWD, "/proc/sys/kernel/unprivileged_userns_clone", &value) ==
			   0 &&
		   value == 0) {
		f.state = CHECK_MISSING;
		f.fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1";
		add(c, f, "ordinary users may not make them");
	} else if (geteuid() != 0 && fd_read_u64(AT_FDCWD, apparmor, &value) == 0 && value) {
		f.state = CHECK_MISSING;
		f.fix = "sudo make install && sudo cp " HOTCELL_SHAREDIR "/apparmor/hotcell "
			"/etc/apparmor.d/ && sudo apparmor_parser -r /etc/apparmor.d/hotcell";
		add(c, f,
			"AppArmor keeps ordinary users' programs without a profile from using them "
			"(Ubuntu 23.10 and later)");
	} else if (failed) {
		f.state = CHECK_MISSING;
		add(c, f, "making one fails (%s): %s", strerror(failed),
			in_container() ? "the container's seccomp profile forbids it" :
					 "a security module or a seccomp filter forbids it");
	} else {
		add(c, f, "allowed");
	}
}

static const char *cgroup_fix(const struct cgroup_tree *tree)
{
	if (strstr(cgroup_tree_why_not(tree, LIMIT_MEMORY_BYTES), "other processes"))
		return "move them first, as docs/CONTAINERS.md says";
	if (in_container())
		return geteuid() == 0 ? "start the container with: --cap-add SYS_ADMIN" :
					"run hotcell as the container's root user";
	return geteuid() == 0 ? "mount the cgroup file system writable" :
				"systemd-run --user --scope -p Delegate=yes hotcell ...";
}

static void check_cgroups(struct checks *c, const struct cgroup_tree *tree)
{
	static const struct {
		enum limit limit;
		const char *name;
		const char *without;
	} wanted[] = {
		{ LIMIT_MEMORY_BYTES, "cgroup: memory",
			"memory is watched from outside every 20 ms instead (soft)" },
		{ LIMIT_PROCESSES, "cgroup: pids", "RLIMIT_NPROC holds instead" },
		{ LIMIT_CPU_MS, "cgroup: cpu time",
			"processor time is watched from outside (soft)" },
		{ LIMIT_CPUS_MILLI, "cgroup: cpus", "--cpus is refused" },
	};
	const char *fix = cgroup_fix(tree);
	uint32_t holds = cgroup_tree_holds(tree);

	for (size_t i = 0; i < COUNT(wanted); i++) {
		bool fine = holds & LIMIT_BIT(wanted[i].limit);
		struct finding f = { wanted[i].name, fine ? CHECK_FINE : CHECK_WEAK,
			wanted[i].limit == LIMIT_MEMORY_BYTES ? NEEDED : WELCOME, fix };

		const char *why_not = cgroup_tree_why_not(tree, wanted[i].limit);

		if (!fine)
			fix = NULL; /* once is enough */

		if (fine)
			add(c, f, "version %d, writable", tree->version);
		else
			add(c, f, "%s; %s", *why_not ? why_not : "this controller is not to be had",
				wanted[i].without);
	}
}

static void check_filters(struct checks *c)
{
	unsigned action = SECCOMP_RET_KILL_PROCESS;
	bool has = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
	int abi = landlock_abi();

	add(c,
		(struct finding){ "seccomp", has ? CHECK_FINE : CHECK_MISSING, NEEDED,
			"install a kernel built with CONFIG_SECCOMP_FILTER" },
		"%s", has ? "filters can be installed" : "the kernel has no filters");
	if (abi)
		add(c, (struct finding){ "landlock", CHECK_FINE, WELCOME, NULL }, "ABI %d", abi);
	else
		add(c,
			(struct finding){ "landlock", CHECK_WEAK, WELCOME,
				"boot with lsm=landlock,... or a kernel of version 5.13 or later" },
			"not there; read-only mounts hold alone");
}

static void check_uids(struct checks *c, const struct uids *uids)
{
	if (uids->count)
		add(c, (struct finding){ "user ids", CHECK_FINE, WELCOME, NULL },
			"each cell has a host user id of its own, from %u up",
			(unsigned)uids->base);
	else
		add(c, (struct finding){ "user ids", CHECK_WEAK, WELCOME, "run hotcell as root" },
			"cells share the host user id %u (keyrings and limits by user are shared)",
			(unsigned)uids->base);
}

static void check_vm(struct checks *c)
{
	const char *fix = NULL;
	struct err e = { 0 };
	auto_close int kvm = vm_open_kvm(&fix, &e);
	char path[PATH_MAX_BYTES + 16];
	bool found;

	add(c, (struct finding){ "/dev/kvm", kvm < 0 ? CHECK_WEAK : CHECK_FINE, WELCOME, fix },
		"%s", kvm < 0 ? e.text : "can be opened, API version 12");
	found = vm_find_vmm(path, sizeof(path), &fix, &e) == 0;
	add(c, (struct finding){ "hotcell-vmm", found ? CHECK_FINE : CHECK_WEAK, WELCOME, fix },
		"%s", found ? path : e.text);
}

void checks_gather(struct checks *c, const struct cgroup_tree *tree, const struct uids *uids)
{
	check_kernel(c);
	check_user_namespaces(c);
	check_cgroups(c, tree);
	check_filters(c);
	check_uids(c, uids);
	check_vm(c);
}
