/* processor: what a machine's processor is set to before a program runs on it, and again between two
 * programs. What it *does* is vcpu.h's. */
#ifndef HOTCELL_VMM_PROCESSOR_H
#define HOTCELL_VMM_PROCESSOR_H

#include "vmm/vcpu.h"

#include <linux/kvm.h>

/* A new processor. Leaves in cpu->user what a running program has. */
int processor_set_up(struct vcpu *cpu, int kvm_fd, struct err *e);

/* What KVM says that the processor can do, as text: asking takes as long as making a machine does, and
 * another VMM on this host would be told the same. */
enum { PROCESSOR_FEATURES_SIZE = 16384 };
void processor_save_features(char ret[PROCESSOR_FEATURES_SIZE]);
void processor_load_features(const char *text);

/* One that another program has run on. Where the processor makes the rings a program can change next
 * to nothing of this; it is set all the same, so that a mistake of ours does not outlive a run. Its
 * translations are forgotten, too. -1 if KVM refuses. */
int processor_restore(struct vcpu *cpu);

/* Code and stack segment of a ring. */
void processor_set_ring(struct kvm_sregs *s, unsigned ring);

#endif
