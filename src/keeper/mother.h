/* mother: a hotcell-vmm that makes the machines of a cell in which each serves one run (wire/vmm_mother.h).
 *
 * It is a convenience only. A run that gets out of its machine can signal it: so if it is gone, silent, or made for other
 * limits, all in the cell is killed, and another one is started. */
#ifndef HOTCELL_KEEPER_MOTHER_H
#define HOTCELL_KEEPER_MOTHER_H

#include "keeper/program.h"

struct mother {
	pid_t pid;     /* 0 = there is none */
	int socket_fd; /* to it */
	/* Its children are as it was started. */
	uint64_t open_files, processes, file_bytes, memory_bytes;
	dev_t snapshot_device;
	ino_t snapshot_number;
};

/* Kills all in the cell but it, and waits until they are gone; `program` is the one that is known of. False: it is not
 * there, or does not do so. */
bool mother_sweep(struct mother *m, const struct program *program);

/* One for such machines, unless there is; it is forgotten if it does not fit. Nobody else is in the cell. */
int mother_start(struct mother *m, const struct msg_exec *exec,
	const struct keeper_options *options, int snapshot_fd, struct err *e);

/* Returns the machine's process id; -1 if there will be none. */
pid_t mother_make(struct mother *m, int warm_fd, int line_fd);

/* It has been killed with all others. */
void mother_forget(struct mother *m);

#endif
