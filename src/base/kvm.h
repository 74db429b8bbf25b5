/* kvm: the device of virtual machines. */
#ifndef HOTCELL_BASE_KVM_H
#define HOTCELL_BASE_KVM_H

#include "base/err.h"

/* A descriptor of /dev/kvm, whose API is one that we know; else -1 with *e set, and its sys_errno, if it was the
 * system that failed. That a file of this name may be opened says little: it may be there without a module behind
 * it, or be somebody else's device. */
int kvm_open(struct err *e);

#endif
