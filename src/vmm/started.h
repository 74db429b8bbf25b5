/* started: with which words and variables a program was started, as /proc tells it. In a warm machine
 * that is what its request says, and not how its driver was started long ago. */
#ifndef HOTCELL_VMM_STARTED_H
#define HOTCELL_VMM_STARTED_H

#include "base/buf.h"
#include "vmm/guest.h"

/* Each adds strings with their NULs. */
void started_words(const struct guest *g, struct buf *ret);
void started_environment(const struct guest *g, struct buf *ret);

#endif
