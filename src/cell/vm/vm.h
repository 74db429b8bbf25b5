/* vm: a container cell whose programs are guests of KVM. The wall is the container's (cell/wall); what
 * the keeper starts behind it is hotcell-vmm, which runs the program in a virtual machine. */
#ifndef HOTCELL_CELL_VM_VM_H
#define HOTCELL_CELL_VM_VM_H

#include "cell/isolation.h"

extern const struct isolation isolation_vm;

/* What a vm cell stands on: /dev/kvm with an API that is known, and hotcell-vmm, which lies beside
 * hotcell-warden. A descriptor, or -1 with the reason and the command that mends it. */
int vm_open_kvm(const char **ret_fix, struct err *e);
int vm_open_vmm(const char **ret_fix, struct err *e);

#endif
