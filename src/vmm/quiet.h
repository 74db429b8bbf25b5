/* quiet: which calls a warm run can make without anybody but its machine knowing of it (wire/vmm_warm.h). */
#ifndef HOTCELL_VMM_QUIET_H
#define HOTCELL_VMM_QUIET_H

#include "vmm/guest.h"

#include <stdbool.h>

/* It concerns only the program's own memory and time. What it prints, the stub takes. */
bool quiet_stays(const struct call *call);

#endif
