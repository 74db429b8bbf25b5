/* limits: what a run may use. One table: the command line, the service's config, the docs and the
 * error texts all come from it. */
#ifndef HOTCELL_WIRE_LIMITS_H
#define HOTCELL_WIRE_LIMITS_H

#include "base/err.h"

#include <stdint.h>

enum limit {
	LIMIT_WALL_MS,
	LIMIT_CPU_MS,
	LIMIT_MEMORY_BYTES,
	LIMIT_PROCESSES,
	LIMIT_DISK_BYTES,
	LIMIT_FILE_BYTES,
	LIMIT_OPEN_FILES,
	LIMIT_CPUS_MILLI,
	LIMIT_OUTPUT_BYTES,
	LIMIT_COUNT,
};

#define LIMIT_BIT(limit) (1U << (limit))

enum limit_unit { UNIT_MS, UNIT_BYTES, UNIT_COUNT, UNIT_MILLI };

struct limit_row {
	const char *name;   /* as in results and the service: "memory" */
	const char *option; /* on the command line: "memory" for --memory */
	enum limit_unit unit;
	uint64_t by_default; /* 0 = no limit of its own */
	uint64_t least;
	uint64_t most;
	const char *meaning;
};

extern const struct limit_row limit_table[LIMIT_COUNT];

struct limits {
	uint64_t at[LIMIT_COUNT];
};

/* How many files and directories there may be on a disk of that size. */
static inline uint64_t limits_inodes(uint64_t disk_bytes)
{
	return disk_bytes / 16384 + 1024;
}

void limits_set_defaults(struct limits *l);

/* Parses `text` by the row's unit and checks its bounds. The error says what was wanted:
 * "memory = '1k': want a size from 4M to 1T (memory of the whole cell, ...)". */
int limit_parse(enum limit which, const char *text, uint64_t *ret, struct err *e);
int limit_check(enum limit which, uint64_t value, struct err *e);

/* "512M", "30s", "0.5", "64" as people write it. */
const char *limit_show(enum limit_unit unit, uint64_t value, char *text, unsigned size);

#endif
