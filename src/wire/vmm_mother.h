/* vmm_mother: what a keeper says to a hotcell-vmm that makes machines for one run each, one after the other.
 *
 * Most of what a VMM takes to start is the same each time: the program, the C library, the filter, the snapshot's
 * books. A mother has that behind it, and forks. It runs no guest itself and holds nothing of any run, so what it forks is
 * as good as new.
 *
 *	keeper → mother   one byte: MOTHER_SWEEP; or MOTHER_MAKE with two descriptors, which become the machine's
 *	                  VMM_WARM_FD and VMM_LINE_FD
 *	mother → keeper   struct mother_answer
 *
 * A machine is the keeper's child, as one that it starts itself. Sweeping is the mother's part, since kill(-1) spares
 * nobody but the one who calls it, and the first process of the cell. */
#ifndef HOTCELL_WIRE_VMM_MOTHER_H
#define HOTCELL_WIRE_VMM_MOTHER_H

#include <stdint.h>

enum mother_order { MOTHER_SWEEP = 1, MOTHER_MAKE };

struct mother_answer {
	/* MOTHER_SWEEP: 1 if nobody else is left in the cell, 0 if somebody was and has been killed.
	 * MOTHER_MAKE: the machine's process id, or -errno. */
	int32_t result;
};

#endif
