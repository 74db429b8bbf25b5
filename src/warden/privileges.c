#include "warden/privileges.h"

#include "base/own.h"

#include <cap-ng.h>
#include <stdbool.h>
#include <sys/prctl.h>

static const struct {
	unsigned capability;
	const char *why;
} kept[] = {
	{ CAP_SYS_ADMIN, "namespaces" },
	{ CAP_SETUID, "id maps; becoming a cell's user" },
	{ CAP_SETGID, "likewise" },
	{ CAP_KILL, "ending cells, which run as other users" },
	{ CAP_SYS_PTRACE, "reading memory use where no cgroup counts it" },
	{ CAP_DAC_OVERRIDE, "removing what cells of other users left" },
	{ CAP_CHOWN, "giving a process cell its directory" },
	{ CAP_FOWNER, "removing it from a sticky directory" },
};

int privileges_drop(enum isolation_kind kind, struct err *e)
{
	(void)kind;
	if (capng_get_caps_process() || capng_have_capabilities(CAPNG_SELECT_CAPS) == CAPNG_NONE)
		return 0; /* an ordinary user: nothing to drop */
	for (unsigned i = 0; i <= 63; i++) {
		bool keep = false;

		for (size_t k = 0; k < COUNT(kept); k++)
			keep |= kept[k].capability == i;
		if (!keep && cap_valid(i))
			capng_update(CAPNG_DROP,
				CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE, i);
	}
	if (capng_apply(CAPNG_SELECT_CAPS))
		return err_sys(e, "drop capabilities");
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? err_sys(e, "no_new_privs") : 0;
}
