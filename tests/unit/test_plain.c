#include "testing.h"

#include "base/own.h"
#include "base/utf8.h"
#include "cli/columns.h"
#include "cli/plain.h"

#include <locale.h>
#include <string.h>

static void becomes(const char *text, const char *want)
{
	auto_free char *plain = plain_text(text);

	assert_string_equal(plain, want);
}

static void text_passes_unchanged(void **state)
{
	(void)state;
	becomes("", "");
	becomes("a line of text, with ümlauts, 漢字 and 🙂",
		"a line of text, with ümlauts, 漢字 and 🙂");
}

static void no_byte_that_a_terminal_obeys_comes_out(void **state)
{
	auto_buf struct buf all = { 0 };
	auto_buf struct buf out = { 0 };

	(void)state;
	/* Every byte, alone and behind every other. */
	for (int first = 0; first < 256; first++)
		for (int second = 0; second < 256; second++) {
			char pair[2] = { (char)first, (char)second };

			buf_add(&all, pair, 2);
		}
	plain_add(&out, all.data, all.len);
	assert_true(utf8_valid(out.data, out.len));
	for (size_t i = 0; i < out.len; i++) {
		unsigned char byte = (unsigned char)out.data[i];

		assert_true(byte >= 0x20 && byte != 0x7f);
		/* U+0080 to U+009F: terminals take them for escape sequences. */
		if (byte == 0xc2)
			assert_true((unsigned char)out.data[i + 1] >= 0xa0);
	}
}

static void escape_sequences_become_harmless(void **state)
{
	(void)state;
	becomes("\033[31mred\033[0m", "?[31mred?[0m");
	becomes("\033]0;title\007", "?]0;title?");
	becomes("a\rb\nc\td\be", "a?b?c?d?e");
	becomes("\xc2\x9b"
		"31m",
		"?31m");
}

static void marks_of_direction_are_replaced(void **state)
{
	(void)state;
	becomes("a\xe2\x80\xae"
		"b",
		"a?b"); /* U+202E */
	becomes("a\xe2\x81\xa6"
		"b",
		"a?b"); /* U+2066 */
	becomes("a\xef\xbb\xbf"
		"b",
		"a?b"); /* U+FEFF */
}

static void what_is_not_utf8_is_replaced(void **state)
{
	(void)state;
	becomes("a\xff"
		"b",
		"a\xef\xbf\xbd"
		"b");
}

static void text_is_filled_and_cut_by_columns_not_bytes(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	plain_add_padded(&b, "äb", 4);
	buf_add_str(&b, "|");
	plain_add_padded(&b, "漢字", 3);
	buf_add_str(&b, "|");
	plain_add_padded(&b, "abcdef", 3);
	assert_string_equal(b.data, "äb  |漢 |abc");
	assert_int_equal(plain_width("漢字ab"), 6);
}

static void a_table_stands_in_columns_and_is_plain(void **state)
{
	struct columns table = { .heads = { "ONE", "TWO" } };
	auto_buf struct buf b = { 0 };

	(void)state;
	columns_add(&table, "a\033[2J");
	columns_add(&table, NULL);
	columns_addf(&table, "%d", 7);
	columns_add(&table, "long text");
	columns_write(&table, 0, 10, &b);
	assert_string_equal(b.data, "ONE    TWO\n"
				    "a?[2J  -\n"
				    "7      long text\n");
	buf_clear(&b);
	columns_write(&table, 9, 1, &b);
	assert_string_equal(b.data, "ONE    TW\na?[2J  -\n");
	columns_free(&table);
}

static void sizes_and_spans_are_told_shortly(void **state)
{
	char text[32];

	(void)state;
	assert_string_equal(columns_size(0, text), "0 B");
	assert_string_equal(columns_size(1536, text), "1.5 KiB");
	assert_string_equal(columns_size(1e30, text), "909494701772928256.0 TiB");
	assert_string_equal(columns_span(-3, text), "0 s");
	assert_string_equal(columns_span(119, text), "119 s");
	assert_string_equal(columns_span(3600, text), "60 min");
	assert_string_equal(columns_span(86400, text), "24 h");
	assert_string_equal(columns_span(864000, text), "10 d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(text_passes_unchanged),
		TEST(no_byte_that_a_terminal_obeys_comes_out),
		TEST(escape_sequences_become_harmless),
		TEST(marks_of_direction_are_replaced),
		TEST(what_is_not_utf8_is_replaced),
		TEST(text_is_filled_and_cut_by_columns_not_bytes),
		TEST(a_table_stands_in_columns_and_is_plain),
		TEST(sizes_and_spans_are_told_shortly),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
