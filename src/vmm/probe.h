/* probe: which kind of host this is. */
#ifndef HOTCELL_VMM_PROBE_H
#define HOTCELL_VMM_PROBE_H

#include "base/err.h"

#include <stdbool.h>

/* Runs one SYSCALL in a machine of its own and looks in which ring it arrives. */
int probe_host(int kvm_fd, bool *ret_is_pvm, struct err *e);

/* What such a host is called: "pvm", "svm" or "vt-x". */
const char *probe_name(bool is_pvm);

#endif
