/* privileges: the warden keeps the capabilities that building cells needs, and no other. */
#ifndef HOTCELL_WARDEN_PRIVILEGES_H
#define HOTCELL_WARDEN_PRIVILEGES_H

#include "base/err.h"

int privileges_drop(struct err *e);

#endif
