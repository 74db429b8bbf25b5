#include "vmm/pids.h"

#include <limits.h>

/* No kernel has so many. */
enum { NOBODY = 0x3fffffff };

static int host_number;
static int shown_number;

void pids_set(int host, int shown)
{
	host_number = host;
	shown_number = shown;
}

void pids_get(int *ret_host, int *ret_shown)
{
	*ret_host = host_number;
	*ret_shown = shown_number;
}

int pids_shown(int host)
{
	return host_number && host == host_number ? shown_number : host;
}

int pids_host(int shown)
{
	/* A group. The smallest number of all has no counterpart, and is nobody's. */
	if (shown == INT_MIN)
		return shown;
	if (shown < -1)
		return -pids_host(-shown);
	if (!host_number || host_number == shown_number)
		return shown;
	if (shown == shown_number)
		return host_number;
	return shown == host_number ? NOBODY : shown;
}
