#include "testing.h"

#include "base/json_text.h"
#include "base/own.h"

#include <string.h>

static void becomes(const char *text, const char *want)
{
	auto_buf struct buf out = { 0 };

	json_text_add(&out, text);
	assert_string_equal(out.data, want);
}

static void text_is_quoted(void **state)
{
	(void)state;
	becomes("", "\"\"");
	becomes("plain", "\"plain\"");
	becomes("a \"b\" \\c", "\"a \\\"b\\\" \\\\c\"");
	becomes("\"", "\"\\\"\"");
	becomes("é€😀", "\"é€😀\"");
	becomes(NULL, "null");
}

static void every_control_character_is_escaped(void **state)
{
	(void)state;
	for (int c = 1; c < 0x80; c++) {
		char text[] = { 'x', (char)c, 'y', '\0' };
		auto_buf struct buf out = { 0 };

		json_text_add(&out, text);
		for (size_t i = 0; i < out.len; i++)
			assert_true(out.data[i] >= ' ' && out.data[i] != 0x7f);
	}
	becomes("a\nb\tc\x7f", "\"a\\u000ab\\u0009c\\u007f\"");
}

static void what_is_not_utf8_is_replaced(void **state)
{
	(void)state;
	becomes("a\xff\"b", "\"a\xef\xbf\xbd\\\"b\"");
	becomes("\xc3", "\"\xef\xbf\xbd\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(text_is_quoted),
		TEST(every_control_character_is_escaped),
		TEST(what_is_not_utf8_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
