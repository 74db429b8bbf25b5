/* driver: an interpreter that waits, started and warmed, for the program that it is to run; in cells that run
 * no VMM (for those see warm.h). The keeper hands it its request; wire/vmm_warm.h has the words. */
#ifndef HOTCELL_KEEPER_DRIVER_H
#define HOTCELL_KEEPER_DRIVER_H

#include "keeper/program.h"
#include "wire/vmm_warm.h"

struct driver {
	struct program program;       /* pid 0: there is none */
	pid_t given_up;               /* one that was ended, and is not the run's */
	int request_fd;               /* we write, */
	int answer_fd;                /* and read */
	bool waits;                   /* it is ready */
	uint8_t seed[WARM_SEED_SIZE]; /* of its run: by this its answer is known */
	long last_pid;                /* that was given to anybody before its run; 0 = not known */
	uint8_t heard[2 * (1 + WARM_SEED_SIZE)]; /* the last that it said */
	size_t heard_len;
	/* What is to be told, and how much of it has been. */
	uint8_t request[32 + FRAME_MAX + WARM_SEED_SIZE];
	size_t request_at;
	size_t request_len;
};

/* Starts one by the command in `exec`, in place of the one that may be there. */
int driver_start(struct driver *d, const struct msg_exec *exec,
	const struct keeper_options *options, struct err *e);
void driver_end(struct driver *d);

/* What it prints before it is ready, nobody is to see. */
void driver_discard_output(struct driver *d);
/* It has said something: true if it is ready now, and was not before. */
bool driver_listen(struct driver *d);
/* The program has said something: true with its exit status if it is the driver's word that it is over. */
bool driver_hear_end(struct driver *d, uint8_t *ret_status);
/* Whether the run has started nothing, neither a process nor a thread, that might be alive. */
bool driver_was_alone(const struct driver *d);
/* What it has used for its run until now. */
uint64_t driver_cpu_us(const struct program *p);

/* All that driver_run() does but for the run itself: see files_rehearse(). */
void driver_rehearse(struct driver *d);
/* What its next run is to be told. */
void driver_note_request(struct driver *d, const uint8_t *data, size_t len);
/* Tells it; from here on it is the program, and *p is that. */
int driver_run(struct driver *d, struct program *p, bool with_stdin, struct err *e);
/* It may end. */
void driver_let_go(struct driver *d);
/* Goes on telling it what the pipe had no room for. */
void driver_feed(struct driver *d);

#endif
