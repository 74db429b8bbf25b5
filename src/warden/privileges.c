#include "warden/privileges.h"

#include "base/own.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const struct {
	unsigned capability;
	const char *why;
} kept[] = {
	{ CAP_SYS_ADMIN, "namespaces" },
	{ CAP_SETUID, "id maps; becoming a cell's user" },
	{ CAP_SETGID, "likewise" },
	{ CAP_SETFCAP, "mapping our own user id 0, where we have no other to give" },
	{ CAP_KILL, "ending cells, which run as other users" },
	{ CAP_SYS_PTRACE, "reading memory use where no cgroup counts it" },
	{ CAP_DAC_OVERRIDE, "removing what cells of other users left" },
	{ CAP_CHOWN, "giving a process cell its directory" },
	{ CAP_FOWNER, "removing it from a sticky directory" },
};

int privileges_drop(struct err *e)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	uint64_t keep = 0;

	for (size_t i = 0; i < COUNT(kept); i++)
		keep |= 1ULL << kept[i].capability;
	if (syscall(SYS_capget, &header, data))
		return err_sys(e, "capget");
	/* An ordinary user has none: then this changes nothing. */
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> (32 * i));
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data))
		return err_sys(e, "drop capabilities");
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? err_sys(e, "no_new_privs") : 0;
}
