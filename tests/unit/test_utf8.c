#include "testing.h"

#include "base/own.h"
#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* What comes out must always be valid, whatever went in. */
static void becomes(const char *data, size_t len, const char *want)
{
	auto_buf struct buf out = { 0 };

	utf8_add_replaced(&out, data, len);
	assert_true(utf8_valid(out.data, out.len));
	if (out.len != strlen(want) || memcmp(out.data, want, out.len) != 0)
		fail_msg("'%s' came out, not '%s'", out.data, want);
	assert_int_equal(
		utf8_valid(data, len), len == strlen(want) && memcmp(data, want, len) == 0);
}

#define BECOMES(data, want) becomes(data, sizeof(data) - 1, want)

/* The plain way, to compare with: by value instead of by table. */
static size_t encode(uint32_t c, char *ret)
{
	unsigned char *p = (unsigned char *)ret;

	if (c < 0x80) {
		p[0] = (unsigned char)c;
		return 1;
	}
	if (c < 0x800) {
		p[0] = (unsigned char)(0xc0 | c >> 6);
		p[1] = (unsigned char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		p[0] = (unsigned char)(0xe0 | c >> 12);
		p[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
		p[2] = (unsigned char)(0x80 | (c & 0x3f));
		return 3;
	}
	p[0] = (unsigned char)(0xf0 | c >> 18);
	p[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
	p[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
	p[3] = (unsigned char)(0x80 | (c & 0x3f));
	return 4;
}

static void every_character_is_valid_but_surrogates_and_what_is_beyond_10ffff(void **state)
{
	char bytes[4];

	(void)state;
	for (uint32_t c = 0; c < 0x200000; c++) {
		bool want = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);

		if (utf8_valid(bytes, encode(c, bytes)) != want)
			fail_msg("U+%04X is taken for %s", c, want ? "invalid" : "valid");
	}
}

static void valid_text_passes_unchanged(void **state)
{
	(void)state;
	BECOMES("", "");
	BECOMES("plain", "plain");
	BECOMES("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	BECOMES("\xef\xbf\xbd", "\xef\xbf\xbd");
	BECOMES("\x7f\xc2\x80", "\x7f\xc2\x80");
}

static void a_nul_byte_is_a_character_like_any_other(void **state)
{
	auto_buf struct buf out = { 0 };

	(void)state;
	utf8_add_replaced(&out, "a\0\xff\0b", 5);
	assert_int_equal(out.len, 7);
	assert_memory_equal(out.data, "a\0" REPLACEMENT "\0b", 7);
}

static void bytes_that_begin_nothing_are_replaced_one_by_one(void **state)
{
	(void)state;
	BECOMES("\x80", REPLACEMENT);
	BECOMES("\xbf\x80", REPLACEMENT REPLACEMENT);
	BECOMES("a\xff"
		"b",
		"a" REPLACEMENT "b");
	BECOMES("\xfe\xff", REPLACEMENT REPLACEMENT);
	BECOMES("\xf5\x80\x80\x80", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT);
	/* Five and six byte forms of old. */
	BECOMES("\xf8\x88\x80\x80\x80",
		REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT);
}

static void overlong_forms_are_replaced_byte_by_byte(void **state)
{
	(void)state;
	BECOMES("\xc0\x80", REPLACEMENT REPLACEMENT);
	BECOMES("\xc1\xbf", REPLACEMENT REPLACEMENT);
	BECOMES("\xe0\x80\x80", REPLACEMENT REPLACEMENT REPLACEMENT);
	BECOMES("\xe0\x9f\xbf", REPLACEMENT REPLACEMENT REPLACEMENT);
	BECOMES("\xf0\x80\x80\x80", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT);
	BECOMES("\xf0\x8f\xbf\xbf", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT);
}

static void surrogates_and_values_that_are_too_large_are_replaced_byte_by_byte(void **state)
{
	(void)state;
	BECOMES("\xed\xa0\x80", REPLACEMENT REPLACEMENT REPLACEMENT);
	BECOMES("\xed\xbf\xbf", REPLACEMENT REPLACEMENT REPLACEMENT);
	BECOMES("\xf4\x90\x80\x80", REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT);
}

static void a_character_that_breaks_off_is_replaced_as_one(void **state)
{
	(void)state;
	BECOMES("\xc3", REPLACEMENT);
	BECOMES("\xe2\x82", REPLACEMENT);
	BECOMES("\xf0\x9f\x98", REPLACEMENT);
	BECOMES("\xf0\x9f", REPLACEMENT);
	BECOMES("\xe2\x82x", REPLACEMENT "x");
	BECOMES("\xf0\x9f\x98x", REPLACEMENT "x");
	BECOMES("\xe2\xe2\x82\xac", REPLACEMENT "\xe2\x82\xac");
	BECOMES("\xf0\x9f\xc3\xa4", REPLACEMENT "\xc3\xa4");
}

/* The example of the Unicode standard, chapter 3.9, table 3-8 to 3-11. */
static void the_examples_of_the_standard_come_out_as_it_says(void **state)
{
	(void)state;
	BECOMES("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41",
		REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT
			REPLACEMENT "A");
	BECOMES("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41",
		REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT
			REPLACEMENT "A");
	BECOMES("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42",
		REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT
		"A" REPLACEMENT REPLACEMENT "B");
	BECOMES("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41",
		REPLACEMENT REPLACEMENT REPLACEMENT REPLACEMENT "A");
}

static void every_pair_of_bytes_comes_out_valid(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 0x10000; i++) {
		char bytes[2] = { (char)(i >> 8), (char)i };
		auto_buf struct buf out = { 0 };

		utf8_add_replaced(&out, bytes, 2);
		assert_true(utf8_valid(out.data, out.len));
		assert_true(out.len >= 2);
	}
}

static void it_adds_behind_what_is_there(void **state)
{
	auto_buf struct buf out = { 0 };

	(void)state;
	buf_add_str(&out, "before ");
	utf8_add_replaced(&out, "\xff", 1);
	assert_string_equal(out.data, "before " REPLACEMENT);
}

/* In pieces of any size it is the same text as in one. */
static void letters_that_come_in_pieces_are_joined(void **state)
{
	static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";
	size_t len = sizeof(text) - 1;

	(void)state;
	for (size_t step = 1; step <= len; step++) {
		auto_buf struct buf all = { 0 };
		struct utf8_tail tail = { 0 };

		for (size_t at = 0; at < len; at += step) {
			auto_buf struct buf piece = { 0 };

			utf8_join(&tail, text + at, at + step > len ? len - at : step, &piece);
			if (piece.len)
				assert_true(utf8_valid(piece.data, piece.len));
			buf_add(&all, piece.data, piece.len);
		}
		assert_int_equal(tail.len, 0);
		assert_int_equal(all.len, len);
		assert_memory_equal(all.data, text, len);
	}
}

static void what_can_be_no_letter_is_not_held_back(void **state)
{
	auto_buf struct buf out = { 0 };
	struct utf8_tail tail = { 0 };

	(void)state;
	utf8_join(&tail, "\x80\x80\x80\x80", 4, &out);
	assert_int_equal(out.len, 4);
	utf8_join(&tail, "\xff", 1, &out);
	assert_int_equal(out.len, 5);
	assert_int_equal(tail.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_character_is_valid_but_surrogates_and_what_is_beyond_10ffff),
		TEST(valid_text_passes_unchanged),
		TEST(a_nul_byte_is_a_character_like_any_other),
		TEST(bytes_that_begin_nothing_are_replaced_one_by_one),
		TEST(overlong_forms_are_replaced_byte_by_byte),
		TEST(surrogates_and_values_that_are_too_large_are_replaced_byte_by_byte),
		TEST(a_character_that_breaks_off_is_replaced_as_one),
		TEST(the_examples_of_the_standard_come_out_as_it_says),
		TEST(every_pair_of_bytes_comes_out_valid),
		TEST(it_adds_behind_what_is_there),
		TEST(letters_that_come_in_pieces_are_joined),
		TEST(what_can_be_no_letter_is_not_held_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
