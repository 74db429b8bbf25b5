/* privileges: the warden keeps the capabilities that building cells needs, and no other. */
#ifndef HOTCELL_WARDEN_PRIVILEGES_H
#define HOTCELL_WARDEN_PRIVILEGES_H

#include "base/err.h"
#include "wire/warden_wire.h"

int privileges_drop(enum isolation_kind kind, struct err *e);

#endif
