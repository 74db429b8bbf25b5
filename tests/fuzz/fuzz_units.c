/* What people type for times, sizes, counts and limits. */
#include "fuzz.h"

#include "base/units.h"
#include "wire/limits.h"

#include <string.h>

static void check_units(const char *text)
{
	int (*const parsers[])(const char *, uint64_t *, struct err *) = { units_parse_duration,
		units_parse_size, units_parse_count, units_parse_milli };

	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++) {
		struct err e = { 0 };
		uint64_t value = 0;

		if (parsers[i](text, &value, &e))
			CLAIM(e.kind == ERR_INPUT && e.text[0]);
		else
			CLAIM(value > 0 && text[0] != '-' && text[0] != '+' && text[0] != ' ');
	}
}

/* What was taken is within bounds, and is taken again as it is shown. */
static void check_limits(const char *text)
{
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_row *row = &limit_table[i];
		struct err e = { 0 };
		uint64_t value;
		uint64_t again;
		char shown[32];

		if (limit_parse((enum limit)i, text, &value, &e))
			continue;
		CLAIM(value >= row->least && value <= row->most);
		CLAIM(limit_check((enum limit)i, value, &e) == 0);
		limit_show(row->unit, value, shown, sizeof(shown));
		CLAIM(limit_parse((enum limit)i, shown, &again, &e) == 0);
		/* Processors are shown with six digits. */
		CLAIM(again == value || row->unit == UNIT_MILLI);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	CLAIM(text);
	memcpy(text, data, size);
	text[size] = '\0';
	check_units(text);
	check_limits(text);
	free(text);
	return 0;
}
