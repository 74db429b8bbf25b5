#include "testing.h"

#include "api/tar.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 10000, BYTES_MAX = 20000, ENTRIES = 10 };

/* An archive in the making, by whoever wants to hurt us. */
struct evil {
	const struct scratch *scratch;
	int fd;
	struct archive *archive;
	struct mirror *to;
	struct tar_report report;
	struct err e;
};

static void begin(void **state, struct evil *x, int format, int filter)
{
	*x = (struct evil){ .scratch = *state };
	x->fd = open(in(x->scratch->path, "archive"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	x->archive = archive_write_new();
	archive_write_set_format(x->archive, format);
	archive_write_add_filter(x->archive, filter);
	assert_int_equal(archive_write_open_fd(x->archive, x->fd), ARCHIVE_OK);
}

static void add(
	const struct evil *x, const char *path, unsigned type, const char *link, size_t size)
{
	struct archive_entry *entry = archive_entry_new();
	char *data = xalloc(size + 1);

	archive_entry_set_pathname(entry, path);
	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, 0644);
	archive_entry_set_size(entry, (la_int64_t)size);
	if (link && type == AE_IFLNK)
		archive_entry_set_symlink(entry, link);
	else if (link)
		archive_entry_set_hardlink(entry, link);
	assert_int_equal(archive_write_header(x->archive, entry), ARCHIVE_OK);
	memset(data, 'x', size);
	if (size)
		assert_int_equal(archive_write_data(x->archive, data, size), size);
	archive_entry_free(entry);
	free(data);
}

static void finish(struct evil *x)
{
	assert_int_equal(archive_write_close(x->archive), ARCHIVE_OK);
	archive_write_free(x->archive);
}

static int unpack(struct evil *x)
{
	static const struct tar_limits limits = { ENTRIES, BYTES_MAX, FILE_MAX };
	struct err e = { 0 };

	if (mirror_open(in(x->scratch->path, "to"), "m", BYTES_MAX, &x->to, &e))
		fail_msg("%s", e.text);
	return tar_unpack(x->fd, &limits, x->to, &x->report, &x->e);
}

static void leave(struct evil *x)
{
	tar_report_free(&x->report);
	mirror_close(x->to);
	close(x->fd);
}

static bool has(struct evil *x, const char *path)
{
	struct err e = { 0 };
	uint64_t size;
	auto_close int fd = mirror_get(x->to, path, &size, &e);

	return fd >= 0;
}

static void every_packing_is_unpacked(void **state)
{
	static const int filters[] = { ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_XZ,
		ARCHIVE_FILTER_ZSTD };
	static const int formats[] = { ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE,
		ARCHIVE_FORMAT_TAR_GNUTAR };

	for (size_t i = 0; i < COUNT(filters); i++)
		for (size_t k = 0; k < COUNT(formats); k++) {
			struct evil x;

			begin(state, &x, formats[k], filters[i]);
			add(&x, "./", AE_IFDIR, NULL, 0);
			add(&x, "./d/", AE_IFDIR, NULL, 0);
			add(&x, "./d/f", AE_IFREG, NULL, 5);
			add(&x, "empty", AE_IFREG, NULL, 0);
			finish(&x);
			if (unpack(&x))
				fail_msg("%s", x.e.text);
			assert_int_equal(x.report.files, 2);
			assert_int_equal(x.report.directories, 1);
			assert_int_equal(x.report.bytes, 5);
			assert_true(has(&x, "d/f") && has(&x, "empty"));
			leave(&x);
		}
}

static void names_that_lead_out_refuse_all_of_it(void **state)
{
	static const char *const names[] = { "/etc/passwd", "../x", "a/../../x", "a/..", "..",
		"a//b", "./../x" };

	for (size_t i = 0; i < COUNT(names); i++) {
		struct evil x;

		begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
		add(&x, names[i], AE_IFREG, NULL, 1);
		finish(&x);
		assert_int_equal(unpack(&x), -1);
		assert_int_equal(x.e.kind, ERR_INPUT);
		leave(&x);
	}
}

static void links_and_devices_are_skipped_and_told(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	add(&x, "f", AE_IFREG, NULL, 1);
	add(&x, "soft", AE_IFLNK, "/etc/passwd", 0);
	add(&x, "hard", AE_IFREG, "f", 0);
	add(&x, "fifo", AE_IFIFO, NULL, 0);
	add(&x, "device", AE_IFCHR, NULL, 0);
	finish(&x);
	assert_int_equal(unpack(&x), 0);
	assert_int_equal(x.report.skipped_count, 4);
	assert_string_equal(x.report.skipped[0].path, "soft");
	assert_string_equal(x.report.skipped[0].why, "a symbolic link");
	assert_string_equal(x.report.skipped[1].why, "a hard link");
	assert_true(has(&x, "f"));
	assert_false(has(&x, "soft") || has(&x, "hard") || has(&x, "fifo"));
	leave(&x);
}

static void a_link_in_the_way_cannot_be_written_through(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	add(&x, "d", AE_IFLNK, "/tmp", 0);
	add(&x, "d/f", AE_IFREG, NULL, 1);
	finish(&x);
	assert_int_equal(unpack(&x), 0);
	assert_true(has(&x, "d/f")); /* in a directory of its own */
	leave(&x);
}

static void too_many_entries_are_refused(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	for (int i = 0; i <= ENTRIES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		add(&x, name, i % 2 ? AE_IFREG : AE_IFLNK, i % 2 ? NULL : "x", 0);
	}
	finish(&x);
	assert_int_equal(unpack(&x), -1);
	assert_int_equal(x.e.kind, ERR_LIMIT);
	leave(&x);
}

static void a_file_that_is_too_large_is_refused(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP);
	add(&x, "f", AE_IFREG, NULL, FILE_MAX + 1);
	finish(&x);
	assert_int_equal(unpack(&x), -1);
	assert_int_equal(x.e.kind, ERR_LIMIT);
	leave(&x);
}

static void files_that_are_too_large_together_are_refused(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP);
	add(&x, "a", AE_IFREG, NULL, FILE_MAX);
	add(&x, "b", AE_IFREG, NULL, FILE_MAX);
	add(&x, "c", AE_IFREG, NULL, 1);
	finish(&x);
	assert_int_equal(unpack(&x), -1);
	assert_int_equal(x.e.kind, ERR_LIMIT);
	leave(&x);
}

/* Files in it are not even wanted: a name is written again and again, so that no more than one is ever kept. */
static void a_bomb_is_not_read_to_its_end(void **state)
{
	struct evil x;
	struct tar_limits limits = { 1000000, BYTES_MAX, FILE_MAX };
	struct err e = { 0 };

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_GZIP);
	for (int i = 0; i < 4000; i++)
		add(&x, "same", AE_IFREG, NULL, FILE_MAX);
	finish(&x);
	assert_int_equal(mirror_open(in(x.scratch->path, "to"), "m", BYTES_MAX, &x.to, &e), 0);
	limits.entries_max = 100;
	assert_int_equal(tar_unpack(x.fd, &limits, x.to, &x.report, &x.e), -1);
	assert_int_equal(x.e.kind, ERR_LIMIT);
	leave(&x);
}

static void holes_count(void **state)
{
	struct evil x = { .scratch = *state };
	char command[256];

	snprintf(command, sizeof(command),
		"cd %s && truncate -s 1T sparse && echo x >>sparse && tar --sparse -cf archive sparse",
		x.scratch->path);
	assert_int_equal(system(command), 0);
	x.fd = open(in(x.scratch->path, "archive"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(unpack(&x), -1);
	assert_string_equal(x.e.text, "'sparse' has more than 10000 bytes");
	leave(&x);
}

static void what_is_no_archive_is_told(void **state)
{
	static const char *const texts[] = { "", "hello", "\x1f\x8b\x08", "PK\x03\x04" };

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct evil x = { .scratch = *state };

		x.fd = open(
			in(x.scratch->path, "text"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_int_equal(fd_write_all(x.fd, texts[i], strlen(texts[i])), 0);
		assert_int_equal(unpack(&x), -1);
		assert_int_equal(x.e.kind, ERR_INPUT);
		leave(&x);
	}
}

static void one_that_breaks_off_is_told(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FILTER_NONE);
	add(&x, "f", AE_IFREG, NULL, 5000);
	finish(&x);
	assert_int_equal(ftruncate(x.fd, 2000), 0);
	assert_int_equal(unpack(&x), -1);
	assert_int_equal(x.e.kind, ERR_INPUT);
	leave(&x);
}

static void names_of_any_bytes_come_back(void **state)
{
	static const char *const names[] = { "caf\xc3\xa9", "\xff\xfe", "new\nline", "quote\"" };
	char longest[201];
	const struct scratch *s = *state;
	struct evil x = { .scratch = s };
	struct err e = { 0 };
	struct tar *t;

	memset(longest, 'n', 200);
	longest[200] = '\0';
	x.fd = open(in(s->path, "archive"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	write_file(s->fd, "bytes", "12345");
	t = tar_new(x.fd, 1 << 20);
	assert_int_equal(tar_add_dir(t, "d", &e), 0);
	for (size_t i = 0; i <= COUNT(names); i++) {
		auto_close int fd = open(in(s->path, "bytes"), O_RDONLY | O_CLOEXEC);
		struct tar_file file = { i < COUNT(names) ? names[i] : longest, false, fd, 5 };

		assert_int_equal(tar_add_file(t, &file, &e), 0);
	}
	assert_int_equal(tar_end(t, &e), 0);
	tar_free(t);
	if (unpack(&x))
		fail_msg("%s", x.e.text);
	for (size_t i = 0; i < COUNT(names); i++)
		assert_true(has(&x, names[i]));
	assert_true(has(&x, longest));
	leave(&x);
}

static void read_names(int fd, struct buf *ret)
{
	struct archive *archive = archive_read_new();
	struct archive_entry *entry;

	lseek(fd, 0, SEEK_SET);
	archive_read_support_format_tar(archive);
	assert_int_equal(archive_read_open_fd(archive, fd, 4096), ARCHIVE_OK);
	while (archive_read_next_header(archive, &entry) == ARCHIVE_OK)
		buf_addf(ret, "%s ", archive_entry_pathname(entry));
	archive_read_free(archive);
}

static void no_link_is_packed_beneath_what_is_no_directory(void **state)
{
	static const char *const links[] = { "a", "a/b", "a/c/d", "aa/b", "d/b", "d/b/c", "f/b" };
	const struct scratch *s = *state;
	auto_close int fd = open(in(s->path, "archive"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	auto_buf struct buf names = { 0 };
	struct tar *t = tar_new(fd, 1 << 20);
	struct err e = { 0 };

	assert_int_equal(tar_add_dir(t, "d", &e), 0);
	assert_int_equal(tar_add_file(t, &(struct tar_file){ "f", false, -1, 0 }, &e), 0);
	for (size_t i = 0; i < COUNT(links); i++)
		assert_int_equal(tar_add_link(t, links[i], "/etc", &e), 0);
	assert_int_equal(tar_end(t, &e), 0);
	tar_free(t);
	read_names(fd, &names);
	assert_string_equal(names.data, "d/ f a aa/b d/b ");
}

static void an_archive_that_would_be_too_large_is_not_made(void **state)
{
	const struct scratch *s = *state;
	auto_close int to = open(in(s->path, "archive"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	auto_close int from = open(in(s->path, "hole"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct tar *t = tar_new(to, 1 << 20);
	struct err e = { 0 };

	assert_int_equal(ftruncate(from, (off_t)1 << 40), 0);
	assert_int_equal(
		tar_add_file(t, &(struct tar_file){ "hole", false, from, (uint64_t)1 << 40 }, &e),
		-1);
	assert_int_equal(e.kind, ERR_LIMIT);
	tar_free(t);
}

static void a_name_of_utf8_in_a_pax_header_is_read(void **state)
{
	struct evil x;

	begin(state, &x, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE, ARCHIVE_FILTER_NONE);
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	add(&x, "caf\xc3\xa9/\xe6\x97\xa5", AE_IFREG, NULL, 1);
	finish(&x);
	setlocale(LC_CTYPE, "C");
	if (unpack(&x))
		fail_msg("%s", x.e.text);
	assert_true(has(&x, "caf\xc3\xa9/\xe6\x97\xa5"));
	leave(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_SCRATCH(every_packing_is_unpacked),
		TEST_IN_SCRATCH(names_that_lead_out_refuse_all_of_it),
		TEST_IN_SCRATCH(links_and_devices_are_skipped_and_told),
		TEST_IN_SCRATCH(a_link_in_the_way_cannot_be_written_through),
		TEST_IN_SCRATCH(too_many_entries_are_refused),
		TEST_IN_SCRATCH(a_file_that_is_too_large_is_refused),
		TEST_IN_SCRATCH(files_that_are_too_large_together_are_refused),
		TEST_IN_SCRATCH(a_bomb_is_not_read_to_its_end),
		TEST_IN_SCRATCH(holes_count),
		TEST_IN_SCRATCH(what_is_no_archive_is_told),
		TEST_IN_SCRATCH(one_that_breaks_off_is_told),
		TEST_IN_SCRATCH(names_of_any_bytes_come_back),
		TEST_IN_SCRATCH(no_link_is_packed_beneath_what_is_no_directory),
		TEST_IN_SCRATCH(an_archive_that_would_be_too_large_is_not_made),
		TEST_IN_SCRATCH(a_name_of_utf8_in_a_pax_header_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
