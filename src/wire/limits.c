#include "wire/limits.h"

#include "base/units.h"

#include <stdio.h>

#define KiB 1024ULL
#define MiB (1024 * KiB)
#define GiB (1024 * MiB)

const struct limit_row limit_table[LIMIT_COUNT] = {
	[LIMIT_WALL_MS] = { "wall", "timeout", UNIT_MS, 30000, 1, 86400000,
		"time on the clock until the run is ended" },
	[LIMIT_CPU_MS] = { "cpu", "cpu-time", UNIT_MS, 30000, 1, 86400000,
		"processor time of all processes together" },
	[LIMIT_MEMORY_BYTES] = { "memory", "memory", UNIT_BYTES, 512 * MiB, 4 * MiB, 1024 * GiB,
		"memory of the whole cell, its files and swap included" },
	[LIMIT_PROCESSES] = { "processes", "pids", UNIT_COUNT, 64, 1, 32768,
		"processes and threads at one time" },
	[LIMIT_DISK_BYTES] = { "disk", "disk", UNIT_BYTES, 256 * MiB, 64 * KiB, 1024 * GiB,
		"all files in /workspace, /tmp and /dev/shm together" },
	[LIMIT_FILE_BYTES] = { "file", "file-size", UNIT_BYTES, 100 * MiB, KiB, 1024 * GiB,
		"one file" },
	[LIMIT_OPEN_FILES] = { "open_files", "open-files", UNIT_COUNT, 256, 16, 65536,
		"files that one process may have open" },
	[LIMIT_CPUS_MILLI] = { "cpus", "cpus", UNIT_MILLI, 0, 10, 1024000,
		"processors the cell may keep busy; default: all" },
	[LIMIT_OUTPUT_BYTES] = { "output", "output-end", UNIT_BYTES, 64 * MiB, KiB, 64 * GiB,
		"output of a stream at which the run is ended" },
};

void limits_set_defaults(struct limits *l)
{
	for (int i = 0; i < LIMIT_COUNT; i++)
		l->at[i] = limit_table[i].by_default;
}

const char *limit_show(enum limit_unit unit, uint64_t value, char *text, unsigned size)
{
	static const char suffix[] = "BKMGT";
	int power = 0;

	switch (unit) {
	case UNIT_MS:
		if (value % 1000)
			snprintf(text, size, "%llums", (unsigned long long)value);
		else if (value && value % 3600000 == 0)
			snprintf(text, size, "%lluh", (unsigned long long)value / 3600000);
		else
			snprintf(text, size, "%llus", (unsigned long long)value / 1000);
		break;
	case UNIT_BYTES:
		while (value && value % 1024 == 0 && power < 4) {
			value /= 1024;
			power++;
		}
		snprintf(text, size, "%llu%c", (unsigned long long)value, suffix[power]);
		break;
	case UNIT_MILLI:
		snprintf(text, size, "%g", (double)value / 1000);
		break;
	case UNIT_COUNT:
		snprintf(text, size, "%llu", (unsigned long long)value);
		break;
	}
	return text;
}

static const char *unit_word(enum limit_unit unit)
{
	switch (unit) {
	case UNIT_MS:
		return "a time";
	case UNIT_BYTES:
		return "a size";
	default:
		return "a number";
	}
}

static int complain(const struct limit_row *row, const char *given, struct err *e)
{
	char least[32];
	char most[32];

	return err_set(e, ERR_INPUT, "%s = '%s': want %s from %s to %s (%s)", row->option, given,
		unit_word(row->unit), limit_show(row->unit, row->least, least, sizeof(least)),
		limit_show(row->unit, row->most, most, sizeof(most)), row->meaning);
}

int limit_check(enum limit which, uint64_t value, struct err *e)
{
	const struct limit_row *row = &limit_table[which];
	char given[32];

	if (value >= row->least && value <= row->most)
		return 0;
	return complain(row, limit_show(row->unit, value, given, sizeof(given)), e);
}

int limit_parse(enum limit which, const char *text, uint64_t *ret, struct err *e)
{
	const struct limit_row *row = &limit_table[which];
	int failed = -1;

	switch (row->unit) {
	case UNIT_MS:
		failed = units_parse_duration(text, ret, e);
		break;
	case UNIT_BYTES:
		failed = units_parse_size(text, ret, e);
		break;
	case UNIT_COUNT:
		failed = units_parse_count(text, ret, e);
		break;
	case UNIT_MILLI:
		failed = units_parse_milli(text, ret, e);
		break;
	}
	if (failed || *ret < row->least || *ret > row->most)
		return complain(row, text, e);
	return 0;
}
