/* guest: one program in its machine, and all that the VMM knows of it.
 *
 *	guest.c    the loop: run, see why it left, serve, choose who runs next
 *	calls.c    the table of system calls: which file serves what
 *	thread.c   threads of the program, which take turns on the one processor
 *	signal.c   signals: from outside, from faults, to handlers
 *	process.c  fork, execve, wait: one VMM for each process of the guest
 *	call_*.c   the calls themselves
 *
 * One guest process is one process of ours, and it has our descriptors: guest descriptor n is our
 * descriptor n. What is ours alone lies from VMM_GUEST_FDS on. */
#ifndef HOTCELL_VMM_GUEST_H
#define HOTCELL_VMM_GUEST_H

#include "vmm/mem.h"
#include "vmm/stub/shared.h"
#include "vmm/vcpu.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { THREADS_MAX = 256, SIGNALS_MAX = 64, PATH_SIZE = 4096 };

/* What a handler of a system call returns besides a result or a negative errno. */
#define CALL_WAITS         INT64_MIN /* thread_wait_*() said for what: it is called again then */
#define CALL_YIELDS        (INT64_MIN + 2) /* it is called again after whoever else wants to run */
#define CALL_SET_REGISTERS (INT64_MIN + 1) /* the registers are as they should be */

struct call {
	uint64_t number;
	uint64_t a[6];
};

struct signal_action { /* as the kernel has it */
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

struct alt_stack {
	uint64_t base;
	int32_t flags;
	uint64_t size;
};

struct thread {
	bool used;
	int tid;
	struct registers registers;
	struct kvm_xsave xsave; /* while another thread runs */
	uint64_t clear_tid;     /* zeroed and woken when it ends */

	struct call call; /* the one that it is in */
	bool waits;
	bool tries_again;    /* the call is made again after a wait: its deadline stands */
	bool woken;          /* what it waited for has happened */
	int64_t deadline_ns; /* CLOCK_MONOTONIC; 0 = none */
	uint64_t futex;      /* address; 0 = none */
	uint32_t futex_bits;
	struct pollfd *polls; /* any of these */
	uint32_t polls_count, polls_room;
	bool waits_for_child;
	bool waits_for_request; /* the driver wants its next run: see warm.c */

	uint64_t blocked; /* signals: bit n-1 for signal n */
	uint64_t blocked_before;
	bool restores_blocked; /* sigsuspend, ppoll: `blocked_before` is put back afterwards */
	uint64_t pending;
	uint64_t awaited; /* by sigtimedwait, though they are blocked */
	struct alt_stack alt_stack;
};

struct guest {
	struct vcpu cpu;
	struct mem mem;
	struct thread *threads;
	int threads_used;
	int threads_top; /* those from here on were never used: their memory is not touched */
	int current;     /* index of the thread whose registers the processor has */
	int pid;

	struct signal_action actions[SIGNALS_MAX + 1];
	uint64_t pending;
	siginfo_t infos[SIGNALS_MAX + 1];

	char exe[PATH_SIZE]; /* what /proc/self/exe shows */
	char comm[16];
	const char *const *argv; /* what was started, for /proc/self/cmdline */
	const char *const *environment;
	uint64_t open_files; /* the program's limit of descriptors */
	uint64_t processes;  /* that the cell may have, whatever the host counts as one; 0: any */
	uint64_t open_files_max; /* what it was at the start of every run */
	uint64_t memory_bytes;
	uint64_t open_files_most;
	uint64_t address_space; /* RLIMIT_AS */
	uint64_t address_space_most;
	int nice;
	int first_nice; /* the VMM's own */
	bool traces;
	/* Its output goes to the keeper, who reads it to the end; so it may be kept back for a while.
	 * A child may write into a pipe that nobody reads, and must hear of it at once. */
	bool keeps_output;
	bool discards_output;

	/* A vfork is going on: we are the child and use the parent's memory and machine. */
	bool in_vfork;
	/* The VMM is at work, and not its guest. A vfork child that is killed meanwhile leaves half
	 * written books behind, which are its parent's too. */
	volatile bool in_books;

	uint64_t exits;
};

static inline struct thread *guest_thread(struct guest *g)
{
	return &g->threads[g->current];
}

static inline volatile struct shared *guest_shared(struct guest *g)
{
	return (volatile struct shared *)(void *)(g->mem.host + 0x1f000);
}

/* Runs the program until it ends, and ends this process with it. */
_Noreturn void guest_run(struct guest *g);

/* Passes on what the program wrote and the stub kept. Returns 0 or a negative errno. */
int guest_flush_output(struct guest *g);

/* Ends all of the program: as exit_group does, or as a signal does. */
_Noreturn void guest_exit(struct guest *g, int status);
_Noreturn void guest_die(struct guest *g, int number);

/* Says something on the program's standard error, as from hotcell. */
__attribute__((format(printf, 2, 3))) void guest_say(struct guest *g, const char *format, ...);

/* Sets the time for the stub. */
void guest_set_clock(struct guest *g);
int64_t guest_now_ns(void);

#endif
