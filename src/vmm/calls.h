/* calls: THE table of system calls. */
#ifndef HOTCELL_VMM_CALLS_H
#define HOTCELL_VMM_CALLS_H

#include "vmm/guest.h"

typedef int64_t call_handler(struct guest *g, const uint64_t a[6]);

/* How its arguments are shown in a trace, a letter for each: d number, i one of 32 bits, x hexadecimal, o octal,
 * p address, s string, v strings, f descriptor; r data that came in, w data that goes out, of the length behind it; m mode
 * of a new file, after its flags; g what goes with the F before it. By names (trace_words.c): O flags of open, Q of
 * pipe2, P protection, M flags of mmap, V advice, F command of fcntl, W whence, R access, T flags of ...at,
 * S signal, H how to mask them, N waiting. */
struct call_row {
	uint16_t number;
	const char *name;
	call_handler *handler; /* NULL: known, and refused with ENOSYS */
	const char *arguments;
	const char *why; /* what is special about it here; empty = nothing */
};

extern const struct call_row call_rows[];
extern const unsigned call_rows_count;

const struct call_row *call_find(uint64_t number);
/* It is refused, and a program that fails for it would not do so in a container. */
bool call_is_missed(const struct call_row *row);

#endif
