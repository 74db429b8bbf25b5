#include "testing.h"

#include "base/buf.h"
#include "base/own.h"
#include "workspace/staging.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static struct staging staged;

static int staging_and_scratch_make(void **state)
{
	staged = (struct staging){ 0 };
	return scratch_make(state);
}

static int staging_and_scratch_clear(void **state)
{
	staging_free(&staged);
	assert_int_equal(staged.count, 0);
	return scratch_clear(state);
}

#define TEST_WITH_STAGING(name)                                                                    \
	cmocka_unit_test_setup_teardown(name, staging_and_scratch_make, staging_and_scratch_clear)

static const struct stage_item *item(const char *path)
{
	for (size_t i = 0; i < staged.count; i++)
		if (strcmp(staged.items[i].path, path) == 0)
			return &staged.items[i];
	fail_msg("'%s' is not staged", path);
	return NULL;
}

static void add_host(const struct scratch *s, const char *name, const char *path)
{
	struct err e = { 0 };

	if (staging_add_host(&staged, in(s->path, name), path, &e))
		fail_msg("%s", e.text);
}

/* Refused, with a sentence that has `words` in it. */
static void refuses_host(const struct scratch *s, const char *name, const char *words)
{
	struct err e = { 0 };

	assert_int_equal(staging_add_host(&staged, in(s->path, name), "to", &e), -1);
	if (!strstr(e.text, words))
		fail_msg("'%s' says nothing of '%s'", e.text, words);
}

static void what_was_added_empty_is_filled_later(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(staging_add_empty(&staged, "bin", FILE_DIRECTORY, 0755, &e), 0);
	assert_int_equal(staging_add_empty(&staged, "bin/program", FILE_REGULAR, 0755, &e), 0);
	assert_int_equal(staging_add_empty(&staged, "../out", FILE_REGULAR, 0755, &e), -1);
	staging_fill(&staged.items[1], xstrdup("bytes"), 5);
	assert_int_equal(item("bin")->kind, FILE_DIRECTORY);
	assert_int_equal(item("bin/program")->mode, 0755);
	assert_memory_equal(item("bin/program")->data, "bytes", 5);
	assert_int_equal(item("bin/program")->data_len, 5);
}

static void data_is_staged_under_its_path(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(staging_add_data(&staged, "a/main.py", "x\0y", 3, &e), 0);
	assert_int_equal(item("a/main.py")->kind, FILE_REGULAR);
	assert_int_equal(item("a/main.py")->mode, 0644);
	assert_int_equal(item("a/main.py")->data_len, 3);
	assert_memory_equal(item("a/main.py")->data, "x\0y", 3);
	assert_true(staging_has(&staged, "a/main.py"));
	assert_false(staging_has(&staged, "a"));
	assert_false(staging_has(&staged, "main.py"));
}

static void paths_that_lead_out_of_the_workspace_are_refused_by_name(void **state)
{
	static const char *const wrong[] = { "", "/abs", "../up", "a/../../b", "a//b", "." };

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct err e = { 0 };

		assert_int_equal(staging_add_data(&staged, wrong[i], "", 0, &e), -1);
		assert_int_equal(e.kind, ERR_INPUT);
		assert_non_null(strstr(e.text, wrong[i]));
	}
	assert_int_equal(staged.count, 0);
}

static void a_host_file_keeps_its_mode_but_no_special_bits(void **state)
{
	const struct scratch *s = *state;

	write_file(s->fd, "tool", "#!/bin/sh\n");
	assert_int_equal(fchmodat(s->fd, "tool", 06750, 0), 0);
	add_host(s, "tool", "bin/tool");
	assert_int_equal(item("bin/tool")->kind, FILE_REGULAR);
	assert_int_equal(item("bin/tool")->mode, 0750);
	assert_string_equal(item("bin/tool")->host_path, in(s->path, "tool"));
}

static void a_directory_comes_with_all_that_is_in_it(void **state)
{
	const struct scratch *s = *state;

	make_dir(s->fd, "project");
	make_dir(s->fd, "project/src");
	make_dir(s->fd, "project/empty");
	write_file(s->fd, "project/src/main.c", "x");
	write_file(s->fd, "project/.hidden", "x");
	assert_int_equal(fchmodat(s->fd, "project/empty", 0500, 0), 0);
	add_host(s, "project", "p");
	assert_int_equal(staged.count, 5);
	assert_int_equal(item("p")->kind, FILE_DIRECTORY);
	assert_int_equal(item("p/src")->kind, FILE_DIRECTORY);
	assert_int_equal(item("p/src/main.c")->kind, FILE_REGULAR);
	assert_int_equal(item("p/.hidden")->kind, FILE_REGULAR);
	/* Its owner in the cell must be able to put files there. */
	assert_int_equal(item("p/empty")->mode, 0700);
	/* What is above a file comes before it. */
	assert_true(item("p") < item("p/src") && item("p/src") < item("p/src/main.c"));
}

static void symlinks_within_the_directory_stay_what_they_are(void **state)
{
	const struct scratch *s = *state;

	make_dir(s->fd, "project");
	make_dir(s->fd, "project/sub");
	write_file(s->fd, "project/file", "x");
	assert_int_equal(symlinkat("file", s->fd, "project/beside"), 0);
	assert_int_equal(symlinkat("../file", s->fd, "project/sub/above"), 0);
	assert_int_equal(symlinkat("./sub/../sub/.", s->fd, "project/around"), 0);
	assert_int_equal(symlinkat("not-there", s->fd, "project/broken"), 0);
	add_host(s, "project", "p");
	assert_int_equal(item("p/beside")->kind, FILE_SYMLINK);
	assert_string_equal(item("p/beside")->target, "file");
	assert_string_equal(item("p/sub/above")->target, "../file");
	assert_string_equal(item("p/around")->target, "./sub/../sub/.");
	assert_string_equal(item("p/broken")->target, "not-there");
}

static void symlinks_that_lead_out_are_refused_with_their_target(void **state)
{
	static const char *const out[] = { "/etc/passwd", "/", "..", "../x", "../project/../x",
		"sub/../../x", "a/b/../../../x" };
	const struct scratch *s = *state;

	make_dir(s->fd, "project");
	make_dir(s->fd, "project/sub");
	for (size_t i = 0; i < COUNT(out); i++) {
		char words[64];

		assert_int_equal(symlinkat(out[i], s->fd, "project/link"), 0);
		snprintf(words, sizeof(words), "to '%s'", out[i]);
		refuses_host(s, "project", words);
		assert_int_equal(unlinkat(s->fd, "project/link", 0), 0);
	}
	assert_int_equal(symlinkat("../../x", s->fd, "project/sub/link"), 0);
	refuses_host(s, "project", "leads out");
}

/* By the names alone it stays inside: x/y, up one into "up", out of it again. But "up" leads to the
 * top, and above that is outside. */
static void symlinks_that_lead_out_by_way_of_another_are_refused(void **state)
{
	const struct scratch *s = *state;

	make_dir(s->fd, "project");
	make_dir(s->fd, "project/x");
	make_dir(s->fd, "project/x/y");
	write_file(s->fd, "outside", "x");
	assert_int_equal(symlinkat("../..", s->fd, "project/x/y/up"), 0);
	assert_int_equal(symlinkat("up/x", s->fd, "project/x/y/fine"), 0);
	add_host(s, "project", "p");
	staging_free(&staged);
	assert_int_equal(symlinkat("up/../outside", s->fd, "project/x/y/out"), 0);
	refuses_host(s, "project", "leads out");
}

static void fifos_sockets_and_devices_are_refused_without_waiting(void **state)
{
	const struct scratch *s = *state;
	struct err e = { 0 };

	assert_int_equal(mkfifoat(s->fd, "fifo", 0600), 0);
	refuses_host(s, "fifo", "not a file or directory");
	make_dir(s->fd, "with-fifo");
	assert_int_equal(mkfifoat(s->fd, "with-fifo/fifo", 0600), 0);
	refuses_host(s, "with-fifo", "not a file or directory");
	make_dir(s->fd, "with-socket");
	assert_int_equal(mknodat(s->fd, "with-socket/socket", S_IFSOCK | 0600, 0), 0);
	refuses_host(s, "with-socket", "not a file or directory");
	assert_int_equal(staging_add_host(&staged, "/dev/null", "to", &e), -1);
	assert_non_null(strstr(e.text, "not a file or directory"));
}

static void what_is_not_there_is_told_with_its_name(void **state)
{
	const struct scratch *s = *state;

	refuses_host(s, "nothing", "nothing': No such file");
}

static void a_tree_that_is_too_deep_is_refused_whole(void **state)
{
	const struct scratch *s = *state;

	make_dir(s->fd, "deep");
	close(make_deep(openat(s->fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "d", 300));
	refuses_host(s, "deep", "deep");
}

static void there_is_a_largest_number_of_files(void **state)
{
	struct err e = { 0 };
	char name[32];

	(void)state;
	for (int i = 0; i < STAGING_ITEMS_MAX; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(staging_add_data(&staged, name, "", 0, &e), 0);
	}
	assert_int_equal(staging_add_data(&staged, "one-more", "", 0, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_WITH_STAGING(data_is_staged_under_its_path),
		TEST_WITH_STAGING(what_was_added_empty_is_filled_later),
		TEST_WITH_STAGING(paths_that_lead_out_of_the_workspace_are_refused_by_name),
		TEST_WITH_STAGING(a_host_file_keeps_its_mode_but_no_special_bits),
		TEST_WITH_STAGING(a_directory_comes_with_all_that_is_in_it),
		TEST_WITH_STAGING(symlinks_within_the_directory_stay_what_they_are),
		TEST_WITH_STAGING(symlinks_that_lead_out_are_refused_with_their_target),
		TEST_WITH_STAGING(symlinks_that_lead_out_by_way_of_another_are_refused),
		TEST_WITH_STAGING(fifos_sockets_and_devices_are_refused_without_waiting),
		TEST_WITH_STAGING(what_is_not_there_is_told_with_its_name),
		TEST_WITH_STAGING(a_tree_that_is_too_deep_is_refused_whole),
		TEST_WITH_STAGING(there_is_a_largest_number_of_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
