#include "testing.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

static void setting_an_error_keeps_kind_and_words_and_gives_minus_one(void **state)
{
	struct err e = { .sys_errno = 7 };

	(void)state;
	assert_int_equal(err_set(&e, ERR_INPUT, "port = '%d'", 0), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(e.sys_errno, 0);
	assert_string_equal(e.text, "port = '0'");
}

static void a_system_error_has_the_text_of_errno_behind_it_and_leaves_errno_alone(void **state)
{
	struct err e = { 0 };

	(void)state;
	errno = ENOENT;
	assert_int_equal(err_sys(&e, "open '%s'", "/x"), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(e.kind, ERR_SYSTEM);
	assert_int_equal(e.sys_errno, ENOENT);
	assert_string_equal(e.text, "open '/x': No such file or directory");
}

static void context_goes_in_front_and_changes_neither_kind_nor_errno(void **state)
{
	struct err e = { 0 };

	(void)state;
	errno = EACCES;
	err_sys(&e, "open '%s'", "/x");
	assert_int_equal(err_wrap(&e, "session %s", "s1"), -1);
	assert_int_equal(err_wrap(&e, "service"), -1);
	assert_string_equal(e.text, "service: session s1: open '/x': Permission denied");
	assert_int_equal(e.kind, ERR_SYSTEM);
	assert_int_equal(e.sys_errno, EACCES);
}

static void a_text_that_is_too_long_is_cut_and_ends_with_nul(void **state)
{
	char longer[2 * sizeof(((struct err *)0)->text)];
	struct err e = { 0 };

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	err_set(&e, ERR_LIMIT, "%s", longer);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	err_wrap(&e, "in front");
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	assert_memory_equal(e.text, "in front: xxx", 13);
	errno = EIO;
	err_sys(&e, "%s", longer);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	err_wrap(&e, "%s", longer);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(setting_an_error_keeps_kind_and_words_and_gives_minus_one),
		TEST(a_system_error_has_the_text_of_errno_behind_it_and_leaves_errno_alone),
		TEST(context_goes_in_front_and_changes_neither_kind_nor_errno),
		TEST(a_text_that_is_too_long_is_cut_and_ends_with_nul),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
