/* procid: a name for a process that is never given to another one: pid namespace, pid, start time.
 * What a program leaves behind (a cgroup, a directory) carries it, so that a later start can tell
 * whether the owner still lives. */
#ifndef HOTCELL_BASE_PROCID_H
#define HOTCELL_BASE_PROCID_H

#include <stdbool.h>
#include <stddef.h>

enum { PROCID_SIZE = 80 };

/* "4026531836-1234-567890" of the calling process. */
int procid_self(char *ret, size_t size);

/* Whether the owner named by the digits at the start of `text` is known to be dead. False for
 * another pid namespace: from here nobody can tell. */
bool procid_is_dead(const char *text);

#endif
