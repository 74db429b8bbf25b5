/* vm: a container cell whose programs are guests of KVM. The wall is the container's (cell/wall); what
 * the keeper starts behind it is hotcell-vmm, which runs the program in a virtual machine. */
#ifndef HOTCELL_CELL_VM_VM_H
#define HOTCELL_CELL_VM_VM_H

#include "cell/isolation.h"

extern const struct isolation isolation_vm;

/* /dev/kvm, or -1 with a reason that says what to do about it; its API version is the one there is. */
int vm_open_kvm(struct err *e);
/* hotcell-vmm, which lies beside hotcell-warden. */
int vm_open_vmm(struct err *e);

#endif
