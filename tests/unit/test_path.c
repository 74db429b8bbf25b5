#include "testing.h"

#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int check(const char *path)
{
	struct err e = { 0 };
	int failed = path_check_relative(path, strlen(path), &e);

	/* A refusal always comes with a sentence for whoever gave the path. */
	assert_int_equal(failed ? -1 : 0, failed);
	if (failed) {
		assert_int_equal(e.kind, ERR_INPUT);
		assert_true(strlen(e.text) > 0);
	}
	return failed;
}

static void plain_relative_paths_may_name_a_file(void **state)
{
	static const char *const fine[] = {
		"a",
		"main.py",
		"a/b/c.txt",
		".hidden",
		".hidden/.deeper",
		"...",
		"..a",
		"a..",
		"a/..b/c",
		"with space",
		"new\nline",
		"\xff\xfe not utf-8",
		"-rf",
		"~",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(fine); i++)
		assert_int_equal(check(fine[i]), 0);
}

static void paths_that_lead_elsewhere_or_are_unclear_are_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"/",
		"/etc/passwd",
		"//a",
		"..",
		"../a",
		"a/..",
		"a/../b",
		"a/b/../../../c",
		".",
		"./a",
		"a/./b",
		"a/.",
		"a//b",
		"a/",
		"a/b/",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++)
		assert_int_equal(check(wrong[i]), -1);
}

static void a_nul_byte_in_a_path_is_refused_wherever_it_stands(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(path_check_relative("a\0b", 3, &e), -1);
	assert_string_equal(e.text, "File paths must not contain NUL bytes.");
	assert_int_equal(path_check_relative("\0", 1, &e), -1);
	assert_int_equal(path_check_relative("ab\0", 3, &e), -1);
}

static void only_the_given_length_of_a_path_counts(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(path_check_relative("ab/../x", 2, &e), 0);
	assert_int_equal(path_check_relative("ab/../x", 3, &e), -1);
}

static void a_name_may_have_255_bytes_and_not_one_more(void **state)
{
	char path[600];

	(void)state;
	memset(path, 'n', sizeof(path));
	path[PATH_NAME_MAX] = '\0';
	assert_int_equal(check(path), 0);
	path[PATH_NAME_MAX] = 'n';
	path[PATH_NAME_MAX + 1] = '\0';
	assert_int_equal(check(path), -1);
	/* The same for a name that is not the first. */
	memcpy(path, "d/", 2);
	memset(path + 2, 'n', PATH_NAME_MAX);
	path[2 + PATH_NAME_MAX] = '\0';
	assert_int_equal(check(path), 0);
	path[2 + PATH_NAME_MAX] = 'n';
	path[3 + PATH_NAME_MAX] = '\0';
	assert_int_equal(check(path), -1);
}

static void depth_and_whole_length_are_bounded(void **state)
{
	char path[PATH_MAX_BYTES + 2];
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? '/' : 'd';
	assert_int_equal(path_check_relative(path, 2 * PATH_MAX_DEPTH - 1, &e), 0);
	assert_int_equal(path_check_relative(path, 2 * PATH_MAX_DEPTH + 1, &e), -1);
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 200 == 199 ? '/' : 'd';
	assert_int_equal(path_check_relative(path, PATH_MAX_BYTES, &e), 0);
	assert_int_equal(path_check_relative(path, PATH_MAX_BYTES + 1, &e), -1);
}

/*	top/
 *	  file                 "inside"
 *	  dir/deep             "deep"
 *	  to-file   → file
 *	  to-dir    → dir
 *	  absolute  → <scratch>/outside
 *	  up        → ..
 *	  up-file   → ../outside
 *	  loop      → loop
 *	  proc      → /proc/self/root
 *	outside                "outside"                        */
static int hostile_tree(const struct scratch *s)
{
	int top;

	write_file(s->fd, "outside", "outside");
	make_dir(s->fd, "top");
	top = openat(s->fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(top >= 0);
	write_file(top, "file", "inside");
	make_dir(top, "dir");
	write_file(top, "dir/deep", "deep");
	assert_int_equal(symlinkat("file", top, "to-file"), 0);
	assert_int_equal(symlinkat("dir", top, "to-dir"), 0);
	assert_int_equal(symlinkat(in(s->path, "outside"), top, "absolute"), 0);
	assert_int_equal(symlinkat("..", top, "up"), 0);
	assert_int_equal(symlinkat("../outside", top, "up-file"), 0);
	assert_int_equal(symlinkat("loop", top, "loop"), 0);
	assert_int_equal(symlinkat("/proc/self/root", top, "proc"), 0);
	return top;
}

static bool opens(int top, const char *path, bool no_symlinks)
{
	auto_close int fd = path_open_beneath(top, path, O_RDONLY, 0, no_symlinks);

	if (fd >= 0)
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return fd >= 0;
}

static void opening_beneath_never_leaves_the_directory(void **state)
{
	auto_close int top = hostile_tree(*state);
	static const char *const out[] = {
		"..",
		"../outside",
		"dir/../../outside",
		"absolute",
		"up",
		"up/outside",
		"up-file",
		"loop",
		"proc",
		"proc/etc",
		"/etc/passwd",
		"/",
		"file/x",
		"nothing",
	};

	for (size_t i = 0; i < COUNT(out); i++) {
		assert_false(opens(top, out[i], false));
		assert_false(opens(top, out[i], true));
	}
	assert_true(opens(top, "file", true));
	assert_true(opens(top, "dir/deep", true));
	assert_true(opens(top, ".", true));
}

static void symlinks_that_stay_inside_are_followed_only_when_allowed(void **state)
{
	auto_close int top = hostile_tree(*state);

	assert_true(opens(top, "to-file", false));
	assert_true(opens(top, "to-dir/deep", false));
	assert_false(opens(top, "to-file", true));
	assert_false(opens(top, "to-dir/deep", true));
	assert_false(opens(top, "to-dir/..", true));
}

static void a_link_is_read_and_not_followed(void **state)
{
	auto_close int top = hostile_tree(*state);
	char target[PATH_MAX_BYTES + 1];

	assert_int_equal(path_read_link(top, "up-file", target), 0);
	assert_string_equal(target, "../outside");
	assert_int_equal(path_read_link(top, "loop", target), 0);
	assert_string_equal(target, "loop");
	assert_int_equal(path_read_link(top, "proc", target), 0);
	assert_string_equal(target, "/proc/self/root");
	assert_int_equal(path_read_link(top, "file", target), -1);
	assert_int_equal(path_read_link(top, "dir", target), -1);
	assert_int_equal(path_read_link(top, "nothing", target), -1);
	assert_int_equal(path_read_link(top, "up/top/loop", target), -1);
}

static void magic_links_lead_nowhere(void **state)
{
	auto_close int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(proc >= 0);
	assert_true(opens(proc, "status", false));
	assert_false(opens(proc, "exe", false));
	assert_false(opens(proc, "root/etc/passwd", false));
	assert_false(opens(proc, "cwd", false));
}

static void a_file_made_beneath_has_the_asked_for_mode(void **state)
{
	const struct scratch *s = *state;
	mode_t before = umask(0);
	auto_close int fd =
		path_open_beneath(s->fd, "new", O_WRONLY | O_CREAT | O_EXCL, 0640, true);
	struct stat status;

	umask(before);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);
}

static void opening_in_a_root_takes_absolute_paths_and_dots_as_seen_from_there(void **state)
{
	const struct scratch *s = *state;
	auto_close int top = hostile_tree(s);
	auto_close int plain = path_open_in_root(top, "/dir/deep", O_RDONLY);
	auto_close int above = path_open_in_root(top, "../../../file", O_RDONLY);
	auto_close int link = path_open_in_root(top, "/up/file", O_RDONLY);
	auto_close int outside = path_open_in_root(top, "absolute", O_RDONLY);

	assert_true(plain >= 0);
	assert_true(above >= 0);
	assert_true(link >= 0);
	assert_int_equal(outside, -1);
}

static void parents_are_made_once_and_may_be_there_already(void **state)
{
	const struct scratch *s = *state;
	struct err e = { 0 };
	struct stat status;

	assert_int_equal(path_make_parents(s->fd, "a/b/c/file", 0755, &e), 0);
	assert_int_equal(path_make_parents(s->fd, "a/b/d/file", 0755, &e), 0);
	assert_int_equal(path_make_parents(s->fd, "file", 0755, &e), 0);
	assert_int_equal(fstatat(s->fd, "a/b/c", &status, 0), 0);
	assert_true(S_ISDIR(status.st_mode));
	assert_int_equal(fstatat(s->fd, "a/b/d", &status, 0), 0);
	assert_int_equal(fstatat(s->fd, "a/b/c/file", &status, 0), -1);
	assert_int_equal(fstatat(s->fd, "file", &status, 0), -1);
}

static void parents_are_never_made_through_a_symlink(void **state)
{
	const struct scratch *s = *state;
	auto_close int top = hostile_tree(s);
	struct err e = { 0 };
	struct stat status;

	make_dir(s->fd, "elsewhere");
	assert_int_equal(symlinkat("../elsewhere", top, "out"), 0);
	assert_int_equal(path_make_parents(top, "out/new/file", 0755, &e), -1);
	assert_int_equal(fstatat(s->fd, "elsewhere/new", &status, 0), -1);
	assert_int_equal(path_make_parents(top, "to-dir/new/file", 0755, &e), -1);
	assert_int_equal(fstatat(top, "dir/new", &status, 0), -1);
	assert_int_equal(path_make_parents(top, "up/new/file", 0755, &e), -1);
	assert_int_equal(fstatat(s->fd, "new", &status, 0), -1);
	assert_int_equal(path_make_parents(top, "file/new/file", 0755, &e), -1);
	assert_int_equal(path_make_parents(top, "../new/file", 0755, &e), -1);
	assert_int_equal(fstatat(s->fd, "new", &status, 0), -1);
}

static void no_descriptor_is_left_open(void **state)
{
	const struct scratch *s = *state;
	struct err e = { 0 };
	unsigned before = count_open_fds();

	assert_int_equal(path_make_parents(s->fd, "a/b/c/d/e/f", 0755, &e), 0);
	assert_int_equal(path_make_parents(s->fd, "a/b/c/d/e/f", 0755, &e), 0);
	write_file(s->fd, "a/file", "");
	assert_int_equal(path_make_parents(s->fd, "a/file/c/d", 0755, &e), -1);
	assert_int_equal(count_open_fds(), before);
}

static void the_base_of_a_path_is_behind_its_last_slash(void **state)
{
	auto_free char *joined = path_join("a/b", "c");

	(void)state;
	assert_string_equal(path_base("a/b/c.txt"), "c.txt");
	assert_string_equal(path_base("c.txt"), "c.txt");
	assert_string_equal(path_base("/"), "");
	assert_string_equal(joined, "a/b/c");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plain_relative_paths_may_name_a_file),
		TEST(paths_that_lead_elsewhere_or_are_unclear_are_refused),
		TEST(a_nul_byte_in_a_path_is_refused_wherever_it_stands),
		TEST(only_the_given_length_of_a_path_counts),
		TEST(a_name_may_have_255_bytes_and_not_one_more),
		TEST(depth_and_whole_length_are_bounded),
		TEST_IN_SCRATCH(opening_beneath_never_leaves_the_directory),
		TEST_IN_SCRATCH(a_link_is_read_and_not_followed),
		TEST_IN_SCRATCH(symlinks_that_stay_inside_are_followed_only_when_allowed),
		TEST(magic_links_lead_nowhere),
		TEST_IN_SCRATCH(a_file_made_beneath_has_the_asked_for_mode),
		TEST_IN_SCRATCH(opening_in_a_root_takes_absolute_paths_and_dots_as_seen_from_there),
		TEST_IN_SCRATCH(parents_are_made_once_and_may_be_there_already),
		TEST_IN_SCRATCH(parents_are_never_made_through_a_symlink),
		TEST_IN_SCRATCH(no_descriptor_is_left_open),
		TEST(the_base_of_a_path_is_behind_its_last_slash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
