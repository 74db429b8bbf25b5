#include "testing.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void what_is_added_stands_in_order_with_a_nul_behind_it(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	buf_add_str(&b, "one");
	buf_add(&b, "\0two", 4);
	buf_addf(&b, "%d%s", 3, "x");
	assert_int_equal(b.len, 9);
	assert_memory_equal(b.data, "one\0two3x", 10);
}

static void it_grows_over_many_additions_and_loses_nothing(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	for (unsigned i = 0; i < 5000; i++)
		buf_addf(&b, "%04u", i);
	assert_int_equal(b.len, 20000);
	assert_int_equal(strlen(b.data), 20000);
	for (unsigned i = 0; i < 5000; i++) {
		char want[8];

		snprintf(want, sizeof(want), "%04u", i);
		assert_memory_equal(b.data + 4 * (size_t)i, want, 4);
	}
}

static void a_single_addition_may_be_much_larger_than_the_buffer(void **state)
{
	auto_buf struct buf b = { 0 };
	size_t size = 1 << 20;
	char *large = malloc(size);

	(void)state;
	assert_non_null(large);
	memset(large, 'y', size - 1);
	large[size - 1] = '\0';
	buf_add_str(&b, "x");
	buf_addf(&b, "%s", large);
	assert_int_equal(b.len, size);
	assert_int_equal(b.data[0], 'x');
	assert_memory_equal(b.data + 1, large, size);
	free(large);
}

static void adding_nothing_to_an_empty_buffer_still_makes_a_string(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	buf_add(&b, NULL, 0);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.data, "");
}

static void reserved_room_is_where_the_next_bytes_go(void **state)
{
	auto_buf struct buf b = { 0 };
	char *end;

	(void)state;
	buf_add_str(&b, "ab");
	end = buf_reserve(&b, 1000);
	assert_ptr_equal(end, b.data + 2);
	assert_true(b.cap >= 1003);
	memset(end, 'c', 1000);
	b.len += 1000;
	buf_add_str(&b, "d");
	assert_int_equal(b.len, 1003);
	assert_memory_equal(b.data, "abc", 3);
	assert_memory_equal(b.data + 1000, "ccd", 4);
}

static void clearing_keeps_the_memory_and_gives_an_empty_string(void **state)
{
	auto_buf struct buf b = { 0 };
	const char *before;

	(void)state;
	buf_clear(&b);
	assert_null(b.data);
	buf_add_str(&b, "text");
	before = b.data;
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	assert_ptr_equal(b.data, before);
	assert_string_equal(b.data, "");
}

static void taking_gives_the_bytes_away_and_leaves_an_empty_buffer(void **state)
{
	struct buf b = { 0 };
	char *text;

	(void)state;
	buf_add_str(&b, "mine");
	text = buf_take(&b);
	assert_string_equal(text, "mine");
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.cap, 0);
	free(text);
	text = buf_take(&b);
	assert_string_equal(text, "");
	free(text);
}

static void a_freed_buffer_can_be_used_again(void **state)
{
	struct buf b = { 0 };

	(void)state;
	buf_add_str(&b, "first");
	buf_free(&b);
	buf_add_str(&b, "second");
	assert_string_equal(b.data, "second");
	buf_free(&b);
	buf_free(&b);
}

static void memory_comes_zeroed_and_never_as_null(void **state)
{
	static const char zeros[4096];
	char *p = xalloc(sizeof(zeros));
	char *text;

	(void)state;
	assert_memory_equal(p, zeros, sizeof(zeros));
	memset(p, 'z', sizeof(zeros));
	p = xgrow(p, 2 * sizeof(zeros));
	assert_int_equal(p[sizeof(zeros) - 1], 'z');
	free(p);
	p = xalloc(0);
	assert_non_null(p);
	free(p);
	text = xstrdup("copy");
	assert_string_equal(text, "copy");
	free(text);
	text = xasprintf("%s-%d", "made", 7);
	assert_string_equal(text, "made-7");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_added_stands_in_order_with_a_nul_behind_it),
		TEST(it_grows_over_many_additions_and_loses_nothing),
		TEST(a_single_addition_may_be_much_larger_than_the_buffer),
		TEST(adding_nothing_to_an_empty_buffer_still_makes_a_string),
		TEST(reserved_room_is_where_the_next_bytes_go),
		TEST(clearing_keeps_the_memory_and_gives_an_empty_string),
		TEST(taking_gives_the_bytes_away_and_leaves_an_empty_buffer),
		TEST(a_freed_buffer_can_be_used_again),
		TEST(memory_comes_zeroed_and_never_as_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
