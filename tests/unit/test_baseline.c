#include "testing.h"

#include "base/own.h"
#include "workspace/baseline.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

static struct baseline known;

static int baseline_and_scratch_make(void **state)
{
	known = (struct baseline){ 0 };
	return scratch_make(state);
}

static int baseline_and_scratch_clear(void **state)
{
	baseline_clear(&known);
	assert_int_equal(known.count, 0);
	return scratch_clear(state);
}

#define TEST_WITH_BASELINE(name)                                                                   \
	cmocka_unit_test_setup_teardown(name, baseline_and_scratch_make, baseline_and_scratch_clear)

static struct stat status_of(const struct scratch *s, const char *path)
{
	struct stat status;

	assert_int_equal(fstatat(s->fd, path, &status, AT_SYMLINK_NOFOLLOW), 0);
	return status;
}

static void set_time(const struct scratch *s, const char *path, time_t seconds)
{
	struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };

	assert_int_equal(utimensat(s->fd, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* As staging does it: written, aged, remembered. */
static void stage(const struct scratch *s, const char *path, const char *text)
{
	struct stat status;

	write_file(s->fd, path, text);
	set_time(s, path, 1000000);
	status = status_of(s, path);
	baseline_add(&known, path, &status, baseline_hash(BASELINE_HASH_INIT, text, strlen(text)));
}

/* Until the clock that file systems use has moved on since `path` was made. */
static void wait_for_the_clock(const struct scratch *s, const char *path)
{
	struct stat status = status_of(s, path);
	struct timespec now;

	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec < status.st_ctim.tv_sec ||
		(now.tv_sec == status.st_ctim.tv_sec && now.tv_nsec <= status.st_ctim.tv_nsec));
}

static bool unchanged(const struct scratch *s, const char *path)
{
	struct stat status = status_of(s, path);

	return baseline_unchanged(&known, s->fd, path, &status);
}

static void a_hash_can_be_continued_and_tells_contents_apart(void **state)
{
	uint64_t whole = baseline_hash(BASELINE_HASH_INIT, "hello world", 11);
	uint64_t parts = baseline_hash(BASELINE_HASH_INIT, "hello", 5);

	(void)state;
	parts = baseline_hash(parts, " world", 6);
	assert_true(whole == parts);
	assert_true(whole != baseline_hash(BASELINE_HASH_INIT, "hello World", 11));
	assert_true(baseline_hash(BASELINE_HASH_INIT, "", 0) == BASELINE_HASH_INIT);
	/* FNV-1a of "a" is a published value. */
	assert_true(baseline_hash(BASELINE_HASH_INIT, "a", 1) == 0xaf63dc4c8601ec8cULL);
}

static void a_staged_file_is_unchanged_until_its_content_differs(void **state)
{
	const struct scratch *s = *state;

	stage(s, "data.csv", "1,2,3");
	assert_true(unchanged(s, "data.csv"));
	write_file(s->fd, "data.csv", "1,2,4");
	assert_false(unchanged(s, "data.csv"));
	write_file(s->fd, "data.csv", "1,2,3");
	assert_true(unchanged(s, "data.csv"));
	write_file(s->fd, "data.csv", "1,2,3,4");
	assert_false(unchanged(s, "data.csv"));
}

static void touching_a_file_does_not_change_it(void **state)
{
	const struct scratch *s = *state;

	stage(s, "file", "text");
	set_time(s, "file", 2000000);
	assert_true(unchanged(s, "file"));
	assert_int_equal(fchmodat(s->fd, "file", 0600, 0), 0);
	assert_true(unchanged(s, "file"));
}

static void whether_it_can_be_executed_is_part_of_a_file(void **state)
{
	const struct scratch *s = *state;

	stage(s, "file", "text");
	assert_int_equal(fchmodat(s->fd, "file", 0755, 0), 0);
	assert_false(unchanged(s, "file"));
	assert_int_equal(fchmodat(s->fd, "file", 0644, 0), 0);
	assert_true(unchanged(s, "file"));
}

static void a_copy_in_its_place_is_unchanged_and_a_different_file_is_not(void **state)
{
	const struct scratch *s = *state;

	stage(s, "file", "text");
	write_file(s->fd, "other", "text");
	assert_int_equal(renameat(s->fd, "other", s->fd, "file"), 0);
	assert_true(unchanged(s, "file"));
	write_file(s->fd, "other", "tent");
	assert_int_equal(renameat(s->fd, "other", s->fd, "file"), 0);
	assert_false(unchanged(s, "file"));
}

/* As "touch -r", "cp -p" and archivers do. */
static void setting_the_time_back_hides_no_change(void **state)
{
	const struct scratch *s = *state;

	stage(s, "file", "text");
	wait_for_the_clock(s, "file");
	write_file(s->fd, "file", "tent");
	set_time(s, "file", 1000000);
	assert_false(unchanged(s, "file"));
}

static void what_was_not_staged_is_new(void **state)
{
	const struct scratch *s = *state;

	stage(s, "file", "text");
	write_file(s->fd, "new", "text");
	assert_false(unchanged(s, "new"));
	assert_null(baseline_find(&known, "new"));
	assert_non_null(baseline_find(&known, "file"));
}

static void a_file_that_became_something_else_is_changed(void **state)
{
	const struct scratch *s = *state;

	stage(s, "file", "text");
	write_file(s->fd, "target", "text");
	assert_int_equal(unlinkat(s->fd, "file", 0), 0);
	assert_int_equal(symlinkat("target", s->fd, "file"), 0);
	assert_false(unchanged(s, "file"));
	assert_int_equal(unlinkat(s->fd, "file", 0), 0);
	make_dir(s->fd, "file");
	assert_false(unchanged(s, "file"));
	assert_int_equal(unlinkat(s->fd, "file", AT_REMOVEDIR), 0);
	assert_int_equal(mkfifoat(s->fd, "file", 0600), 0);
	assert_false(unchanged(s, "file"));
}

static void a_directory_stays_unchanged_whatever_is_put_into_it(void **state)
{
	const struct scratch *s = *state;
	struct stat status;

	make_dir(s->fd, "dir");
	status = status_of(s, "dir");
	baseline_add(&known, "dir", &status, 0);
	write_file(s->fd, "dir/new", "x");
	set_time(s, "dir", 5);
	assert_true(unchanged(s, "dir"));
}

static void a_symlink_is_changed_when_its_target_is(void **state)
{
	const struct scratch *s = *state;
	struct stat status;

	assert_int_equal(symlinkat("aim1", s->fd, "link"), 0);
	status = status_of(s, "link");
	baseline_add(&known, "link", &status, baseline_hash(BASELINE_HASH_INIT, "aim1", 4));
	assert_true(unchanged(s, "link"));
	assert_int_equal(unlinkat(s->fd, "link", 0), 0);
	assert_int_equal(symlinkat("aim2", s->fd, "link"), 0);
	set_time(s, "link", 5);
	assert_false(unchanged(s, "link"));
	assert_int_equal(unlinkat(s->fd, "link", 0), 0);
	assert_int_equal(symlinkat("aim1", s->fd, "link"), 0);
	set_time(s, "link", 5);
	assert_true(unchanged(s, "link"));
}

/* The status may be older than what is there now: a program still runs while we look. */
static void a_file_swapped_for_a_link_meanwhile_is_not_read_through_it(void **state)
{
	const struct scratch *s = *state;
	struct stat status;

	stage(s, "file", "text");
	set_time(s, "file", 5);
	status = status_of(s, "file");
	write_file(s->fd, "secret", "text");
	assert_int_equal(unlinkat(s->fd, "file", 0), 0);
	assert_int_equal(symlinkat("secret", s->fd, "file"), 0);
	assert_false(baseline_unchanged(&known, s->fd, "file", &status));
	assert_int_equal(unlinkat(s->fd, "file", 0), 0);
	assert_int_equal(mkfifoat(s->fd, "file", 0600), 0);
	assert_false(baseline_unchanged(&known, s->fd, "file", &status));
}

static void adding_again_replaces(void **state)
{
	const struct scratch *s = *state;

	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		stage(s, name, name);
	}
	assert_int_equal(known.count, 100);
	stage(s, "f50", "another");
	assert_int_equal(known.count, 100);
	assert_true(unchanged(s, "f50"));
	for (int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		assert_true(unchanged(s, name));
	}
}

static void what_was_removed_is_new_when_it_comes_back(void **state)
{
	const struct scratch *s = *state;
	static const char *const paths[] = { "dir/a", "dir/b", "dirt", "di" };

	make_dir(s->fd, "dir");
	for (size_t i = 0; i < COUNT(paths); i++)
		stage(s, paths[i], "text");
	baseline_forget(&known, "dir");
	for (size_t i = 0; i < COUNT(paths); i++)
		assert_int_equal(unchanged(s, paths[i]), i >= 2);
	stage(s, "dir/b", "text");
	assert_true(unchanged(s, "dir/b"));
	assert_false(unchanged(s, "dir/a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_hash_can_be_continued_and_tells_contents_apart),
		TEST_WITH_BASELINE(a_staged_file_is_unchanged_until_its_content_differs),
		TEST_WITH_BASELINE(touching_a_file_does_not_change_it),
		TEST_WITH_BASELINE(whether_it_can_be_executed_is_part_of_a_file),
		TEST_WITH_BASELINE(a_copy_in_its_place_is_unchanged_and_a_different_file_is_not),
		TEST_WITH_BASELINE(setting_the_time_back_hides_no_change),
		TEST_WITH_BASELINE(what_was_not_staged_is_new),
		TEST_WITH_BASELINE(a_file_that_became_something_else_is_changed),
		TEST_WITH_BASELINE(a_directory_stays_unchanged_whatever_is_put_into_it),
		TEST_WITH_BASELINE(a_symlink_is_changed_when_its_target_is),
		TEST_WITH_BASELINE(a_file_swapped_for_a_link_meanwhile_is_not_read_through_it),
		TEST_WITH_BASELINE(adding_again_replaces),
		TEST_WITH_BASELINE(what_was_removed_is_new_when_it_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
