/* The child's way into the cell
 *
 *	starts    in new user, mount, pid, ipc and uts namespaces and a network namespace that holds
 *	          nothing; all capabilities in the new user namespace, none outside; the warden's
 *	          small root in view
 *	ends      the cell's uid, no capabilities, no new privileges, filters on, the cell's root
 *
 * The order is the argument: each step may rely on all above it and on none below. */
#include "cell/wall/enter.h"

#include "base/fd.h"
#include "base/own.h"
#include "cell/wall/landlock.h"
#include "cell/wall/mnt.h"
#include "cell/wall/seccomp.h"
#include "cell/wall/template.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int step_dumpable(struct entry *entry, struct err *e)
{
	(void)entry;
	return prctl(PR_SET_DUMPABLE, 0) ? err_sys(e, "prctl") : 0;
}

static int step_cgroup(struct entry *entry, struct err *e)
{
	for (int i = 0; i < entry->tasks_count; i++)
		if (fd_write_all(entry->tasks[i], "0", 1))
			return err_sys(e, "enter the cgroup");
	/* After entering: its root is then the cell's own group. */
	if (unshare(CLONE_NEWCGROUP))
		return err_sys(e, "cgroup namespace");
	return 0;
}

static int step_descriptors(struct entry *entry, struct err *e)
{
	const struct cell_spec *spec = entry->spec;
	int keep[] = { spec->control_fd, spec->lifeline_fd, spec->report_fd, entry->mapped_fd };
	int null = open(entry->template->null, O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_sys(e, "open /dev/null");
	for (int i = 0; i < 3; i++)
		if (dup2(null, i) < 0)
			return err_sys(e, "dup2");
	if (entry->holds_vmm ?
			fd_arrange_beside(keep, COUNT(keep), KEEPER_CONTROL_FD, VMM_KVM_FD, 2) :
			fd_arrange(keep, COUNT(keep), KEEPER_CONTROL_FD))
		return err_sys(e, "arrange descriptors");
	entry->mapped_fd = KEEPER_CONTROL_FD + 3;
	return 0;
}

static int step_session(struct entry *entry, struct err *e)
{
	(void)entry;
	if (setsid() < 0 && errno != EPERM)
		return err_sys(e, "setsid");
	/* The warden's keyring must not be reachable. No keyrings in the kernel: none to leave. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
		errno != EPERM && errno != EDQUOT)
		return err_sys(e, "new session keyring");
	return 0;
}

static int step_root(struct entry *entry, struct err *e)
{
	/* A copy of the template: the mounts that were inherited are locked in place. */
	if (mount(CELL_ROOT, CELL_ROOT, NULL, MS_BIND | MS_REC, NULL))
		return err_sys(e, "copy the template");
	for (unsigned i = 0; i < entry->spec->needs_count; i++) {
		char source[32];
		char target[4200];

		snprintf(source, sizeof(source), "/needs/%u", entry->spec->needs[i]);
		snprintf(target, sizeof(target), CELL_ROOT "%s",
			entry->template->needs[entry->spec->needs[i]]);
		if (mount(source, target, NULL, MS_BIND | MS_REC, NULL))
			return err_sys(e, "show '%s'", target);
	}
	if (entry->spec->network == NETWORK_HOST && access("/resolv.conf", F_OK) == 0)
		return mnt_bind("/resolv.conf", CELL_ROOT "/etc/resolv.conf", MNT_RDONLY_FLAG, e);
	return 0;
}

/* What in /proc tells about the machine or reaches into it. Reading most of it needs rights that
 * the cell lacks; this does not rely on that. Directories end with a slash. */
static const char *const masks[] = {
	"/proc/kcore",
	"/proc/keys",
	"/proc/key-users",
	"/proc/kallsyms",
	"/proc/kmsg",
	"/proc/modules",
	"/proc/sysrq-trigger",
	"/proc/timer_list",
	"/proc/sched_debug",
	"/proc/latency_stats",
	"/proc/acpi/",
	"/proc/bus/",
	"/proc/fs/",
	"/proc/irq/",
	"/proc/pressure/",
	"/proc/scsi/",
};

unsigned enter_masks(const char *const **ret)
{
	_Static_assert(COUNT(masks) <= ENTER_MASKS_MAX, "room for all");
	*ret = masks;
	return COUNT(masks);
}

static int mask(const char *path, struct err *e)
{
	char target[64];
	int len = snprintf(target, sizeof(target), CELL_ROOT "%s", path);
	bool is_dir = target[len - 1] == '/';

	if (mount(is_dir ? CELL_ROOT "/.masked/dir" : CELL_ROOT "/.masked/file", target, NULL,
		    MS_BIND, NULL))
		return err_sys(e, "mask '%s'", path);
	return 0;
}

static int step_proc(struct entry *entry, struct err *e)
{
	if (mount("proc", CELL_ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return err_sys(e, "mount a fresh /proc");
	for (size_t i = 0; i < COUNT(masks); i++)
		if (entry->mask_exists[i] && mask(masks[i], e))
			return -1;
	return mnt_bind(CELL_ROOT "/proc/sys", CELL_ROOT "/proc/sys", MNT_RDONLY_FLAG, e);
}

/* Where none can be had, the VMM goes without. */
static int step_proc_apart(struct entry *entry, struct err *e)
{
	auto_close int fd = mnt_proc(e);

	(void)entry;
	return fd >= 0 && dup3(fd, VMM_PROC_FD, O_CLOEXEC) < 0 ? err_sys(e, "dup3") : 0;
}

static int step_wait_for_map(struct entry *entry, struct err *e)
{
	char byte;

	if (fd_read_all(entry->mapped_fd, &byte, 1))
		return err_set(e, ERR_GONE, "the warden gave up");
	close(entry->mapped_fd);
	return 0;
}

static int step_credentials(struct entry *entry, struct err *e)
{
	(void)entry;
	/* Rootless, setgroups is denied for the namespace: then there is nothing to drop either,
	 * since groups that are not mapped grant nothing. */
	if (setgroups(0, NULL) && errno != EPERM)
		return err_sys(e, "drop groups");
	if (setresgid(CELL_UID, CELL_UID, CELL_UID))
		return err_sys(e, "become the cell's group");
	if (setresuid(CELL_UID, CELL_UID, CELL_UID))
		return err_sys(e, "become the cell's user");
	/* Changing ids made us dumpable as the system is configured: not with us. */
	return prctl(PR_SET_DUMPABLE, 0) ? err_sys(e, "prctl") : 0;
}

static int step_disk(struct entry *entry, struct err *e)
{
	static const struct {
		const char *dir;
		const char *target;
		unsigned flags;
		mode_t mode;
	} parts[] = {
		{ CELL_ROOT "/tmp/workspace", CELL_ROOT "/workspace", 0, 0755 },
		{ CELL_ROOT "/tmp/shm", CELL_ROOT "/dev/shm", MNT_NOEXEC_FLAG, 01777 },
		{ CELL_ROOT "/tmp/tmp", CELL_ROOT "/tmp", 0, 01777 },
	};
	unsigned long long bytes = entry->spec->limits.at[LIMIT_DISK_BYTES];
	unsigned long long inodes = limits_inodes(bytes);
	char options[128];

	/* One file system, so that one limit holds for all that the cell can write; its three
	 * parts are laid over the template, the last one over the file system's own top. */
	snprintf(options, sizeof(options), "mode=0755,size=%llu,nr_inodes=%llu", bytes, inodes);
	if (mnt_tmpfs(CELL_ROOT "/tmp", options, MNT_NODEV_FLAG, e))
		return -1;
	umask(0);
	for (size_t i = 0; i < COUNT(parts); i++) {
		if (mkdir(parts[i].dir, parts[i].mode))
			return err_sys(e, "mkdir '%s'", parts[i].dir);
		if (mnt_bind(parts[i].dir, parts[i].target, parts[i].flags, e))
			return -1;
	}
	umask(022);
	return 0;
}

static int step_mounts(struct entry *entry, struct err *e)
{
	return host_dirs_show(CELL_ROOT, entry->spec->mounts, entry->spec->mounts_count, e);
}

static int step_pivot(struct entry *entry, struct err *e)
{
	(void)entry;
	return mnt_pivot(CELL_ROOT, NULL, e);
}

static int step_hostname(struct entry *entry, struct err *e)
{
	(void)entry;
	/* Some container runtimes forbid just this. A name is no wall: go on without. */
	return sethostname("cell", 4) && errno != EPERM ? err_sys(e, "sethostname") : 0;
}

static int step_no_new_privs(struct entry *entry, struct err *e)
{
	(void)entry;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? err_sys(e, "no_new_privs") : 0;
}

static int step_capabilities(struct entry *entry, struct err *e)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	(void)entry;
	/* Up to the first number that the kernel does not know. */
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
		;
	if (errno != EINVAL)
		return err_sys(e, "empty the bounding set");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return err_sys(e, "clear ambient capabilities");
	if (syscall(SYS_capset, &header, none))
		return err_sys(e, "drop capabilities");
	return 0;
}

/* Every drop is proved: try to take it back, and expect to fail. */
static int step_prove(struct entry *entry, struct err *e)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2] = { { 0 } };

	(void)entry;
	if (syscall(SYS_capget, &header, have))
		return err_sys(e, "capget");
	if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 0 || prctl(PR_CAPBSET_READ, CAP_LAST_CAP) != 0)
		return err_set(e, ERR_SYSTEM, "the bounding set is not empty");
	for (int i = 0; i < 2; i++)
		if (have[i].effective | have[i].permitted | have[i].inheritable)
			return err_set(e, ERR_SYSTEM, "capabilities are left");
	if (setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0)
		return err_set(e, ERR_SYSTEM, "root could be taken back");
	if (getuid() != CELL_UID || getgid() != CELL_UID)
		return err_set(e, ERR_SYSTEM, "not the cell's user");
	if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0)
		return err_set(e, ERR_SYSTEM, "mounting is still possible");
	return 0;
}

static int step_death(struct entry *entry, struct err *e)
{
	(void)entry;
	return prctl(PR_SET_PDEATHSIG, SIGKILL) ? err_sys(e, "pdeathsig") : 0;
}

/* 1, not 0: where crashes are piped to a handler, the kernel starts it as root outside of every
 * cell whatever the limit is, unless it is exactly this. Where we were started with less and may
 * not raise it, it stays. */
static int step_core(struct entry *entry, struct err *e)
{
	struct rlimit one = { .rlim_cur = 1, .rlim_max = 1 };

	(void)entry;
	return setrlimit(RLIMIT_CORE, &one) && errno != EPERM ? err_sys(e, "setrlimit") : 0;
}

static int step_landlock(struct entry *entry, struct err *e)
{
	return entry->landlock_abi ? landlock_enter(entry->landlock_abi, entry->holds_vmm, e) : 0;
}

static int step_seccomp(struct entry *entry, struct err *e)
{
	return seccomp_install(entry->filter, e);
}

static const struct step {
	const char *name;
	int (*take)(struct entry *entry, struct err *e);
	const char *why;
	enum step_where where;
} steps[] = {
	{ "cgroup", step_cgroup, "before anything is allocated, so that all of it counts" },
	{ "descriptors", step_descriptors,
		"only control socket, lifeline and report stay; while the template is in view" },
	{ "session", step_session, "no terminal and no keyring of ours" },
	{ "root", step_root, "a copy of the template and what the language needs besides" },
	{ "proc", step_proc, "shows the cell's processes only; what tells of the machine is masked",
		STEP_IN_CONTAINER },
	{ "proc apart", step_proc_apart,
		"the same without a place: a descriptor, for the VMM's own pages", STEP_IN_VM },
	{ "id map", step_wait_for_map,
		"the warden wrote it meanwhile; ids mean something from here" },
	{ "dumpable", step_dumpable,
		"nobody may look into this process; not before the warden wrote the map, which it could "
		"not open then" },
	{ "credentials", step_credentials,
		"groups before user: without the user we may not change them" },
	{ "disk", step_disk, "as the cell's user, who is to own it; while we may still mount" },
	{ "mounts", step_mounts,
		"directories of the host that were asked for, read-only: as the cell's user, so that it "
		"sees none that this user could not reach" },
	{ "pivot", step_pivot, "the last mount of all: the warden's root is gone" },
	{ "hostname", step_hostname, "while we have capabilities in our namespaces" },
	{ "no_new_privs", step_no_new_privs, "nothing executed below can gain rights" },
	{ "capabilities", step_capabilities, "all of them, from every set" },
	{ "prove", step_prove, "try to get root, capabilities and mounts back; expect to fail" },
	{ "death", step_death, "after the ids: changing them clears it" },
	{ "core", step_core,
		"a crash must not call the machine's crash handler; the filter keeps it so" },
	{ "landlock", step_landlock,
		"needs no_new_privs; writes only beneath the cell's own disk" },
	{ "seccomp", step_seccomp, "last: everything above needs calls that it denies" },
};

static bool is_taken(const struct entry *entry, enum step_where where)
{
	return where == STEP_ANYWHERE || (where == STEP_IN_VM) == entry->holds_vmm;
}

int enter(struct entry *entry, struct err *e)
{
	for (size_t i = 0; i < COUNT(steps); i++)
		if (is_taken(entry, steps[i].where) && steps[i].take(entry, e))
			return err_wrap(e, "%s", steps[i].name);
	return 0;
}

unsigned enter_steps(const struct step_text **ret)
{
	static struct step_text texts[COUNT(steps)];

	for (size_t i = 0; i < COUNT(steps); i++)
		texts[i] = (struct step_text){
			.name = steps[i].name, .why = steps[i].why, .where = steps[i].where
		};
	*ret = texts;
	return COUNT(steps);
}
