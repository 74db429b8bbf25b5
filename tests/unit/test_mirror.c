#include "testing.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "service/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1000 };

static struct mirror *open_one(void **state)
{
	const struct scratch *s = *state;
	struct mirror *m = NULL;
	struct err e = { 0 };

	assert_int_equal(mirror_open(in(s->path, "sessions"), "one", MAX_BYTES, &m, &e), 0);
	return m;
}

static int put(struct mirror *m, const char *path, const char *text, struct err *e)
{
	*e = (struct err){ 0 };
	return mirror_put_data(m, path, text, strlen(text), e);
}

static void put_well(struct mirror *m, const char *path, const char *text)
{
	struct err e;

	if (put(m, path, text, &e))
		fail_msg("%s: %s", path, e.text);
}

static void assert_content(struct mirror *m, const char *path, const char *text)
{
	struct err e = { 0 };
	uint64_t size = 0;
	auto_close int fd = mirror_get(m, path, &size, &e);
	char got[64] = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(size, strlen(text));
	assert_int_equal(fd_read_all(fd, got, strlen(text)), 0);
	assert_string_equal(got, text);
}

/* Each with what it is behind it: / a directory, @ a symlink, * generated. */
static const char *listing(const struct mirror *m)
{
	static char text[4096];
	struct mirror_file *files;
	size_t count;

	text[0] = '\0';
	mirror_list(m, &files, &count);
	for (size_t i = 0; i < count; i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%s%s%s%s", i ? " " : "",
			files[i].path, files[i].is_directory ? "/" : "", files[i].target ? "@" : "",
			files[i].generated ? "*" : "");
	}
	mirror_files_free(files, count);
	return text;
}

static void what_is_put_can_be_got_and_is_listed_in_order(void **state)
{
	struct mirror *m = open_one(state);

	put_well(m, "b/c", "2");
	put_well(m, "a", "");
	put_well(m, "b-", "three");
	assert_content(m, "b/c", "2");
	assert_content(m, "a", "");
	assert_string_equal(listing(m), "a b/ b- b/c");
	mirror_close(m);
}

static void a_file_is_replaced_and_whoever_has_it_open_reads_on(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	uint64_t size;
	char got[4] = { 0 };
	auto_close int old = -1;

	put_well(m, "f", "old");
	old = mirror_get(m, "f", &size, &e);
	put_well(m, "f", "newer");
	assert_content(m, "f", "newer");
	assert_int_equal(fd_read_all(old, got, 3), 0);
	assert_string_equal(got, "old");
	assert_string_equal(listing(m), "f");
	mirror_close(m);
}

static void bytes_are_counted_and_replacing_gives_them_back(void **state)
{
	struct mirror *m = open_one(state);
	char *text = xalloc(MAX_BYTES + 2);
	struct err e;

	memset(text, 'x', MAX_BYTES + 1);
	assert_int_equal(put(m, "f", text, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	text[MAX_BYTES] = '\0';
	put_well(m, "f", text);
	assert_int_equal(put(m, "g", "x", &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	put_well(m, "f", "x");
	text[MAX_BYTES - 1] = '\0';
	put_well(m, "g", text);
	assert_int_equal(mirror_remove(m, "g", &e), 0);
	put_well(m, "h", text);
	mirror_close(m);
	free(text);
}

static void a_hole_counts_as_what_it_stands_for(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	int fd = mirror_open_blob(m, &e);

	assert_int_equal(ftruncate(fd, MAX_BYTES + 1), 0);
	assert_int_equal(mirror_put(m, "f", fd, false, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_string_equal(listing(m), "");
	mirror_close(m);
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
	static const char *const names[] = { "", "/etc/x", "../x", "a/../x", "a//b", "./a", "a/",
		".." };
	const struct scratch *s = *state;
	struct mirror *m = open_one(state);
	struct stat status;
	struct err e;

	for (size_t i = 0; i < COUNT(names); i++) {
		assert_int_equal(put(m, names[i], "x", &e), -1);
		assert_int_equal(e.kind, ERR_INPUT);
		assert_int_equal(mirror_make_dir(m, names[i], false, &e), -1);
	}
	assert_int_equal(stat(in(s->path, "sessions/x"), &status), -1);
	assert_string_equal(listing(m), "");
	mirror_close(m);
}

static void a_file_is_no_directory_and_a_directory_no_file(void **state)
{
	struct mirror *m = open_one(state);
	struct err e;
	uint64_t size;

	put_well(m, "f", "x");
	put_well(m, "d/f", "x");
	assert_int_equal(put(m, "f/g", "x", &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(put(m, "d", "x", &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(mirror_get(m, "d", &size, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(mirror_make_dir(m, "f", false, &e), -1);
	assert_int_equal(mirror_make_dir(m, "d", false, &e), 0);
	assert_string_equal(listing(m), "d/ d/f f");
	mirror_close(m);
}

static void a_directory_is_removed_with_all_that_is_in_it(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	uint64_t size;

	put_well(m, "d/e/f", "1");
	put_well(m, "d/g", "2");
	put_well(m, "d-", "3");
	assert_false(mirror_is_empty(m, "d"));
	assert_int_equal(mirror_remove(m, "d", &e), 0);
	assert_string_equal(listing(m), "d-");
	assert_int_equal(mirror_get(m, "d/g", &size, &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	assert_int_equal(mirror_remove(m, "d", &e), -1);
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	put_well(m, "d/e/f", "again");
	assert_content(m, "d/e/f", "again");
	mirror_close(m);
}

static void an_empty_directory_is_told_from_one_that_is_not(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };

	assert_int_equal(mirror_make_dir(m, "a/b", true, &e), 0);
	assert_true(mirror_is_empty(m, "a/b"));
	assert_false(mirror_is_empty(m, "a"));
	put_well(m, "a/b/c", "x");
	assert_false(mirror_is_empty(m, "a/b"));
	assert_int_equal(mirror_remove(m, "a/b/c", &e), 0);
	assert_true(mirror_is_empty(m, "a/b"));
	assert_false(mirror_is_empty(m, "nothing"));
	assert_string_equal(listing(m), "a/* a/b/*");
	mirror_close(m);
}

static void what_a_run_left_is_told_until_it_is_put_anew(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	int fd = mirror_open_blob(m, &e);

	assert_int_equal(mirror_put(m, "f", fd, true, &e), 0);
	assert_string_equal(listing(m), "f*");
	put_well(m, "f", "mine");
	assert_string_equal(listing(m), "f");
	mirror_close(m);
}

static void bytes_may_come_from_a_file_that_has_a_name_elsewhere(void **state)
{
	const struct scratch *s = *state;
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	struct stat status;

	write_file(s->fd, "stored", "bytes");
	assert_int_equal(
		mirror_put(m, "f", open(in(s->path, "stored"), O_RDONLY | O_CLOEXEC), false, &e),
		0);
	assert_content(m, "f", "bytes");
	assert_int_equal(mirror_remove(m, "f", &e), 0);
	assert_int_equal(stat(in(s->path, "stored"), &status), 0);
	mirror_close(m);
}

static void only_regular_files_are_taken(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };

	assert_int_equal(
		mirror_put(m, "f", open("/dev/zero", O_RDONLY | O_CLOEXEC), false, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(mirror_put(m, "f", open("/", O_RDONLY | O_CLOEXEC), false, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	mirror_close(m);
}

static void there_are_only_so_many_files_and_directories(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	int i;

	assert_int_equal(mirror_entries_max(MAX_BYTES), 924);
	assert_int_equal(mirror_entries_max(1 << 30), MIRROR_ENTRIES_MAX);
	for (i = 0; i < 924; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", i);
		if (mirror_make_dir(m, name, false, &e))
			fail_msg("%s", e.text);
	}
	assert_int_equal(put(m, "more", "x", &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_int_equal(mirror_make_dir(m, "more", false, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_int_equal(mirror_remove(m, "0", &e), 0);
	put_well(m, "more", "x");
	/* Directories that are made for a file count too: with room for one of both there is none for it. */
	assert_int_equal(mirror_remove(m, "1", &e), 0);
	assert_int_equal(put(m, "above/more", "x", &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_int_equal(mirror_remove(m, "above", &e), 0);
	assert_int_equal(mirror_put_link(m, "above/more", "target", false, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	mirror_close(m);
}

static void nothing_is_left_of_one_that_is_closed(void **state)
{
	const struct scratch *s = *state;
	unsigned fds = count_open_fds();
	struct mirror *m = open_one(state);
	struct stat status;

	put_well(m, "a/b/c", "x");
	assert_int_equal(stat(mirror_path(m), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	mirror_close(m);
	assert_int_equal(stat(in(s->path, "sessions/one"), &status), -1);
	assert_int_equal(count_open_fds(), fds);
}

static void what_an_earlier_service_left_is_swept(void **state)
{
	const struct scratch *s = *state;
	struct mirror *m;
	struct stat status;

	make_dir(s->fd, "sessions");
	make_dir(s->fd, "sessions/one");
	write_file(s->fd, "sessions/one/f", "x");
	write_file(s->fd, "sessions/one.new", "x");
	mirror_sweep(in(s->path, "sessions"));
	mirror_sweep(in(s->path, "nothing"));
	assert_int_equal(stat(in(s->path, "sessions/one"), &status), -1);
	assert_int_equal(stat(in(s->path, "sessions/one.new"), &status), -1);
	m = open_one(state);
	assert_string_equal(listing(m), "");
	mirror_close(m);
}

static void one_of_a_name_that_is_taken_is_refused(void **state)
{
	const struct scratch *s = *state;
	struct mirror *m = open_one(state);
	struct mirror *other = NULL;
	struct err e = { 0 };

	put_well(m, "f", "x");
	assert_int_equal(mirror_open(in(s->path, "sessions"), "one", 1, &other, &e), -1);
	assert_null(other);
	assert_content(m, "f", "x");
	mirror_close(m);
}

/* Wherever it leads: outside of a cell nobody goes there, and there is nothing on the disk. */
static void a_symlink_is_remembered_and_never_followed(void **state)
{
	const struct scratch *s = *state;
	struct mirror *m = open_one(state);
	struct err e = { 0 };
	uint64_t size;

	assert_int_equal(mirror_put_link(m, "d/l", "/etc", true, &e), 0);
	assert_string_equal(listing(m), "d/* d/l@*");
	assert_int_equal(faccessat(s->fd, "sessions/one/d/l", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(mirror_get(m, "d/l", &size, &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(mirror_get(m, "d/l/passwd", &size, &e), -1);
	assert_int_equal(put(m, "d/l/x", "x", &e), -1);
	assert_int_equal(e.kind, ERR_INPUT);
	assert_int_equal(mirror_put_link(m, "../x", "y", true, &e), -1);
	/* a file in its place, a link in the place of that, none */
	put_well(m, "d/l", "text");
	assert_content(m, "d/l", "text");
	assert_int_equal(mirror_put_link(m, "d/l", "elsewhere", true, &e), 0);
	assert_int_equal(faccessat(s->fd, "sessions/one/d/l", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(mirror_put_link(m, "d", "x", true, &e), -1);
	assert_int_equal(mirror_remove(m, "d/l", &e), 0);
	assert_string_equal(listing(m), "d/*");
	mirror_close(m);
}

static void a_run_may_put_one_kind_of_thing_in_the_place_of_another(void **state)
{
	struct mirror *m = open_one(state);
	struct err e = { 0 };

	put_well(m, "a", "1");
	put_well(m, "b/c", "2");
	mirror_make_way(m, "a", true);
	assert_int_equal(mirror_make_dir(m, "a", true, &e), 0);
	mirror_make_way(m, "b", false);
	assert_int_equal(mirror_put_link(m, "b", "a", true, &e), 0);
	mirror_make_way(m, "none", false);
	assert_string_equal(listing(m), "a/* b@*");
	mirror_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_SCRATCH(what_is_put_can_be_got_and_is_listed_in_order),
		TEST_IN_SCRATCH(a_file_is_replaced_and_whoever_has_it_open_reads_on),
		TEST_IN_SCRATCH(bytes_are_counted_and_replacing_gives_them_back),
		TEST_IN_SCRATCH(a_hole_counts_as_what_it_stands_for),
		TEST_IN_SCRATCH(names_that_lead_elsewhere_are_refused),
		TEST_IN_SCRATCH(a_file_is_no_directory_and_a_directory_no_file),
		TEST_IN_SCRATCH(a_directory_is_removed_with_all_that_is_in_it),
		TEST_IN_SCRATCH(an_empty_directory_is_told_from_one_that_is_not),
		TEST_IN_SCRATCH(what_a_run_left_is_told_until_it_is_put_anew),
		TEST_IN_SCRATCH(bytes_may_come_from_a_file_that_has_a_name_elsewhere),
		TEST_IN_SCRATCH(only_regular_files_are_taken),
		TEST_IN_SCRATCH(there_are_only_so_many_files_and_directories),
		TEST_IN_SCRATCH(nothing_is_left_of_one_that_is_closed),
		TEST_IN_SCRATCH(what_an_earlier_service_left_is_swept),
		TEST_IN_SCRATCH(a_symlink_is_remembered_and_never_followed),
		TEST_IN_SCRATCH(a_run_may_put_one_kind_of_thing_in_the_place_of_another),
		TEST_IN_SCRATCH(one_of_a_name_that_is_taken_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
