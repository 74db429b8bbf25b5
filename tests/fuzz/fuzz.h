/* fuzz: what the fuzzers share. Each has one function that libFuzzer calls with bytes; besides what
 * the sanitizers see, a claim that does not hold ends the program. */
#ifndef HOTCELL_TESTS_FUZZ_H
#define HOTCELL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLAIM(holds)                                                                               \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);        \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
