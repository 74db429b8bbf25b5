/* program: starting, ending and reaping what runs in a cell. */
#ifndef HOTCELL_KEEPER_PROGRAM_H
#define HOTCELL_KEEPER_PROGRAM_H

#include "base/err.h"
#include "keeper/keeper.h"
#include "keeper/vmm.h"
#include "wire/cell_wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct program {
	pid_t pid; /* 0 = none was started */
	bool main_reaped;
	bool all_reaped;
	int wait_status;
	int stdin_fd;  /* write end, -1 when closed */
	int out_fd[2]; /* read ends: stdout, stderr */
	uint64_t cpu_us;
	uint64_t cpu_before_us; /* used by it before it was the run's */
	uint64_t max_rss_bytes;
	uint64_t processes;
};

/* `snapshot_fd`: what an EXEC_SNAPSHOT is to fill, `line_fd`: on which it finds a rehearsal; else -1. */
int program_start(struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, int line_fd, int snapshot_fd, struct err *e);
/* A VMM that waits for runs, or makes those that do: it has no pipes of its own, but sockets (wire/vmm_warm.h). */
int program_start_warm(struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, const struct vmm_fds *fds, struct err *e);
/* A driver, with pipes for all three streams, and these two descriptors at WARM_DRIVER_FD and WARM_ANSWER_FD. */
int program_start_driver(struct program *p, const struct msg_exec *exec,
	const struct keeper_options *options, const int fds[2], struct err *e);
/* New pipes for a run of it; `ret_streams` are the other ends of all three. */
int program_open_pipes(struct program *p, bool with_stdin, int ret_streams[3], struct err *e);

/* Input alone, for one that has the others. */
int program_open_stdin(struct program *p, bool with_stdin, int *ret_stream, struct err *e);

/* What a process has used until now, without its children. */
uint64_t program_cpu_of(pid_t pid);
/* Collects every child that has ended. `aside` is another program of ours; some are none of anybody's. */
enum { UNCOUNTED = 2 };
void program_reap(struct program *p, struct program *aside, const pid_t uncounted[UNCOUNTED]);

/* SIGKILL to everything in the cell but the caller. May have to be called again until
 * p->all_reaped when `kill_all_is_safe` is false. */
void program_kill_all(bool kill_all_is_safe);

/* SIGKILL to `pid`, to all that descend from it as far as that can be seen, and to all in its session. */
void program_kill_tree(pid_t pid);

/* In a pid namespace of our own: kills all others, and waits until they are gone. */
void program_end_all(struct program *p);

/* After a run of one that goes on. */
void program_close_pipes(struct program *p);
void program_close(struct program *p);

#endif
