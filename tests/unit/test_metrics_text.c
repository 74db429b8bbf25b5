#include "testing.h"

#include "base/buf.h"
#include "base/own.h"
#include "cli/metrics_text.h"

#include <stdlib.h>
#include <string.h>

static bool reads(const char *line, struct metric *ret)
{
	/* Exactly as long as it is told to be, so that the sanitizers see a byte too far. */
	auto_free char *copy = malloc(strlen(line) + 1);

	memcpy(copy, line, strlen(line));
	return metrics_text_read(copy, strlen(line), ret);
}

static void a_number_has_a_name(void **state)
{
	struct metric m;

	(void)state;
	assert_true(reads("hotcell_runs_running 3", &m));
	assert_string_equal(m.name, "hotcell_runs_running");
	assert_int_equal(m.labels_count, 0);
	assert_true(m.value == 3);
	assert_true(reads("x -1.5e3", &m));
	assert_true(m.value == -1500);
	assert_true(reads("x 1 1700000000", &m)); /* a time behind it */
	assert_true(m.value == 1);
}

static void labels_are_read_with_their_escapes(void **state)
{
	struct metric m;

	(void)state;
	assert_true(reads("x{language=\"python\",profile=\"\",odd=\"a\\\"b\\\\c\\nd,}\"} 2", &m));
	assert_int_equal(m.labels_count, 3);
	assert_string_equal(metrics_text_label(&m, "language"), "python");
	assert_string_equal(metrics_text_label(&m, "profile"), "");
	assert_string_equal(metrics_text_label(&m, "odd"), "a\"b\\c\nd,}");
	assert_string_equal(metrics_text_label(&m, "absent"), "");
	assert_true(reads("x{} 1", &m));
	assert_true(reads("x{a=\"1\",} 1", &m));
}

static void what_is_none_is_refused(void **state)
{
	static const char *const lines[] = { "", "# HELP x y", "   ", "x", "x ", "x y", "x{ 1",
		"x{a} 1", "x{a=} 1", "x{a=\"} 1", "x{a=\"1\" 1", "x{a=\"\\", "x{a=\"1\"b=\"2\"} 1",
		"{} 1", "x nan", "x inf", "x 1e999", "x 1x", "\"x\" 1" };
	struct metric m;

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++)
		if (reads(lines[i], &m))
			fail_msg("'%s' was taken", lines[i]);
}

static void what_is_too_much_is_cut_or_refused(void **state)
{
	auto_buf struct buf line = { 0 };
	struct metric m;

	(void)state;
	buf_addf(&line, "x{a=\"%0500d\"} 1", 0);
	assert_true(reads(line.data, &m));
	assert_int_equal(strlen(m.labels[0].value), METRIC_VALUE_MAX);
	buf_clear(&line);
	buf_addf(&line, "x%0100d 1", 0);
	assert_false(reads(line.data, &m));
	buf_clear(&line);
	buf_add_str(&line, "x{");
	for (int i = 0; i < 100; i++)
		buf_addf(&line, "a%d=\"\",", i);
	buf_add_str(&line, "} 1");
	assert_false(reads(line.data, &m));
	buf_clear(&line);
	buf_addf(&line, "x %0100d", 1);
	assert_false(reads(line.data, &m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_number_has_a_name),
		TEST(labels_are_read_with_their_escapes),
		TEST(what_is_none_is_refused),
		TEST(what_is_too_much_is_cut_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
