#include "vmm/call_misc.h"

#include "base/own.h"
#include "vmm/call_util.h"
#include "vmm/fds.h"
#include "vmm/pids.h"
#include "vmm/signal.h"
#include "vmm/stub/layout.h"
#include "vmm/thread.h"
#include "vmm/warm.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { ID = 1000 };

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
	return call_put(g, a[1], none, sizeof(none));
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
