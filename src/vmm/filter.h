/* filter: the system calls that hotcell-vmm itself may make.
 *
 * The guest is hostile, and its calls are served by this process. Should it ever take this process
 * over, it has these calls, with these arguments, and whatever the wall around the cell leaves of
 * them. Everything else is ENOSYS. */
#ifndef HOTCELL_VMM_FILTER_H
#define HOTCELL_VMM_FILTER_H

#include "base/err.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

/* For this process and all that come from it, for good. */
int filter_install(struct err *e);

enum { FILTER_CHECKS_MAX = 2, FILTER_SIZE_MAX = 2048 };

/* The call passes if for each check the argument's low half, masked, is the value: the kernel looks
 * at no more of these arguments either. A mask of 0 is no check. A call may have several rules. */
struct filter_rule {
	int number;
	struct filter_check {
		uint8_t argument;
		uint32_t mask;
		uint32_t value;
	} checks[FILTER_CHECKS_MAX];
	const char *why;
};

extern const struct filter_rule filter_rules[];
extern const size_t filter_rules_count;

/* The program for the kernel; returns its length, 0 if it does not fit. */
size_t filter_compile(struct sock_filter *ret, size_t max);

#endif
