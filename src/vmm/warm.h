/* warm: a machine that was warmed once, and serves request after request from there. */
#ifndef HOTCELL_VMM_WARM_H
#define HOTCELL_VMM_WARM_H

#include "vmm/guest.h"

enum warm_mode {
	WARM_OFF,
	WARM_MAKES_SNAPSHOT, /* the first request is the moment of the snapshot */
	WARM_SERVES,
};

void warm_open(struct guest *g, enum warm_mode wanted);
/* A forked child is a process like any other. */
void warm_leave(struct guest *g);

/* Whether a call is the driver's own (read and write of its descriptor), and serves it then. */
bool warm_takes(struct guest *g, const struct call *call);
int64_t warm_call(struct guest *g, const struct call *call);

/* A call that is not the driver's own is about to be made. */
void warm_watch(struct guest *g, const struct call *call);
/* The run is quiet no longer: it takes a while, or ends in a way that the keeper must tell. */
void warm_go_out(struct guest *g);
/* Whether what the program has printed need not be passed on now: it goes with the news of its end. */
bool warm_keeps(struct guest *g, int fd, const uint8_t *data, size_t len);

/* The request that is being served, also for those that the run has forked; NULL if there is none. */
const uint8_t *warm_request(size_t *ret_size);

/* The program ends itself: in a warm machine that is the end of a run, and not of the machine. Returns
 * whether it was; then the machine stands at its snapshot. */
bool warm_exit(struct guest *g, uint8_t status);

/* Nobody can run: the moment for a snapshot, if one is to be made. */
void warm_idle(struct guest *g);

/* After this run the machine is not as it was, in a way that no reset undoes. */
void warm_spoil(struct guest *g);

#endif
