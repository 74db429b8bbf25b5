#include "testing.h"

#include "base/base64.h"
#include "base/own.h"

#include <string.h>

static void expect(const char *text, const char *bytes)
{
	auto_buf struct buf b = { 0 };

	assert_true(base64_decode(text, strlen(text), &b));
	assert_int_equal(b.len, strlen(bytes));
	assert_memory_equal(b.data, bytes, b.len);
}

static void expect_refused(const char *text)
{
	auto_buf struct buf b = { 0 };

	assert_false(base64_decode(text, strlen(text), &b));
}

static void all_lengths_are_decoded(void **state)
{
	(void)state;
	expect("", "");
	expect("YQ==", "a");
	expect("YWI=", "ab");
	expect("YWJj", "abc");
	expect("YWJjZA==", "abcd");
}

static void padding_lines_and_both_alphabets_are_no_matter(void **state)
{
	(void)state;
	expect("YQ", "a");
	expect("YW\r\n I =\n", "ab");
	expect("+/-_", "\xfb\xff\xbf");
}

static void anything_else_is_refused(void **state)
{
	(void)state;
	expect_refused("Y");
	expect_refused("YWJjY");
	expect_refused("YQ==YQ==");
	expect_refused("Y*==");
	expect_refused("\xc3\xa4");
}

static void a_nul_is_no_letter(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	assert_false(base64_decode("YW\0j", 4, &b));
}

static void what_is_encoded_comes_back(void **state)
{
	char bytes[256];

	(void)state;
	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		auto_buf struct buf text = { 0 };
		auto_buf struct buf back = { 0 };

		base64_encode(bytes, len, &text);
		assert_int_equal(text.len, (len + 2) / 3 * 4);
		assert_true(base64_decode(text.data, text.len, &back));
		assert_int_equal(back.len, len);
		if (len)
			assert_memory_equal(back.data, bytes, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_lengths_are_decoded),
		cmocka_unit_test(padding_lines_and_both_alphabets_are_no_matter),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(a_nul_is_no_letter),
		cmocka_unit_test(what_is_encoded_comes_back),
	};

	return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
