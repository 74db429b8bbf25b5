/* landlock: a second opinion on files. Even if a mount were writable by mistake, the program could
 * write only to the places named here. */
#ifndef HOTCELL_CELL_WALL_LANDLOCK_H
#define HOTCELL_CELL_WALL_LANDLOCK_H

#include "base/err.h"

#include <stdbool.h>

/* 0 if the kernel has none. */
int landlock_abi(void);
/* For the calling process and all that it will start. Needs no_new_privs. A cell for a VMM has no
 * devices, and may use the VMM's own descriptors. */
int landlock_enter(int abi, bool for_vmm, struct err *e);

#endif
