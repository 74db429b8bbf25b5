/* How a trace writes values. */
#include "testing.h"

#include "vmm/trace_words.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *names_of(char kind, uint64_t value)
{
	static struct line l;

	l.used = 0;
	l.text[0] = '\0';
	assert_true(line_names(&l, kind, value));
	return l.text;
}

static const char *quoted(const char *data, size_t len, bool is_cut)
{
	static struct line l;

	l.used = 0;
	line_quote(&l, data, len, is_cut);
	return l.text;
}

static void flags_have_names(void **state)
{
	(void)state;
	assert_string_equal(names_of('O', O_RDONLY), "O_RDONLY");
	assert_string_equal(
		names_of('O', O_WRONLY | O_CREAT | O_TRUNC), "O_WRONLY|O_CREAT|O_TRUNC");
	assert_string_equal(names_of('O', O_RDWR | O_SYNC | O_CLOEXEC), "O_RDWR|O_SYNC|O_CLOEXEC");
	assert_string_equal(names_of('O', O_DSYNC), "O_RDONLY|O_DSYNC");
	assert_string_equal(names_of('O', O_TMPFILE | O_RDWR), "O_RDWR|O_TMPFILE");
	assert_string_equal(names_of('O', O_DIRECTORY), "O_RDONLY|O_DIRECTORY");
	assert_string_equal(names_of('Q', O_CLOEXEC), "O_CLOEXEC");
	assert_string_equal(names_of('P', PROT_NONE), "PROT_NONE");
	assert_string_equal(names_of('P', PROT_READ | PROT_EXEC), "PROT_READ|PROT_EXEC");
	assert_string_equal(
		names_of('M', MAP_PRIVATE | MAP_ANONYMOUS), "MAP_PRIVATE|MAP_ANONYMOUS");
	assert_string_equal(names_of('M', MAP_SHARED | MAP_FIXED), "MAP_SHARED|MAP_FIXED");
	assert_string_equal(names_of('R', R_OK | X_OK), "R_OK|X_OK");
	assert_string_equal(names_of('R', F_OK), "F_OK");
}

static void single_values_have_names(void **state)
{
	(void)state;
	assert_string_equal(names_of('F', F_DUPFD), "F_DUPFD");
	assert_string_equal(names_of('F', F_DUPFD_CLOEXEC), "F_DUPFD_CLOEXEC");
	assert_string_equal(names_of('W', SEEK_SET), "SEEK_SET");
	assert_string_equal(names_of('W', SEEK_END), "SEEK_END");
	assert_string_equal(names_of('V', MADV_DONTNEED), "MADV_DONTNEED");
	assert_string_equal(names_of('H', SIG_SETMASK), "SIG_SETMASK");
	assert_string_equal(names_of('S', SIGTERM), "SIGTERM");
	assert_string_equal(names_of('S', 34), "SIGRT_2");
}

static void what_has_no_name_is_a_number(void **state)
{
	struct line l = { .used = 0 };

	(void)state;
	assert_string_equal(names_of('Q', 0), "0");
	assert_string_equal(names_of('P', 0x40), "0x40");
	assert_string_equal(names_of('P', PROT_READ | 0x40), "PROT_READ|0x40");
	assert_string_equal(names_of('O', 0x40000003), "0x40000003");
	assert_string_equal(names_of('F', 0xffff), "0xffff");
	assert_string_equal(names_of('S', 0), "0");
	assert_string_equal(names_of('S', 1000), "1000");
	assert_false(line_names(&l, 'x', 5));
	assert_int_equal(l.used, 0);
}

static void data_is_nothing_but_plain_characters(void **state)
{
	(void)state;
	assert_string_equal(quoted("a \"b\"\\\n\t\r", 9, false), "\"a \\\"b\\\"\\\\\\n\\t\\r\"");
	assert_string_equal(quoted("\177ELF\2\1\0", 7, false), "\"\\177ELF\\2\\1\\0\"");
	assert_string_equal(quoted("\0011\0018", 4, true), "\"\\0011\\0018\"...");
	assert_string_equal(
		quoted("\033[2J\233\377tnvfr", 11, false), "\"\\33[2J\\233\\377tnvfr\"");
	assert_string_equal(quoted("", 0, false), "\"\"");
	for (int byte = 0; byte < 256; byte++) {
		char data = (char)byte;

		for (const char *at = quoted(&data, 1, false); *at; at++)
			assert_true(*at >= ' ' && *at < 127);
	}
}

static void what_does_not_fit_is_left_off(void **state)
{
	static struct line l;
	char data[300];

	(void)state;
	memset(data, 1, sizeof(data));
	for (int i = 0; i < 10; i++)
		line_quote(&l, data, sizeof(data), true);
	assert_int_equal(l.used, sizeof(l.text) - 1);
	assert_int_equal(strlen(l.text), l.used);
	line_put(&l, "%s", "more");
	line_names(&l, 'O', O_CREAT);
	assert_int_equal(strlen(l.text), sizeof(l.text) - 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(flags_have_names),
		TEST(single_values_have_names),
		TEST(what_has_no_name_is_a_number),
		TEST(data_is_nothing_but_plain_characters),
		TEST(what_does_not_fit_is_left_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
