/* vm: a container cell whose programs are guests of KVM. The wall is the container's (cell/wall); what
 * the keeper starts behind it is hotcell-vmm, which runs the program in a virtual machine. */
#ifndef HOTCELL_CELL_VM_VM_H
#define HOTCELL_CELL_VM_VM_H

#include "cell/isolation.h"

extern const struct isolation isolation_vm;

/* What a vm cell stands on: /dev/kvm with an API that is known (a descriptor), and the path of
 * hotcell-vmm, which lies beside hotcell-warden. -1 with the reason and the command that mends it. */
int vm_open_kvm(const char **ret_fix, struct err *e);
int vm_find_vmm(char *ret, size_t size, const char **ret_fix, struct err *e);

#endif
