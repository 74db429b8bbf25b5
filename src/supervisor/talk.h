/* talk: what the supervisor and its daemon say to each other: sentences, and a descriptor with some. */
#ifndef HOTCELL_SUPERVISOR_TALK_H
#define HOTCELL_SUPERVISOR_TALK_H

#include <stdbool.h>
#include <stddef.h>

/* `fd`: or -1. Whoever does not listen any more is missed elsewhere. */
void talk_send(int to, const char *text, int fd);
/* A sentence, and a descriptor with it or -1. False: the other end is gone. */
bool talk_receive(int from, int flags, char *ret_text, size_t size, int *ret_fd);

#endif
