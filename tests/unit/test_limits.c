#include "testing.h"

#include "base/own.h"
#include "wire/limits.h"

#include <string.h>

static void every_row_of_the_table_is_whole(void **state)
{
	(void)state;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_row *row = &limit_table[i];

		assert_non_null(row->name);
		assert_non_null(row->option);
		assert_non_null(row->meaning);
		assert_true(row->least > 0);
		assert_true(row->least < row->most);
		if (row->by_default)
			assert_true(row->by_default >= row->least && row->by_default <= row->most);
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(row->name, limit_table[k].name);
			assert_string_not_equal(row->option, limit_table[k].option);
		}
	}
}

static void the_defaults_are_those_of_the_table(void **state)
{
	struct limits l;

	(void)state;
	memset(&l, 0xff, sizeof(l));
	limits_set_defaults(&l);
	assert_int_equal(l.at[LIMIT_WALL_MS], 30000);
	assert_int_equal(l.at[LIMIT_CPU_MS], 30000);
	assert_int_equal(l.at[LIMIT_MEMORY_BYTES], 512 << 20);
	assert_int_equal(l.at[LIMIT_PROCESSES], 64);
	assert_int_equal(l.at[LIMIT_DISK_BYTES], 256 << 20);
	assert_int_equal(l.at[LIMIT_FILE_BYTES], 100 << 20);
	assert_int_equal(l.at[LIMIT_OPEN_FILES], 256);
	assert_int_equal(l.at[LIMIT_CPUS_MILLI], 0);
	assert_int_equal(l.at[LIMIT_OUTPUT_BYTES], 64 << 20);
}

static void each_limit_is_parsed_in_its_own_unit(void **state)
{
	struct err e;
	uint64_t value;

	(void)state;
	assert_int_equal(limit_parse(LIMIT_WALL_MS, "1.5s", &value, &e), 0);
	assert_int_equal(value, 1500);
	assert_int_equal(limit_parse(LIMIT_MEMORY_BYTES, "256M", &value, &e), 0);
	assert_int_equal(value, 256 << 20);
	assert_int_equal(limit_parse(LIMIT_PROCESSES, "7", &value, &e), 0);
	assert_int_equal(value, 7);
	assert_int_equal(limit_parse(LIMIT_CPUS_MILLI, "0.5", &value, &e), 0);
	assert_int_equal(value, 500);
	assert_int_equal(limit_parse(LIMIT_PROCESSES, "7M", &value, &e), -1);
	assert_int_equal(limit_parse(LIMIT_MEMORY_BYTES, "7s", &value, &e), -1);
	assert_int_equal(limit_parse(LIMIT_WALL_MS, "7M7", &value, &e), -1);
}

static void both_bounds_are_allowed_and_what_is_beyond_is_not(void **state)
{
	(void)state;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_row *row = &limit_table[i];
		struct err e = { 0 };

		assert_int_equal(limit_check((enum limit)i, row->least, &e), 0);
		assert_int_equal(limit_check((enum limit)i, row->most, &e), 0);
		assert_int_equal(limit_check((enum limit)i, row->least - 1, &e), -1);
		assert_int_equal(e.kind, ERR_INPUT);
		assert_int_equal(limit_check((enum limit)i, row->most + 1, &e), -1);
		assert_int_equal(limit_check((enum limit)i, UINT64_MAX, &e), -1);
	}
}

/* Whoever is told "from 4M to 1T" may type just that. */
static void what_is_shown_can_be_typed(void **state)
{
	(void)state;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_row *row = &limit_table[i];
		const uint64_t shown[] = { row->least, row->by_default, row->most };

		for (size_t k = 0; k < COUNT(shown); k++) {
			struct err e = { 0 };
			uint64_t value = 0;
			char text[32];

			if (!shown[k])
				continue;
			limit_show(row->unit, shown[k], text, sizeof(text));
			if (limit_parse((enum limit)i, text, &value, &e))
				fail_msg("%s", e.text);
			assert_true(value == shown[k]);
		}
	}
}

static void a_refusal_says_what_was_wanted(void **state)
{
	struct err e = { 0 };
	uint64_t value;

	(void)state;
	assert_int_equal(limit_parse(LIMIT_MEMORY_BYTES, "1k", &value, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_string_equal(e.text, "memory = '1k': want a size from 4M to 1T "
				    "(memory of the whole cell, its files and swap included)");
	assert_int_equal(limit_check(LIMIT_WALL_MS, 86400001, &e), -1);
	assert_string_equal(e.text, "timeout = '86400001ms': want a time from 1ms to 24h "
				    "(time on the clock until the run is ended)");
	assert_int_equal(limit_parse(LIMIT_PROCESSES, "many", &value, &e), -1);
	assert_non_null(strstr(e.text, "pids = 'many': want a number from 1 to 32768"));
}

static void values_are_shown_as_people_write_them(void **state)
{
	char text[32];

	(void)state;
	assert_string_equal(limit_show(UNIT_MS, 30000, text, sizeof(text)), "30s");
	assert_string_equal(limit_show(UNIT_MS, 7200000, text, sizeof(text)), "2h");
	assert_string_equal(limit_show(UNIT_MS, 0, text, sizeof(text)), "0s");
	assert_string_equal(limit_show(UNIT_MS, 1500, text, sizeof(text)), "1500ms");
	assert_string_equal(limit_show(UNIT_BYTES, 512 << 20, text, sizeof(text)), "512M");
	assert_string_equal(limit_show(UNIT_BYTES, 1000, text, sizeof(text)), "1000B");
	assert_string_equal(limit_show(UNIT_BYTES, 1536, text, sizeof(text)), "1536B");
	assert_string_equal(limit_show(UNIT_BYTES, 65536, text, sizeof(text)), "64K");
	assert_string_equal(limit_show(UNIT_MILLI, 500, text, sizeof(text)), "0.5");
	assert_string_equal(limit_show(UNIT_COUNT, 64, text, sizeof(text)), "64");
	assert_string_equal(limit_show(UNIT_BYTES, 0, text, sizeof(text)), "0B");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_row_of_the_table_is_whole),
		TEST(the_defaults_are_those_of_the_table),
		TEST(each_limit_is_parsed_in_its_own_unit),
		TEST(both_bounds_are_allowed_and_what_is_beyond_is_not),
		TEST(what_is_shown_can_be_typed),
		TEST(a_refusal_says_what_was_wanted),
		TEST(values_are_shown_as_people_write_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
