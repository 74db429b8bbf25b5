/* container: cells walled by Linux namespaces (cell/wall). */
#ifndef HOTCELL_CELL_CONTAINER_CONTAINER_H
#define HOTCELL_CELL_CONTAINER_CONTAINER_H

#include "cell/isolation.h"

extern const struct isolation isolation_container;

#endif
