/* signal: those of the program. */
#ifndef HOTCELL_VMM_SIGNAL_H
#define HOTCELL_VMM_SIGNAL_H

#include "vmm/guest.h"

/* From now on signals that this process gets are the program's. */
void signal_open(struct guest *g);
/* Signals that may come while we wait for something; everywhere else they are taken at once, too,
 * but only noted. */
const sigset_t *signal_waiting_mask(void);

/* A signal of the program to itself, or that it has earned. `thread` NULL: to any of its threads. */
void signal_raise(struct guest *g, struct thread *thread, int number, const siginfo_t *info);
/* A fault: cannot be blocked or ignored. */
void signal_fault(struct guest *g, int number, int code, uint64_t address);

/* Whether a signal waits that the thread would notice now. */
bool signal_waits(const struct guest *g, const struct thread *t);
/* Makes signals that wait happen to the current thread. Its registers may be changed: a handler is
 * entered, or the program ends. If it was in a call, the call's result is set. */
void signal_deliver(struct guest *g);
/* The stub is told of all actions; after they were changed. */
void signal_publish(struct guest *g);
/* How the host treats our children is as the program wants it. */
void signal_settle_children(const struct guest *g);
/* execve: handlers are gone. */
void signal_forget_noted(void); /* signals that came to us for a program that is gone */
/* Signals that have come and not happened yet are sent again: with all of them blocked they survive execve. */
void signal_pass_on(const struct guest *g);
void signal_forget_handlers(struct guest *g);
/* What came from outside is moved to the threads that will take it. */
void signal_distribute(struct guest *g);

bool signal_is_ignored(const struct guest *g, int number);
/* Whether the thread is on its stack for signals. */
bool signal_on_alt_stack(const struct thread *t, uint64_t stack);

/* The end of a handler: its frame is taken from the stack. */
int64_t call_rt_sigreturn(struct guest *g, const uint64_t a[6]);

#define SIGNAL_BIT(n)      (1ULL << ((n)-1))
#define SIGNAL_UNBLOCKABLE (SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP))

#endif
