/* process: a cell without a wall, for trusted code. It has limits, a clean environment, a
 * directory of its own and a user that is not root; it is not isolated. */
#ifndef HOTCELL_CELL_PROCESS_PROCESS_H
#define HOTCELL_CELL_PROCESS_PROCESS_H

#include "cell/isolation.h"

extern const struct isolation isolation_process;

#endif
