/* seccomp: which system calls a program in a container cell may make.
 *
 * One table says it all: what is in it as allowed is allowed; what is in it as denied fails with
 * EPERM, for a reason that stands beside it; what is ignored succeeds without being done; whatever is
 * not in it fails with ENOSYS, as on an older kernel, so that programs that merely try go on. Calls
 * of a foreign ABI (32 bit, x32) end the process. */
#ifndef HOTCELL_CELL_WALL_SECCOMP_H
#define HOTCELL_CELL_WALL_SECCOMP_H

#include "base/err.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

enum seccomp_action { CALL_ALLOWED, CALL_DENIED, CALL_ABSENT, CALL_IGNORED };

/* A rule may look at one argument, or two: it fits if (argument & mask) == value; mask 0 = always.
 * Of several rows for a call the first that fits counts, and if none does the call is denied. Only
 * the lower half of an argument is compared, which is all of it for the calls in question; of a
 * pointer the upper half is a condition of its own, with SECCOMP_UPPER added to its number. */
enum { SECCOMP_UPPER = 8 };

struct seccomp_row {
	const char *call;
	enum seccomp_action action;
	unsigned argument;
	uint32_t mask;
	uint32_t value;
	const char *why;
	unsigned and_argument;
	uint32_t and_mask;
	uint32_t and_value;
	bool without_mounts; /* not a row for cells that show directories of the host */
	bool vm_only;        /* for the VMM, before it shuts itself in */
};

extern const struct seccomp_row seccomp_table[];
extern const unsigned seccomp_table_count;
/* The number of each row's call on this machine, negative if it has none. Made at build time from
 * what libseccomp knows (seccomp_numbers_gen.c): looking up names takes longer than a clone. */
extern const int seccomp_numbers[];

const char *seccomp_action_name(enum seccomp_action action);

struct seccomp_options {
	/* System V shared memory is absent: it belongs to no process, so a watch over processes does not
	 * see it. */
	bool memory_is_soft;
	/* Unix sockets that can be connected to a path are denied: one may lie in such a directory, and
	 * neither a read-only mount nor landlock would keep a cell from whoever listens on it. */
	bool has_mounts;
	bool is_vm;
};

/* Compiles the table once; seccomp_install() is what each cell does. The program is owned by the caller
 * and freed by free(program.filter). */
int seccomp_compile(const struct seccomp_options *options, struct sock_fprog *ret, struct err *e);
int seccomp_install(const struct sock_fprog *program, struct err *e);

#endif
