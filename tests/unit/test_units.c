#include "testing.h"

#include "base/own.h"
#include "base/units.h"

#include <string.h>

typedef int (*parser)(const char *text, uint64_t *ret, struct err *e);

struct want {
	const char *text;
	uint64_t value;
};

static void all_give(parser parse, const struct want *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct err e = { 0 };
		uint64_t value = 0;

		if (parse(rows[i].text, &value, &e))
			fail_msg("'%s' was refused: %s", rows[i].text, e.text);
		if (value != rows[i].value)
			fail_msg("'%s' gave %llu", rows[i].text, (unsigned long long)value);
	}
}

static void all_are_refused(parser parse, const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct err e = { 0 };
		uint64_t value = 0;

		if (parse(texts[i], &value, &e) == 0)
			fail_msg("'%s' gave %llu", texts[i], (unsigned long long)value);
		assert_int_equal(e.kind, ERR_INPUT);
		assert_non_null(strstr(e.text, "want"));
	}
}

static void durations_are_read_as_people_type_them(void **state)
{
	static const struct want rows[] = {
		{ "10", 10000 },
		{ "10s", 10000 },
		{ "10S", 10000 },
		{ "250ms", 250 },
		{ "250MS", 250 },
		{ "1ms", 1 },
		{ "0.5ms", 1 },
		{ "0.5", 500 },
		{ ".5s", 500 },
		{ "1.", 1000 },
		{ "2m", 120000 },
		{ "2min", 120000 },
		{ "1.5h", 5400000 },
		{ "007", 7000 },
	};

	(void)state;
	all_give(units_parse_duration, rows, COUNT(rows));
}

static void what_is_no_duration_is_refused(void **state)
{
	static const char *const texts[] = { "", "0", "0s", "0.0001ms", "-1", "-1s", "+1", "s",
		"ms", "1 s", " 1s", "1s ", "1sec", "1d", "1k", "1s1s", "1..5", "1,5", "nan", "inf",
		"infinity", "0x10", "0X10s", "1e400", "9999999999999999999999h", ".", "..", "abc",
		"1\n", "\t1" };

	(void)state;
	all_are_refused(units_parse_duration, texts, COUNT(texts));
}

static void sizes_are_powers_of_1024(void **state)
{
	static const struct want rows[] = {
		{ "1", 1 },
		{ "1b", 1 },
		{ "64k", 65536 },
		{ "64K", 65536 },
		{ "64kb", 65536 },
		{ "64KiB", 65536 },
		{ "256M", 268435456 },
		{ "256MB", 268435456 },
		{ "0.5m", 524288 },
		{ "1G", 1073741824 },
		{ "1gib", 1073741824 },
		{ "1T", 1099511627776 },
	};

	(void)state;
	all_give(units_parse_size, rows, COUNT(rows));
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const texts[] = { "", "0", "0M", "-5M", "+5M", "M", "5 M", "5X", "5s",
		"5Mi", "5bytes", "1e300G", "nan", "infG", "0x5M", "5M5", ".M" };

	(void)state;
	all_are_refused(units_parse_size, texts, COUNT(texts));
}

static void counts_are_whole_numbers_from_one_up(void **state)
{
	static const struct want rows[] = {
		{ "1", 1 },
		{ "64", 64 },
		{ "0064", 64 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const texts[] = { "", "0", "-1", "+1", " 1", "1 ", "1.5", "1k", "1e3",
		"0x10", "18446744073709551616", "x" };

	(void)state;
	all_give(units_parse_count, rows, COUNT(rows));
	all_are_refused(units_parse_count, texts, COUNT(texts));
}

static void cores_are_read_in_thousandths(void **state)
{
	static const struct want rows[] = {
		{ "0.5", 500 },
		{ "2", 2000 },
		{ ".25", 250 },
		{ "0.001", 1 },
		{ "1.0005", 1001 },
	};
	static const char *const texts[] = { "", "0", "0.0001", "-1", "1k", "50%", "1 ", "inf",
		"0x1" };

	(void)state;
	all_give(units_parse_milli, rows, COUNT(rows));
	all_are_refused(units_parse_milli, texts, COUNT(texts));
}

static void nothing_larger_than_a_quintillion_is_taken(void **state)
{
	static const struct want rows[] = { { "1000000000000000000", 1000000000000000000ULL } };
	static const char *const texts[] = { "1000000000000000200", "1000000000g", "1e19" };

	(void)state;
	all_give(units_parse_size, rows, COUNT(rows));
	all_are_refused(units_parse_size, texts, COUNT(texts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(durations_are_read_as_people_type_them),
		TEST(what_is_no_duration_is_refused),
		TEST(sizes_are_powers_of_1024),
		TEST(what_is_no_size_is_refused),
		TEST(counts_are_whole_numbers_from_one_up),
		TEST(cores_are_read_in_thousandths),
		TEST(nothing_larger_than_a_quintillion_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
