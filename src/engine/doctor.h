/* doctor: asks a warden what this machine gives. */
#ifndef HOTCELL_ENGINE_DOCTOR_H
#define HOTCELL_ENGINE_DOCTOR_H

#include "engine/engine.h"

/* Each row is valid during the call of on_row only. */
int doctor_ask(struct hotcell *h, void (*on_row)(void *context, const struct msg_checked *row),
	void *context, struct err *e);

#endif
