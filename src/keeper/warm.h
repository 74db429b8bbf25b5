/* warm: a machine that waits, warmed, for runs of the driver in it (wire/vmm_warm.h). */
#ifndef HOTCELL_KEEPER_WARM_H
#define HOTCELL_KEEPER_WARM_H

#include "keeper/program.h"
#include "wire/vmm_warm.h"

struct warm {
	int socket_fd; /* to the VMM; -1 = there is none */
	pid_t pid;
	/* Since a quiet run: the machine has the other ends of these, and of an empty input. */
	bool has_streams;
	int out_fd[2];
};

/* Starts a VMM from a snapshot. Takes snapshot_fd. */
int warm_start(struct warm *w, const struct msg_exec *exec, const struct keeper_options *options,
	int snapshot_fd, struct err *e);

/* Gives it a run. */
int warm_run(struct warm *w, struct program *p, const struct msg_exec *exec, struct err *e);

/* After a quiet run: its pipes serve the next one too. */
void warm_keep_streams(struct warm *w, struct program *p);
/* The run's files are in place. */
void warm_tell_staged(struct warm *w);

/* What it has to say: 1 with *ret and its text (of WARM_TEXT_MAX) set, 0 nothing, -1 it is gone. */
int warm_receive(struct warm *w, struct warm_answer *ret, char *ret_text);

/* The results of its run are out: it may go back to its snapshot. */
void warm_reset(struct warm *w);

void warm_close(struct warm *w);

#endif
