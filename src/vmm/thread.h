/* thread: threads of the program. They take turns on one processor; a call that would block makes
 * its thread wait, and is made again when what it waits for seems to have happened. */
#ifndef HOTCELL_VMM_THREAD_H
#define HOTCELL_VMM_THREAD_H

#include "vmm/guest.h"

/* Each may be called before a handler returns CALL_WAITS; any of them ends the wait. */
void thread_wait_fd(struct thread *t, int fd, short events);
void thread_wait_until(struct thread *t, int64_t deadline_ns);
void thread_wait_child(struct thread *t);
/* Only a signal ends it. */
void thread_wait_signal(struct thread *t);

/* Whether the deadline, if there is one, has passed. */
/* It waits no longer. */
void thread_wake(struct thread *t);
bool thread_expired(const struct thread *t);

/* A wait of at most this long, as the program gave it: sets the deadline at the first try, and
 * leaves it alone at later ones. `timeout` is an address of a timespec, 0 = for ever. Returns 0 or a
 * negative errno. */
int thread_deadline(struct guest *g, uint64_t timeout, bool is_absolute, int clock);

/* Makes the next thread that can run the current one; waits until there is one. */
void thread_schedule(struct guest *g);
/* The current thread ends; if it was the last one, so does the program. */
void thread_end(struct guest *g, int status);
/* All threads but the current one are forgotten: after fork and execve. */
void thread_forget_others(struct guest *g);
/* Tells the stub what it must know of threads. */
void thread_publish(struct guest *g);
/* A machine that stood still goes on: deadlines, which were left as times to go, count from now. */
void thread_go_on(struct guest *g);
/* Whether more than one could run now. */
bool thread_others_run(const struct guest *g);
int thread_new(struct guest *g); /* an index, or -EAGAIN */

int64_t call_clone(struct guest *g, const uint64_t a[6]);

#endif
