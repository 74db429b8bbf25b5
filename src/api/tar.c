#include "api/tar.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/own.h"
#include "base/path.h"
#include "base/fd.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* BLOCK: what is read and written at once. OVERHEAD: of an entry, beside its bytes: headers, a long name, padding. */
enum { BLOCK = 1 << 16, OVERHEAD = 16384 };

/* Names are converted as the locale says, and that of a service knows ASCII only. For this thread, not for others. */
static locale_t enter_utf8(locale_t *ret_old)
{
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);

	*ret_old = utf8 ? uselocale(utf8) : (locale_t)0;
	return utf8;
}

static void leave_utf8(locale_t utf8, locale_t old)
{
	if (!utf8)
		return;
	uselocale(old);
	freelocale(utf8);
}

/* ---- unpacking ---- */

struct unpacking {
	struct archive *archive;
	const struct tar_limits *limits;
	struct mirror *to;
	struct tar_report *report;
	size_t entries;
	struct err *e;
};

void tar_report_free(struct tar_report *report)
{
	for (size_t i = 0; i < report->skipped_count && i < TAR_SKIPPED_MAX; i++)
		free(report->skipped[i].path);
	*report = (struct tar_report){ 0 };
}

static int tell_broken(const struct unpacking *u)
{
	const char *why = archive_error_string(u->archive);

	return err_set(u->e, ERR_INPUT, "it is not a tar archive that can be read%s%s",
		why ? ": " : "", why ? why : "");
}

static int tell_too_large(const struct unpacking *u)
{
	return err_set(u->e, ERR_LIMIT, "what is in the archive has more than %llu bytes",
		(unsigned long long)u->limits->bytes_max);
}

/* Whatever was read from it, also what is skipped. */
static int check_read(const struct unpacking *u)
{
	uint64_t most = u->limits->bytes_max + (uint64_t)u->limits->entries_max * OVERHEAD;

	return (uint64_t)archive_filter_bytes(u->archive, 0) > most ? tell_too_large(u) : 0;
}

static void skip(const struct unpacking *u, const char *path, const char *why)
{
	struct tar_report *r = u->report;

	if (r->skipped_count < TAR_SKIPPED_MAX)
		r->skipped[r->skipped_count] = (struct tar_skipped){ xstrdup(path), why };
	r->skipped_count++;
}

static int write_block(int fd, const void *data, size_t len, off_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		data = (const char *)data + n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

static int tell_large_file(const struct unpacking *u, const char *path)
{
	return err_set(u->e, ERR_LIMIT, "'%s' has more than %llu bytes", path,
		(unsigned long long)u->limits->file_max);
}

/* Holes stay holes; the bytes that they stand for count. */
static int write_data(const struct unpacking *u, const char *path, int fd)
{
	uint64_t most = u->limits->file_max;
	uint64_t end = 0;
	const void *data;
	size_t len;
	la_int64_t at;

	for (;;) {
		int got = archive_read_data_block(u->archive, &data, &len, &at);

		if (got == ARCHIVE_EOF)
			break;
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return tell_broken(u);
		if (at < 0 || (uint64_t)at > most || len > most - (uint64_t)at)
			return tell_large_file(u, path);
		if (check_read(u))
			return -1;
		if (write_block(fd, data, len, at))
			return err_sys(u->e, "write '%s'", path);
		if ((uint64_t)at + len > end)
			end = (uint64_t)at + len;
	}
	return ftruncate(fd, (off_t)end) ? err_sys(u->e, "write '%s'", path) : 0;
}

static int unpack_file(const struct unpacking *u, struct archive_entry *entry, const char *path)
{
	auto_close int fd = -1;
	struct stat status;

	if (archive_entry_size_is_set(entry) &&
		(uint64_t)archive_entry_size(entry) > u->limits->file_max)
		return tell_large_file(u, path);
	fd = mirror_open_blob(u->to, u->e);
	if (fd < 0 || write_data(u, path, fd))
		return -1;
	if (fstat(fd, &status) || fchmod(fd, archive_entry_perm(entry) & 0111 ? 0755 : 0644))
		return err_sys(u->e, "write '%s'", path);
	u->report->files++;
	u->report->bytes += (uint64_t)status.st_size;
	return mirror_put(u->to, path, take_fd(&fd), false, u->e);
}

/* "./a/b/" is a/b. To be freed; NULL: it has no name that can be read. */
static char *clean_path(struct archive_entry *entry)
{
	const char *path = archive_entry_pathname(entry);
	char *copy;
	size_t len;

	if (!path)
		path = archive_entry_pathname_utf8(entry);
	if (!path)
		return NULL;
	while (path[0] == '.' && path[1] == '/')
		path += 2 + strspn(path + 2, "/");
	copy = xstrdup(strcmp(path, ".") == 0 ? "" : path);
	len = strlen(copy);
	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	return copy;
}

static const char *reason_to_skip(struct archive_entry *entry)
{
	if (archive_entry_hardlink(entry))
		return "a hard link";
	switch (archive_entry_filetype(entry)) {
	case AE_IFREG:
	case AE_IFDIR:
		return NULL;
	case AE_IFLNK:
		return "a symbolic link";
	default:
		return "neither a file nor a directory";
	}
}

static int unpack_entry(struct unpacking *u, struct archive_entry *entry)
{
	auto_free char *path = clean_path(entry);
	const char *why = reason_to_skip(entry);

	if (++u->entries > u->limits->entries_max)
		return err_set(u->e, ERR_LIMIT, "the archive has more than %zu entries",
			u->limits->entries_max);
	if (!path)
		return err_set(
			u->e, ERR_INPUT, "the archive has an entry whose name cannot be read");
	if (!*path)
		return 0; /* the top */
	if (path_check_relative(path, strlen(path), u->e))
		return err_wrap(u->e, "'%.200s'", path);
	if (why) {
		skip(u, path, why);
		return 0;
	}
	if (archive_entry_filetype(entry) == AE_IFREG)
		return unpack_file(u, entry, path);
	u->report->directories++;
	return mirror_make_dir(u->to, path, false, u->e);
}

static int unpack_all(struct unpacking *u)
{
	struct archive_entry *entry;

	for (;;) {
		int got = archive_read_next_header(u->archive, &entry);

		if (got == ARCHIVE_EOF)
			return 0;
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return tell_broken(u);
		if (check_read(u) || unpack_entry(u, entry))
			return -1;
	}
}

/* ARCHIVE_WARN would mean that it runs a program for it. */
static void allow(struct archive *a)
{
	archive_read_support_format_tar(a);
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
}

int tar_unpack(int fd, const struct tar_limits *limits, struct mirror *to, struct tar_report *ret,
	struct err *e)
{
	struct unpacking u = {
		.archive = archive_read_new(),
		.limits = limits,
		.to = to,
		.report = ret,
		.e = e,
	};
	locale_t old;
	locale_t utf8 = enter_utf8(&old);
	int failed;

	allow(u.archive);
	lseek(fd, 0, SEEK_SET);
	failed = archive_read_open_fd(u.archive, fd, BLOCK) == ARCHIVE_OK ? unpack_all(&u) :
									    tell_broken(&u);
	archive_read_free(u.archive);
	leave_utf8(utf8, old);
	return failed;
}

/* ---- packing ---- */

struct tar {
	struct archive *archive;
	int fd;
	uint64_t left;
	time_t now;
	struct map leaves; /* what it has that is no directory */
};

struct tar *tar_new(int fd, uint64_t bytes_max)
{
	struct tar *t = xalloc(sizeof(*t));

	t->archive = archive_write_new();
	t->left = bytes_max;
	t->fd = fd;
	t->now = time(NULL);
	/* Names in it are bytes, of any length. */
	archive_write_set_format_gnutar(t->archive);
	archive_write_open_fd(t->archive, fd);
	return t;
}

static int tell_failed(const struct tar *t, const char *path, struct err *e)
{
	errno = archive_errno(t->archive);
	return err_sys(e, "pack '%s'", path);
}

/* What `entry` says beside its path, and `size` bytes after it. Frees it. */
static int add_header(
	struct tar *t, const char *path, struct archive_entry *entry, uint64_t size, struct err *e)
{
	int failed;

	if (size > t->left || t->left - size < OVERHEAD) {
		archive_entry_free(entry);
		return err_set(
			e, ERR_LIMIT, "the files have more bytes than an archive of them may have");
	}
	t->left -= size;
	archive_entry_set_pathname(entry, path);
	archive_entry_set_size(entry, (la_int64_t)size);
	archive_entry_set_mtime(entry, t->now, 0);
	failed = archive_write_header(t->archive, entry) < ARCHIVE_WARN;
	archive_entry_free(entry);
	return failed ? tell_failed(t, path, e) : 0;
}

static struct archive_entry *entry_new(unsigned type, unsigned mode)
{
	struct archive_entry *entry = archive_entry_new();

	archive_entry_set_filetype(entry, type);
	archive_entry_set_perm(entry, mode);
	return entry;
}

int tar_add_dir(struct tar *t, const char *path, struct err *e)
{
	return add_header(t, path, entry_new(AE_IFDIR, 0755), 0, e);
}

static bool is_beneath_leaf(const struct tar *t, const char *path)
{
	auto_free char *above = xstrdup(path);
	char *slash;

	while ((slash = strrchr(above, '/'))) {
		*slash = '\0';
		if (map_get(&t->leaves, above))
			return true;
	}
	return false;
}

int tar_add_link(struct tar *t, const char *path, const char *target, struct err *e)
{
	struct archive_entry *entry;

	if (is_beneath_leaf(t, path))
		return 0;
	map_put(&t->leaves, path, t);
	entry = entry_new(AE_IFLNK, 0777);
	archive_entry_set_symlink(entry, target);
	return add_header(t, path, entry, 0, e);
}

int tar_add_file(struct tar *t, const struct tar_file *file, struct err *e)
{
	const char *path = file->path;
	uint64_t size = file->size_bytes;
	auto_free char *block = xalloc(BLOCK);
	uint64_t at = 0;

	map_put(&t->leaves, path, t);
	if (add_header(t, path, entry_new(AE_IFREG, file->is_executable ? 0755 : 0644), size, e))
		return -1;
	while (at < size) {
		size_t want = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
		ssize_t n = pread(file->fd, block, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_sys(e, "read '%s'", path);
		if (archive_write_data(t->archive, block, (size_t)n) != n)
			return tell_failed(t, path, e);
		at += (uint64_t)n;
	}
	return 0;
}

int tar_end(struct tar *t, struct err *e)
{
	return archive_write_close(t->archive) < ARCHIVE_WARN ? tell_failed(t, "its end", e) : 0;
}

void tar_free(struct tar *t)
{
	if (!t)
		return;
	archive_write_free(t->archive);
	map_free(&t->leaves);
	free(t);
}
