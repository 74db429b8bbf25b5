/* vcpu: one KVM machine with one processor.
 *
 * The machine has no devices and no kernel. A program leaves it by OUT, for a system call through
 * the gate or for an exception through a handler. What the processor holds between two exits is
 * always expressed as the *program's* registers: `struct registers` means what a signal handler
 * would mean by them, whichever kind of host this is. */
#ifndef HOTCELL_VMM_VCPU_H
#define HOTCELL_VMM_VCPU_H

#include "base/err.h"

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

struct registers {
	struct kvm_regs general;
	uint64_t fs_base;
	uint64_t gs_base;
};

/* Where the processor stands: what it takes to let the program go on. */
enum stands {
	STANDS_IN_PROGRAM,
	STANDS_AT_GATE,   /* after a system call */
	STANDS_IN_STUB,   /* interrupted there: nothing but going on is possible */
	STANDS_IN_KERNEL, /* after an exception, or in the page table editor */
};

struct vcpu {
	int vm_fd;
	int fd;
	struct kvm_run *run;
	uint32_t run_size;
	struct kvm_sregs user; /* segments and control registers of a running program */
	bool is_pvm;
	enum stands stands;
	/* The registers are the stub's, or a handler's: nothing but going on is possible. On a PVM
	 * host a program can go there by itself. */
	bool in_stub;
	uint64_t loaded_fs_base;
	uint64_t loaded_gs_base;
	unsigned slots;
};

enum vcpu_exit {
	VCPU_CALL,        /* a system call */
	VCPU_EXCEPTION,   /* `fault` tells */
	VCPU_INTERRUPTED, /* a signal came */
	VCPU_EDITED,      /* the page table editor is done */
	VCPU_BROKEN,      /* the guest did something that no program does */
};

struct fault {
	unsigned vector;
	uint64_t error_code;
	uint64_t address; /* of a page fault */
	bool in_stub;     /* it was the stub that did it, not the program */
};

/* Whether the machine is of the PVM kind is asked once and handed on to later machines. */
int vcpu_open(struct vcpu *cpu, int kvm_fd, struct err *e);
void vcpu_close(struct vcpu *cpu);
int vcpu_add_memory(struct vcpu *cpu, uint64_t physical, uint64_t size, void *host, struct err *e);

/* Runs a program that has exactly these registers, until something happens; they are then as that
 * left them. After VCPU_INTERRUPTED they may be the stub's (`in_stub`): then they must be
 * given back unchanged. `host` is guest physical memory, for the frame of an exception. */
enum vcpu_exit vcpu_run(
	struct vcpu *cpu, struct registers *registers, const uint8_t *host, struct fault *ret);

/* Runs the page table editor over `count` entries of its list. */
int vcpu_edit(struct vcpu *cpu, uint64_t count);

int vcpu_get_xsave(struct vcpu *cpu, struct kvm_xsave *ret);
int vcpu_set_xsave(struct vcpu *cpu, const struct kvm_xsave *from);

/* As it was when opened, for the next program; what it remembers of the page tables is gone. */
int vcpu_restore(struct vcpu *cpu);

/* Whether it can be run at all: what the kernel makes at the first run is made now. */
int vcpu_try(struct vcpu *cpu);
/* From a signal handler: the next vcpu_run() ends at once. */
void vcpu_interrupt(struct vcpu *cpu);

#endif
