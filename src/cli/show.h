/* show: a program's output on its way to ours, with an ear for signals. */
#ifndef HOTCELL_CLI_SHOW_H
#define HOTCELL_CLI_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct show {
	uint64_t most; /* of each stream; the rest is cut */
	uint64_t shown[2];
	bool was_cut[2];
	int signal_fd;
	bool interrupted;
	int error; /* errno of a write: nobody takes our output any more */
};

/* Ctrl-C and friends as a descriptor, in place of what they do otherwise: they end the cell, not us, and
 * the result is still told. What we were started with as ignored (nohup, a background job of a script)
 * stays so. */
int show_catch_signals(void);
void show_output(struct show *s, bool is_err, const char *data, size_t len);

#endif
