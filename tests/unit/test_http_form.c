#include "testing.h"

#include "base/buf.h"
#include "http/form.h"

#include <stdlib.h>
#include <string.h>

static int add(void *context, const char *data, size_t len)
{
	buf_add(context, data, len);
	return 0;
}

static const char type[] = "multipart/form-data; boundary=xYz";

/* The part "file" of the form, fed in pieces of `step` bytes; NULL if the form is malformed or unfinished. */
static char *read_form(const char *text, size_t len, size_t step, char **ret_filename)
{
	struct form *f = form_new(type, "file");
	struct buf got = { 0 };
	int failed = 0;

	assert_non_null(f);
	for (size_t at = 0; at < len && !failed; at += step)
		failed = form_feed(f, text + at, len - at < step ? len - at : step, add, &got);
	if (failed || !form_is_complete(f) || !form_has_part(f)) {
		buf_free(&got);
		form_free(f);
		return NULL;
	}
	if (ret_filename)
		*ret_filename = form_filename(f) ? xstrdup(form_filename(f)) : NULL;
	form_free(f);
	return buf_take(&got);
}

static void expect(const char *text, const char *content, const char *filename)
{
	for (size_t step = 1; step <= strlen(text); step++) {
		char *name = NULL;
		char *got = read_form(text, strlen(text), step, &name);

		assert_non_null(got);
		assert_string_equal(got, content);
		if (filename)
			assert_string_equal(name, filename);
		else
			assert_null(name);
		free(got);
		free(name);
	}
}

static void expect_none(const char *text)
{
	for (size_t step = 1; step <= strlen(text); step++)
		assert_null(read_form(text, strlen(text), step, NULL));
}

#define PART(disposition, content)                                                                 \
	"--xYz\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" content "\r\n"

static void a_part_is_found_however_its_bytes_are_cut(void **state)
{
	(void)state;
	expect(PART("name=\"file\"; filename=\"a.txt\"", "hello") "--xYz--\r\n", "hello", "a.txt");
	expect(PART("name=\"x\"", "1") PART("name=\"file\"", "two\r\nlines")
			PART("name=\"y\"", "3") "--xYz--",
		"two\r\nlines", NULL);
	expect("preamble\r\n" PART("name=file", "") "--xYz--\r\nepilogue", "", NULL);
}

static void what_is_nearly_a_boundary_is_content(void **state)
{
	(void)state;
	expect(PART("name=\"file\"", "\r\n--xY\r\n--xYx\r\r\n-\r\n\r\n--xY") "--xYz--",
		"\r\n--xY\r\n--xYx\r\r\n-\r\n\r\n--xY", NULL);
}

static void only_the_first_part_of_that_name_counts(void **state)
{
	(void)state;
	expect(PART("name=\"file\"", "first") PART("name=\"file\"; filename=b", "second") "--xYz--",
		"first", NULL);
}

static void file_names_are_as_they_were_sent(void **state)
{
	(void)state;
	expect(PART("name=\"file\"; filename=\"../a/b;c\"", "1") "--xYz--", "1", "../a/b;c");
	expect(PART("name=\"file\"; filename=\"C:\\dir\\a.txt\"", "1") "--xYz--", "1",
		"C:\\dir\\a.txt");
	expect(PART("name=\"file\"; filename=\"a\\\"b\\\\c\"", "1") "--xYz--", "1", "a\"b\\c");
	expect(PART("name=\"file\"; filename=\"\xff\xfe\"", "1") "--xYz--", "1", "\xff\xfe");
	expect(PART("name=\"file\"; filename*=UTF-8''%e2%82%ac.txt", "1") "--xYz--", "1",
		"\xe2\x82\xac.txt");
	expect(PART("name=\"file\"; filename*=UTF-8''%zz", "1") "--xYz--", "1", NULL);
	expect(PART("name=\"file\"; filename*=UTF-8''a%00b", "1") "--xYz--", "1", NULL);
	expect(PART("filename=\"\"; name=\"file\"", "1") "--xYz--", "1", "");
}

static void forms_that_are_malformed_or_unfinished_have_no_part(void **state)
{
	(void)state;
	expect_none(PART("name=\"file\"", "1"));
	expect_none("--xYz--\r\n");
	expect_none(PART("name=\"other\"", "1") "--xYz--");
	expect_none("--xYz\nContent-Disposition: form-data; name=\"file\"\n\n1\r\n--xYz--");
	expect_none("--xYzContent-Disposition: form-data; name=\"file\"\r\n\r\n1\r\n--xYz--");
	expect_none(PART("name=\"file", "1") "--xYz--");
	expect_none("");
}

static void a_nul_in_a_part_s_headers_is_refused(void **state)
{
	static const char text[] =
		"--xYz\r\nContent-Disposition: form-data; name=\"file\0\"\r\n\r\n1"
		"\r\n--xYz--";

	(void)state;
	assert_null(read_form(text, sizeof(text) - 1, 7, NULL));
}

static void headers_of_a_part_are_bounded(void **state)
{
	struct form *f = form_new(type, "file");
	static char line[FORM_HEADERS_MAX + 1];
	struct buf got = { 0 };

	(void)state;
	memset(line, 'a', sizeof(line));
	assert_int_equal(form_feed(f, "--xYz\r\n", 7, add, &got), 0);
	assert_int_equal(form_feed(f, line, sizeof(line), add, &got), -1);
	form_free(f);
}

static void only_sound_boundaries_are_taken(void **state)
{
	static const char *const bad[] = { "multipart/form-data",
		"multipart/form-data; boundary=", "multipart/form-data; boundary=\"",
		"multipart/form-data; boundary=\"\"", "multipart/form-data; boundary=\"a",
		"multipart/form-data; boundary=\"a\r\nb\"", "multipart/form-data; boundary=\"a \"",
		"multipart/form-data; boundary=a{b", "multipart/mixed; boundary=a",
		"application/x-www-form-urlencoded", "",
		"multipart/form-data; boundary="
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
	static const char *const good[] = { "multipart/form-data; boundary=a",
		"MULTIPART/form-data;charset=x;Boundary=\"a b\"",
		"multipart/form-data; boundary="
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

	(void)state;
	assert_null(form_new(NULL, "file"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_null(form_new(bad[i], "file"));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct form *f = form_new(good[i], "file");

		assert_non_null(f);
		form_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_part_is_found_however_its_bytes_are_cut),
		TEST(what_is_nearly_a_boundary_is_content),
		TEST(only_the_first_part_of_that_name_counts),
		TEST(file_names_are_as_they_were_sent),
		TEST(forms_that_are_malformed_or_unfinished_have_no_part),
		TEST(a_nul_in_a_part_s_headers_is_refused),
		TEST(headers_of_a_part_are_bounded),
		TEST(only_sound_boundaries_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
