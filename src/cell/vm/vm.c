#include "cell/vm/vm.h"

#include "base/kvm.h"
#include "base/own.h"
#include "base/path.h"
#include "cell/wall/wall.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0;
}

/* From the file alone: what else knows of groups is other people's code, and we may be root. */
static void name_group(gid_t gid, char *ret, size_t size)
{
	auto_fclose FILE *file = fopen("/etc/group", "re");
	struct group *found = NULL;
	struct group row;
	char room[4096];

	snprintf(ret, size, "%u", (unsigned)gid);
	while (file && fgetgrent_r(file, &row, room, sizeof(room), &found) == 0)
		if (row.gr_gid == gid) {
			snprintf(ret, size, "%s", row.gr_name);
			return;
		}
}

/* Who may open it is not the same everywhere: often its group, sometimes root alone. */
static const char *fix_of_rights(void)
{
	static char text[256];
	char group[64];
	struct stat st;

	if (geteuid() == 0)
		return in_container() ? "start the container with: --device /dev/kvm" :
					"let whatever confines this process give it /dev/kvm";
	if (stat("/dev/kvm", &st) || st.st_gid == 0 || (st.st_mode & 060) != 060)
		return "the device is root's alone: sudo groupadd -f kvm && sudo chgrp kvm /dev/kvm && "
		       "sudo chmod 660 /dev/kvm && sudo usermod -aG kvm $USER, then log in again "
		       "(a udev rule keeps it so)";
	name_group(st.st_gid, group, sizeof(group));
	snprintf(text, sizeof(text), "sudo usermod -aG %s $USER, then log in again", group);
	return text;
}

int vm_open_kvm(const char **ret_fix, struct err *e)
{
	int fd = kvm_open(e);

	if (fd >= 0)
		return fd;
	if (e->sys_errno == EACCES || e->sys_errno == EPERM)
		*ret_fix = fix_of_rights();
	else if (!e->sys_errno)
		*ret_fix = "install a kernel with a stable KVM";
	else
		*ret_fix =
			in_container() ?
				"start the container with: --device /dev/kvm" :
				"enable virtualisation in the firmware and run: sudo modprobe kvm";
	return -1;
}

int vm_find_vmm(char *ret, size_t size, const char **ret_fix, struct err *e)
{
	char path[PATH_MAX_BYTES + 1];
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX_BYTES);

	*ret_fix = "sudo make install";
	if (len <= 0)
		return err_sys(e, "read /proc/self/exe");
	path[len] = '\0';
	*strrchr(path, '/') = '\0';
	snprintf(ret, size, "%s/hotcell-vmm", path);
	return access(ret, X_OK) ? err_set(e, ERR_UNAVAILABLE, "%s: %s", ret, strerror(errno)) : 0;
}

static int tell_fix(struct err *e, const char *fix)
{
	size_t used = strlen(e->text);

	snprintf(e->text + used, sizeof(e->text) - used, ERR_ADVICE "%s", fix);
	return -1;
}

/* The VMM's descriptors lie above every number that a guest can have. */
static int make_room(struct err *e)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now))
		return err_sys(e, "getrlimit");
	if (now.rlim_cur >= VMM_FDS_MAX)
		return 0;
	now.rlim_cur = VMM_FDS_MAX;
	if (now.rlim_max < VMM_FDS_MAX)
		now.rlim_max = VMM_FDS_MAX;
	if (setrlimit(RLIMIT_NOFILE, &now) == 0)
		return 0;
	return err_set(e, ERR_UNAVAILABLE,
		"it takes %d open files, and the hard limit here (ulimit -Hn) is lower",
		VMM_FDS_MAX);
}

/* At the number that it keeps: cells are born as copies of the warden. */
static int take_kvm(struct err *e)
{
	const char *fix = "";
	auto_close int fd = vm_open_kvm(&fix, e);

	if (fd < 0)
		return tell_fix(e, fix);
	return dup3(fd, VMM_KVM_FD, O_CLOEXEC) < 0 ? err_sys(e, "dup3") : 0;
}

/* Since Linux 6.13 every virtual machine has a thread of the kernel's own (it looks after huge pages),
 * and that counts as one of ours. */
static unsigned tasks_each(void)
{
	struct utsname name;
	unsigned major = 0;
	unsigned minor = 0;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return 1;
	return major > 6 || (major == 6 && minor >= 13) ? 2 : 1;
}

static int prepare(const struct isolation_options *options, void **ret_state, struct err *e)
{
	char vmm[PATH_MAX_BYTES + 16];
	const char *fix = "";

	if (make_room(e) || take_kvm(e))
		return -1;
	if (vm_find_vmm(vmm, sizeof(vmm), &fix, e))
		return tell_fix(e, fix);
	return wall_prepare(options, vmm, ret_state, e);
}

const struct isolation isolation_vm = {
	.name = "vm",
	.kind = ISOLATION_VM,
	.holds = WALL_HOLDS,
	.holds_network = true,
	.tasks_each = tasks_each,
	.prepare = prepare,
	.allow = wall_allow,
	.find_need = wall_find_need,
	.find_mount = wall_find_mount,
	.seal = wall_seal,
	.make = wall_make,
	.get_ahead = wall_get_ahead,
	.clear = wall_clear,
	.close = wall_close,
};
