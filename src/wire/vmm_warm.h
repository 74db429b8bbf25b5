/* vmm_warm: what a VMM that is kept warm says, and to whom. Its sockets keep messages whole.
 *
 *	engine → VMM   a byte of warm_flags, then the request as the driver reads it
 *	VMM → engine   frames of wire/cell_wire.h: EXITED at the end of a quiet run, or GOES_OUT
 *
 *	keeper → VMM   one byte, WARM_STAGED, and three descriptors: the run's stdin, stdout, stderr; or stdin alone,
 *	               where the others are kept from the run before. Or WARM_DROPPED: the run is not to be
 *	VMM → keeper   struct warm_answer, at the end of a run that has gone out
 *
 * With its last word about a run the VMM goes back to the snapshot; a request that comes meanwhile waits.
 *
 * A run is quiet as long as it has made no call that may look at, or change, anything but its own memory,
 * has printed little, and has not taken long. The keeper knows nothing of it: engine and VMM are by
 * themselves, and after it nothing but memory has to be put back. Else it says GOES_OUT and waits until the
 * keeper, told by the engine, has put its files in place and gives it its streams; from then on it is a run
 * like that of any other program, with the keeper as its watch.
 *
 * A request is made of fields that end with a NUL: flags for the driver, the program's path, the number of
 * its arguments and they, the number of its variables ("NAME=value") and they. Behind them is the
 * program's text, or nothing.
 *
 * The driver, in the guest, reads its request from descriptor WARM_DRIVER_FD, with WARM_SEED_SIZE
 * random bytes behind it, and writes the run's exit status there: one byte, and the same random ones
 * behind it. With a further byte the run ends later, when it closes the descriptor of that number:
 * some interpreters first say why a program failed, and then begin to clean up. To all others, and in
 * between, descriptor WARM_DRIVER_FD is not open.
 *
 * A driver whose request has the flag `k` goes on behind its answer, with all that it has, and reads the next
 * request. The write of its answer ends when that is there: until then nothing in the machine moves.
 *
 * In a cell without a machine the same drivers wait for the same requests, but those are the keeper's:
 *
 *	keeper → driver   on WARM_DRIVER_FD, a pipe: the length of what follows in digits and a NUL, the request, the
 *	                  random bytes
 *	driver → keeper   on WARM_ANSWER_FD, another one: a byte when it is ready, and when it has opened its input; at the end the status, and the random
 *	                  bytes behind it. Then it waits for the end of WARM_DRIVER_FD, and ends with that status. If it
 *	                  only does the latter, that is as good, but its keeper knows it later
 *
 * That WARM_DRIVER_FD is open tells the driver where it is. Flag `n` says that the program's input is /dev/null, which the driver has to open: its own is
 * a pipe, in case there will be some. Flag `i`, that it is the fifo WARM_STDIN, which it opens. */
#ifndef HOTCELL_WIRE_VMM_WARM_H
#define HOTCELL_WIRE_VMM_WARM_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WARM_DRIVER_FD = 999,
	WARM_ANSWER_FD = 998,
	WARM_REQUEST_MAX = 128 << 10,
	WARM_SEED_BYTES = 32,
	WARM_SEED_SIZE = 2 * WARM_SEED_BYTES, /* as hexadecimal digits: a shell can hold those */
	WARM_TEXT_MAX = 256,
};

enum warm_flags {
	WARM_LAST = 1, /* the machine is not used again */
	WARM_OUT = 2,  /* the run has gone out before it began: it has files, or input */
	WARM_REHEARSAL =
		4, /* its output goes nowhere, and it is not answered; so that the first real
	                     * one finds everything in place */
	WARM_STAGED = 8,
	WARM_KEEP = 16,  /* the machine is to stay as the run leaves it */
	WARM_STAYS = 32, /* with a rehearsal behind a snapshot: that stays where it is, in memory */
	WARM_DROPPED = 64,
	WARM_LATER =
		128, /* with a rehearsal: only if nobody comes for long; there are many who need the processors */
};

/* Beneath the cell's /tmp. */
#define WARM_STDIN ".hotcell/stdin"

enum warm_kind {
	WARM_DONE = 1, /* the run has ended with `status`; what it printed was passed on before */
	WARM_DONE_SPOILED, /* likewise, but the run may have left something behind: the VMM ends */
	WARM_KEPT,         /* likewise, and the machine waits for its next run as it is */
	WARM_BROKEN, /* it could not go back to its snapshot; a sentence with its NUL follows: the VMM ends */
};

struct warm_answer {
	uint32_t kind;
	uint32_t status;
	uint64_t cpu_us;
	uint64_t max_rss_bytes; /* of the machine since its first run: never too little */
};

/* A seed that nobody has seen. */
bool warm_make_seed(uint8_t ret[WARM_SEED_SIZE]);

#endif
