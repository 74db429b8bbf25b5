#include "testing.h"

#include "base/buf.h"
#include "base/own.h"
#include "workspace/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* What a walk met: every path, sorted, a space behind each. */
struct met {
	char *paths[64];
	size_t count;
	bool open_up;
	size_t stop_at; /* stop with 7 when so many were met; 0 = never */
	bool complete;
	char text[4096];
};

static int on_entry(void *context, const char *path, const struct stat *status)
{
	struct met *m = context;

	assert_true(status->st_nlink > 0);
	if (m->count < COUNT(m->paths))
		m->paths[m->count] = xstrdup(path);
	m->count++;
	return m->stop_at && m->count >= m->stop_at ? 7 : 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int walk_over(int top_fd, struct met *m, size_t entries_max, size_t depth_max)
{
	struct walk_options options = {
		.entries_max = entries_max,
		.depth_max = depth_max,
		.open_up = m->open_up,
		.on_entry = on_entry,
		.context = m,
	};
	int result = walk(top_fd, &options, &m->complete);
	size_t kept = m->count < COUNT(m->paths) ? m->count : COUNT(m->paths);

	qsort(m->paths, kept, sizeof(m->paths[0]), by_text);
	for (size_t i = 0; i < kept; i++) {
		size_t used = strlen(m->text);

		snprintf(m->text + used, sizeof(m->text) - used, "%s ", m->paths[i]);
		free(m->paths[i]);
	}
	return result;
}

static void small_tree(const struct scratch *s)
{
	make_dir(s->fd, "dir");
	make_dir(s->fd, "dir/sub");
	write_file(s->fd, "dir/sub/file", "x");
	write_file(s->fd, ".hidden", "x");
	write_file(s->fd, "top", "x");
}

static bool is_empty(const struct scratch *s)
{
	DIR *dir = opendir(s->path);
	const struct dirent *entry;
	bool empty = true;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			empty = false;
	closedir(dir);
	return empty;
}

static void every_name_is_met_once_with_its_path(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };

	small_tree(s);
	assert_int_equal(walk_over(s->fd, &m, 100, 10), 0);
	assert_true(m.complete);
	assert_string_equal(m.text, ".hidden dir dir/sub dir/sub/file top ");
}

static void an_empty_directory_is_a_whole_walk(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };

	assert_int_equal(walk_over(s->fd, &m, 100, 10), 0);
	assert_true(m.complete);
	assert_int_equal(m.count, 0);
}

static void symlinks_are_met_and_never_followed(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };

	make_dir(s->fd, "dir");
	assert_int_equal(symlinkat("..", s->fd, "dir/up"), 0);
	assert_int_equal(symlinkat("/", s->fd, "root"), 0);
	assert_int_equal(symlinkat("dir", s->fd, "to-dir"), 0);
	assert_int_equal(symlinkat("nowhere", s->fd, "broken"), 0);
	assert_int_equal(walk_over(s->fd, &m, 100, 10), 0);
	assert_true(m.complete);
	assert_string_equal(m.text, "broken dir dir/up root to-dir ");
}

static void fifos_and_sockets_are_met_without_being_opened(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };

	assert_int_equal(mkfifoat(s->fd, "fifo", 0), 0);
	assert_int_equal(mknodat(s->fd, "socket", S_IFSOCK | 0600, 0), 0);
	assert_int_equal(walk_over(s->fd, &m, 100, 10), 0);
	assert_string_equal(m.text, "fifo socket ");
}

static void names_with_newlines_and_invalid_utf8_come_as_they_are(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };

	write_file(s->fd, "new\nline", "x");
	write_file(s->fd, "\xff\xfe", "x");
	assert_int_equal(walk_over(s->fd, &m, 100, 10), 0);
	assert_string_equal(m.text, "new\nline \xff\xfe ");
}

static void a_bound_of_number_stops_the_walk_and_is_told(void **state)
{
	const struct scratch *s = *state;
	struct met all = { 0 };
	struct met fewer = { 0 };

	small_tree(s);
	assert_int_equal(walk_over(s->fd, &all, 5, 10), 0);
	assert_true(all.complete);
	assert_int_equal(walk_over(s->fd, &fewer, 4, 10), 0);
	assert_false(fewer.complete);
	assert_int_equal(fewer.count, 4);
}

static void a_bound_of_depth_stops_going_down_and_is_told(void **state)
{
	const struct scratch *s = *state;
	struct met flat = { 0 };
	struct met deep = { 0 };
	struct met enough = { 0 };

	small_tree(s);
	assert_int_equal(walk_over(s->fd, &flat, 100, 1), 0);
	assert_false(flat.complete);
	assert_string_equal(flat.text, ".hidden dir top ");
	assert_int_equal(walk_over(s->fd, &deep, 100, 2), 0);
	assert_false(deep.complete);
	assert_string_equal(deep.text, ".hidden dir dir/sub top ");
	assert_int_equal(walk_over(s->fd, &enough, 100, 3), 0);
	assert_true(enough.complete);
}

static void ten_thousand_nested_directories_cost_no_more_than_the_bound(void **state)
{
	const struct scratch *s = *state;
	unsigned before = count_open_fds();
	struct met m = { 0 };

	close(make_deep(s->fd, "d", 10000));
	assert_int_equal(walk_over(s->fd, &m, 100000, 128), 0);
	assert_false(m.complete);
	assert_int_equal(m.count, 128);
	assert_int_equal(count_open_fds(), before);
}

static void a_path_that_would_be_too_long_ends_the_walk_there(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };
	char name[251];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	close(make_deep(s->fd, name, 40));
	assert_int_equal(walk_over(s->fd, &m, 1000, 128), 0);
	assert_false(m.complete);
	/* 16 names and 15 slashes are 4015 bytes; the next name no longer fits in 4095. */
	assert_int_equal(m.count, 16);
}

static void the_callback_can_stop_the_walk(void **state)
{
	const struct scratch *s = *state;
	unsigned before = count_open_fds();
	struct met m = { .stop_at = 2 };

	small_tree(s);
	assert_int_equal(walk_over(s->fd, &m, 100, 10), 7);
	assert_int_equal(m.count, 2);
	assert_int_equal(count_open_fds(), before);
}

static void a_top_that_is_no_directory_is_an_error(void **state)
{
	const struct scratch *s = *state;
	struct met m = { 0 };
	auto_close int fd = -1;

	write_file(s->fd, "file", "x");
	fd = openat(s->fd, "file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(walk_over(fd, &m, 100, 10), -1);
	assert_int_equal(errno, ENOTDIR);
}

static void removing_takes_everything_and_follows_nothing(void **state)
{
	const struct scratch *s = *state;
	struct stat status;
	auto_close int top = -1;

	write_file(s->fd, "outside", "kept");
	make_dir(s->fd, "outside-dir");
	write_file(s->fd, "outside-dir/file", "kept");
	make_dir(s->fd, "top");
	top = openat(s->fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_dir(top, "a");
	make_dir(top, "a/b");
	make_dir(top, "a/b/c");
	write_file(top, "a/b/c/file", "x");
	assert_int_equal(symlinkat("../outside", top, "link"), 0);
	assert_int_equal(symlinkat("../../outside-dir", top, "a/link"), 0);
	assert_int_equal(symlinkat("../../../outside-dir", top, "a/b/link"), 0);
	assert_int_equal(mkfifoat(top, "a/fifo", 0600), 0);
	walk_remove_all(top);
	assert_int_equal(unlinkat(s->fd, "top", AT_REMOVEDIR), 0);
	assert_int_equal(fstatat(s->fd, "outside", &status, 0), 0);
	assert_int_equal(fstatat(s->fd, "outside-dir/file", &status, 0), 0);
	assert_int_equal(status.st_mode & 0777, 0644);
}

static void removing_ten_thousand_nested_directories_leaves_nothing(void **state)
{
	const struct scratch *s = *state;
	unsigned before = count_open_fds();
	int inmost = make_deep(s->fd, "d", 10000);

	write_file(inmost, "file", "x");
	close(inmost);
	walk_remove_all(s->fd);
	assert_true(is_empty(s));
	assert_int_equal(count_open_fds(), before);
}

static void removing_copes_with_a_wide_tree(void **state)
{
	const struct scratch *s = *state;

	for (int i = 0; i < 60; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d%d", i);
		make_dir(s->fd, name);
		for (int k = 0; k < 20; k++) {
			snprintf(name, sizeof(name), "d%d/s%d", i, k);
			make_dir(s->fd, name);
			snprintf(name, sizeof(name), "d%d/s%d/file", i, k);
			write_file(s->fd, name, "x");
		}
	}
	walk_remove_all(s->fd);
	assert_true(is_empty(s));
}

/* Whoever filled the tree may have guessed the names that removal gives. */
static void removing_is_not_stopped_by_names_that_it_would_use_itself(void **state)
{
	const struct scratch *s = *state;

	for (int i = 0; i < 5; i++) {
		char name[64];

		snprintf(name, sizeof(name), ".hotcell-remove-%d", i);
		make_dir(s->fd, name);
		snprintf(name, sizeof(name), ".hotcell-remove-%d/x", i);
		make_dir(s->fd, name);
		snprintf(name, sizeof(name), ".hotcell-remove-%d/x/y", i);
		make_dir(s->fd, name);
	}
	walk_remove_all(s->fd);
	assert_true(is_empty(s));
}

/* As an ordinary user, for whom the bits of a directory count. */
static int unreadable_in_child(int fd)
{
	struct met opened = { .open_up = true };
	struct met m = { 0 };

	if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
		return 1;
	make_dir(fd, "closed");
	make_dir(fd, "closed/in");
	write_file(fd, "closed/in/file", "x");
	make_dir(fd, "unsearchable");
	write_file(fd, "unsearchable/file", "x");
	make_dir(fd, "unwritable");
	make_dir(fd, "unwritable/sub");
	write_file(fd, "unwritable/sub/file", "x");
	if (fchmodat(fd, "closed/in", 0, 0) || fchmodat(fd, "closed", 0, 0) ||
		fchmodat(fd, "unsearchable", 0600, 0) || fchmodat(fd, "unwritable/sub", 0500, 0) ||
		fchmodat(fd, "unwritable", 0500, 0))
		return 2;
	if (walk_over(fd, &m, 100, 10) || m.complete)
		return 3;
	/* What is in the directory that may be listed and not searched has no status to give. */
	if (strcmp(m.text, "closed unsearchable unwritable unwritable/sub unwritable/sub/file ") !=
		0)
		return 4;
	if (walk_over(fd, &opened, 100, 10) || !opened.complete)
		return 5;
	if (strcmp(opened.text, "closed closed/in closed/in/file unsearchable unsearchable/file "
				"unwritable unwritable/sub unwritable/sub/file ") != 0)
		return 6;
	if (fchmodat(fd, "closed/in", 0, 0) || fchmodat(fd, "closed", 0, 0) ||
		fchmodat(fd, "unsearchable", 0600, 0) || fchmodat(fd, "unwritable/sub", 0500, 0))
		return 7;
	walk_remove_all(fd);
	return 0;
}

static void directories_without_rights_are_told_or_opened_up_and_removed_all_the_same(void **state)
{
	const struct scratch *s = *state;
	pid_t pid;
	int status;

	assert_int_equal(fchmod(s->fd, 0777), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(unreadable_in_child(s->fd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(is_empty(s));
}

static void removing_some_stops_at_its_bound_and_tells(void **state)
{
	const struct scratch *s = *state;
	int left = 0;

	make_dir(s->fd, "top");
	for (int i = 0; i < 20; i++) {
		char path[32];

		snprintf(path, sizeof(path), "top/d%d", i);
		make_dir(s->fd, path);
		snprintf(path, sizeof(path), "top/d%d/f", i);
		write_file(s->fd, path, "x");
	}
	{
		auto_close int top = openat(s->fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_false(walk_remove_some(top, 15));
		for (int i = 0; i < 20; i++) {
			char path[32];

			snprintf(path, sizeof(path), "d%d", i);
			left += faccessat(top, path, F_OK, 0) == 0;
			snprintf(path, sizeof(path), "d%d/f", i);
			left += faccessat(top, path, F_OK, 0) == 0;
		}
		assert_int_equal(left, 40 - 15);
		assert_true(walk_remove_some(top, 26));
	}
	assert_int_equal(unlinkat(s->fd, "top", AT_REMOVEDIR), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_SCRATCH(every_name_is_met_once_with_its_path),
		TEST_IN_SCRATCH(an_empty_directory_is_a_whole_walk),
		TEST_IN_SCRATCH(symlinks_are_met_and_never_followed),
		TEST_IN_SCRATCH(fifos_and_sockets_are_met_without_being_opened),
		TEST_IN_SCRATCH(names_with_newlines_and_invalid_utf8_come_as_they_are),
		TEST_IN_SCRATCH(a_bound_of_number_stops_the_walk_and_is_told),
		TEST_IN_SCRATCH(a_bound_of_depth_stops_going_down_and_is_told),
		TEST_IN_SCRATCH(ten_thousand_nested_directories_cost_no_more_than_the_bound),
		TEST_IN_SCRATCH(a_path_that_would_be_too_long_ends_the_walk_there),
		TEST_IN_SCRATCH(the_callback_can_stop_the_walk),
		TEST_IN_SCRATCH(a_top_that_is_no_directory_is_an_error),
		TEST_IN_SCRATCH(removing_takes_everything_and_follows_nothing),
		TEST_IN_SCRATCH(removing_ten_thousand_nested_directories_leaves_nothing),
		TEST_IN_SCRATCH(removing_copes_with_a_wide_tree),
		TEST_IN_SCRATCH(removing_is_not_stopped_by_names_that_it_would_use_itself),
		TEST_IN_SCRATCH(
			directories_without_rights_are_told_or_opened_up_and_removed_all_the_same),
		TEST_IN_SCRATCH(removing_some_stops_at_its_bound_and_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
