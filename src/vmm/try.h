/* try: copies where one side is the guest's memory.
 *
 * Behind it may be a file that has been cut short, by the program itself or by another one: touching
 * it is then a SIGBUS, for us as well. These say so instead. The host's system calls need no such
 * care: they return EFAULT. */
#ifndef HOTCELL_VMM_TRY_H
#define HOTCELL_VMM_TRY_H

#include <stdbool.h>
#include <stddef.h>

/* 0 or -EFAULT; part of it may be done then. Each byte is read once. */
int try_copy(void *to, const void *from, size_t size);
int try_zero(void *to, size_t size);

/* For the handler of SIGBUS and SIGSEGV: whether it was one of these that failed. It goes on with
 * its error then. */
bool try_failed(void *signal_context);

#endif
