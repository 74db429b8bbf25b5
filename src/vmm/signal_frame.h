/* signal_frame: what a signal handler finds on its stack, as Linux puts it there. A program's C library
 * knows it by heart; tests/unit/test_vmm_signal.c compares it with the kernel's own headers.
 *
 *	stack ->  signal_frame   return address, registers, siginfo
 *	          ...            to a multiple of 64 bytes
 *	fpstate   XSAVE area, and XSTATE_MAGIC2 behind it
 *	          128 bytes that are the interrupted function's */
#ifndef HOTCELL_VMM_SIGNAL_FRAME_H
#define HOTCELL_VMM_SIGNAL_FRAME_H

#include <signal.h>
#include <stdint.h>

enum { XSAVE_SIZE = 832, XSAVE_SOFTWARE_AT = 464 };

#define XSTATE_MAGIC1 0x46505853U
#define XSTATE_MAGIC2 0x46505845U

struct signal_context {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2;
	uint64_t fpstate;
	uint64_t reserved[8];
};

struct user_context {
	uint64_t flags;
	uint64_t link;
	uint64_t stack_base;
	int32_t stack_flags;
	int32_t padding;
	uint64_t stack_size;
	struct signal_context registers;
	uint64_t mask;
};

struct signal_frame {
	uint64_t restorer;
	struct user_context context;
	siginfo_t info;
};

#endif
