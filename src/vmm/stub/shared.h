/* shared: the page through which VMM and stub speak. The VMM sets it; on a PVM host the guest may
 * write it too, so the VMM reads nothing from it that it has not checked. */
#ifndef HOTCELL_VMM_SHARED_H
#define HOTCELL_VMM_SHARED_H

enum { SHARED_WAITERS_MAX = 32, SHARED_SIGNALS = 64 };

struct shared {
	unsigned long tsc; /* the time stamp counter when the two below were read */
	unsigned long monotonic_ns;
	unsigned long realtime_ns;
	unsigned long ns_per_tick_32; /* as a fraction of 2^32 */

	unsigned long heap_start; /* brk moves between these without an exit */
	unsigned long heap;
	unsigned long heap_end;

	unsigned long pid;
	unsigned long tid;
	unsigned long one_thread; /* nobody to yield to */

	unsigned long out_fd; /* whose output is in the buffer */
	unsigned long out_len;
	unsigned long out_fds; /* bits: which of descriptors 1 and 2 are buffered */

	unsigned long every_call_leaves; /* for tracing, and while the VMM wants to know */
	unsigned long attention;         /* leave after this call: a signal waits */
	unsigned long calls;             /* how many were answered without an exit */

	unsigned long
		waiters_count; /* addresses that somebody waits for; more than fit: all may be */
	unsigned long waiters[SHARED_WAITERS_MAX];

	struct shared_action {
		unsigned long handler, flags, restorer, mask;
	} actions[SHARED_SIGNALS]; /* from signal 1 on: for programs that ask about every one */
};

/* The program's registers while the stub runs, at the top of its stack. The first six come back by
 * themselves, unless a fault ends the stub on its way. */
struct stub_registers {
	unsigned long r15, r14, r13, r12, rbp, rbx;
	unsigned long rax, r9, r8, r10, rdx, rsi, rdi, r11, rcx, rsp;
};

#endif
