/* exec: what the keeper is told to start: a command with its environment and its limits. */
#ifndef HOTCELL_ENGINE_EXEC_H
#define HOTCELL_ENGINE_EXEC_H

#include "engine/work.h"

/* Where drivers are in a cell that has a root of its own. */
#define CELL_DRIVERS_DIR "/opt/hotcell/drivers"

/* The command of a step as an EXEC frame in h->out. */
int exec_step(struct hotcell_work *work, bool compile, struct err *e);
/* The same of a driver that is to wait: work->raw_argv. */
int exec_driver(struct hotcell_work *work, struct err *e);

#endif
