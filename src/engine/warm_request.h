/* warm_request: what a driver that waits is told: see drivers/python/warm.py. */
#ifndef HOTCELL_ENGINE_WARM_REQUEST_H
#define HOTCELL_ENGINE_WARM_REQUEST_H

#include "engine/work.h"

/* Into work->warm_request. */
int warm_request_build(struct hotcell_work *work, struct err *e);
/* As a REQUEST frame in h->out. */
int warm_request_put(struct hotcell_work *work, struct err *e);
/* One for practice; empty if the language has none. */
void warm_request_rehearsal(const struct language *language, struct buf *ret);

#endif
