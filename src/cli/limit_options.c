#include "cli/limit_options.h"

#include <stdio.h>

uint64_t *limit_options_field(struct hotcell_limits *l, enum limit which)
{
	switch (which) {
	case LIMIT_WALL_MS:
		return &l->wall_ms;
	case LIMIT_CPU_MS:
		return &l->cpu_ms;
	case LIMIT_MEMORY_BYTES:
		return &l->memory_bytes;
	case LIMIT_PROCESSES:
		return &l->processes;
	case LIMIT_DISK_BYTES:
		return &l->disk_bytes;
	case LIMIT_FILE_BYTES:
		return &l->file_bytes;
	case LIMIT_OPEN_FILES:
		return &l->open_files;
	case LIMIT_CPUS_MILLI:
		return &l->cpus_milli;
	default:
		return &l->output_bytes;
	}
}

bool limit_options_set(
	struct argp_state *state, struct hotcell_limits *limits, int key, const char *value)
{
	enum limit which = (enum limit)(key - LIMIT_OPTIONS_KEY);
	struct err e;

	if (key < LIMIT_OPTIONS_KEY || key >= LIMIT_OPTIONS_KEY + LIMIT_COUNT)
		return false;
	if (limit_parse(which, value, limit_options_field(limits, which), &e))
		argp_error(state, "--%s", e.text);
	return true;
}

unsigned limit_options_make(struct argp_option *ret, const struct limit_options *o,
	char texts[LIMIT_COUNT][LIMIT_OPTIONS_TEXT])
{
	static const char *const metavar[] = { "TIME", "SIZE", "N", "N" };
	unsigned count = 0;

	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_row *row = &limit_table[i];
		char shown[32];

		if (!(o->which & LIMIT_BIT(i)))
			continue;
		snprintf(texts[i], LIMIT_OPTIONS_TEXT,
			row->by_default && o->with_defaults ? "%s. Default: %s" : "%s",
			row->meaning, limit_show(row->unit, row->by_default, shown, sizeof(shown)));
		ret[count++] = (struct argp_option){ row->option, LIMIT_OPTIONS_KEY + i,
			metavar[row->unit], 0, texts[i], o->group };
	}
	return count;
}
