/* vmm_warm: between a keeper and a VMM that is kept warm, on a socket that keeps messages whole.
 *
 *	keeper → VMM   a byte of warm_flags, then the request as the driver reads it; with it come
 *	               three descriptors: the run's stdin, stdout and stderr; or none, after a quiet
 *	               run: those of before
 *	keeper → VMM   one byte, WARM_RESET: the run's results are out, go back to the snapshot
 *	VMM → keeper   struct warm_answer
 *	keeper → VMM   one byte, WARM_STAGED: the answer to WARM_GOES_OUT
 *
 * A run is quiet until it makes a call that may look at, or change, anything but its own memory and
 * what it prints. Then it says WARM_GOES_OUT and waits: the keeper puts the run's files in place.
 * After a run that was quiet to its end nothing but memory has to be put back.
 *
 * A request is made of fields that end with a NUL: flags for the driver, the program's path, the number of
 * its arguments and they, the number of its variables ("NAME=value") and they. Behind them is the
 * program's text, or nothing.
 *
 * The driver, in the guest, reads its request from descriptor WARM_DRIVER_FD, with WARM_SEED_SIZE
 * random bytes behind it, and writes the run's exit status there: one byte, and the same random ones
 * behind it. With a further byte the run ends later, when it closes the descriptor of that number:
 * some interpreters first say why a program failed, and then begin to clean up. To all others, and in
 * between, descriptor WARM_DRIVER_FD is not open. Only in a warm machine does it exist. */
#ifndef HOTCELL_WIRE_VMM_WARM_H
#define HOTCELL_WIRE_VMM_WARM_H

#include <stdint.h>

enum {
	WARM_DRIVER_FD = 999,
	WARM_REQUEST_MAX = 128 << 10,
	WARM_SEED_SIZE = 32,
	WARM_TEXT_MAX = 256,
};

enum warm_flags {
	WARM_LAST = 1, /* the machine is not used again */
	WARM_RESET = 2,
	WARM_STAGED = 3,
	WARM_REHEARSAL = 4, /* a request without descriptors: its output goes nowhere, and it is not
	                     * answered; so that the first real one finds everything in place */
};

enum warm_kind {
	WARM_READY = 1, /* it waits for a request */
	WARM_DONE,      /* the run has ended with `status`; what it printed was passed on before */
	WARM_GOES_OUT,  /* the run is no longer quiet */
	WARM_DONE_SPOILED, /* like WARM_DONE, but the run may have left something behind: the VMM ends */
	WARM_BROKEN, /* it could not go back to its snapshot; a sentence with its NUL follows: the VMM ends */
};

struct warm_answer {
	uint32_t kind;
	uint32_t status;
	uint64_t cpu_us;
	uint64_t max_rss_bytes; /* of the machine since its first run: never too little */
};

#endif
