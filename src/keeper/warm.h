/* warm: a machine that waits, warmed, for runs of the driver in it (wire/vmm_warm.h). The engine gives it
 * those; the keeper hears of one when it goes out. */
#ifndef HOTCELL_KEEPER_WARM_H
#define HOTCELL_KEEPER_WARM_H

#include "keeper/mother.h"
#include "wire/vmm_warm.h"

struct warm {
	int socket_fd;        /* to the VMM; -1 = there is none, or it is gone */
	int line_fd;          /* for the one that is started next: its socket to the engine; -1 */
	struct mother mother; /* of those that serve one run each */
};

/* Starts a VMM from a snapshot; *p is that program then, between runs too. Takes snapshot_fd and the line. */
int warm_start(struct warm *w, struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, int snapshot_fd, struct err *e);

/* Gives its streams to the run that it has. */
int warm_run(struct warm *w, struct program *p, bool with_stdin, struct err *e);

/* The same for one whose output goes where that of its run before went. */
int warm_run_again(struct warm *w, struct program *p, bool with_stdin, struct err *e);

/* The request that the machine has, or is about to get, is not run: its files could not be put in place. */
void warm_drop(const struct warm *w);

/* What it has to say: 1 with *ret and its text (of WARM_TEXT_MAX) set, 0 nothing, -1 it is gone. */
int warm_receive(struct warm *w, struct warm_answer *ret, char *ret_text);

#endif
