/* tree: who descends from whom among the processes of a cell. */
#ifndef HOTCELL_KEEPER_TREE_H
#define HOTCELL_KEEPER_TREE_H

#include <sys/types.h>

/* SIGKILL to all that descend from us. What is born during the pass is found in the next one. */
void tree_kill_descendants(void);
/* To all that descend from `pid` as far as their parents are alive, and to all in the session that it leads. */
void tree_kill(pid_t pid);

#endif
