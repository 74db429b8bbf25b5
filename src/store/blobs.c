/* Bytes of files: DIR/files/ab/ID, where "ab" is how the id begins.
 *
 * They are there before their row is, and go after it. So a crash can leave bytes without a row,
 * which nobody was told about and which are removed when the store is opened, but no row without its
 * bytes. */
#include "base/nameless.h"
#include "store/inner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { PREFIX = 2, PREFIXES = 256, PATH_SIZE = PREFIX + 1 + STORE_ID_SIZE };

static const char *path_of(const char *id, char ret[PATH_SIZE])
{
	snprintf(ret, PATH_SIZE, "%.*s/%s", PREFIX, id, id);
	return ret;
}

/* ---- without a name ---- */

int store_open_blob(struct store *s, struct err *e)
{
	char id[STORE_ID_SIZE];
	int fd;

	store_make_id(id);
	fd = nameless_open(s->files_fd, id);
	return fd < 0 ? err_sys(e, "make a file for what is to be stored") : fd;
}

/* ---- getting a name ---- */

/* In place of the blob, which has no name and can get none. */
static int copy_to(const struct store *s, const char *path, int *blob_fd)
{
	auto_close int fd = openat(s->files_fd, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int failed;

	if (fd < 0)
		return -1;
	failed = nameless_copy(*blob_fd, fd);
	if (failed) {
		int saved = errno;

		unlinkat(s->files_fd, path, 0);
		errno = saved;
		return -1;
	}
	close(*blob_fd);
	*blob_fd = take_fd(&fd);
	return 0;
}

static int link_to(const struct store *s, const char *path, int *blob_fd)
{
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", *blob_fd);
	if (linkat(AT_FDCWD, self, s->files_fd, path, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno == EEXIST || errno == ENOSPC || errno == EDQUOT)
		return -1;
	/* Without a /proc: this way takes a capability. */
	if (linkat(*blob_fd, "", s->files_fd, path, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno == EEXIST || errno == ENOSPC || errno == EDQUOT)
		return -1;
	return copy_to(s, path, blob_fd);
}

static int name_blob(struct store *s, struct op *op, struct err *e)
{
	char path[PATH_SIZE];

	path_of(op->file.id, path);
	path[PREFIX] = '\0';
	if (mkdirat(s->files_fd, path, 0700) == 0)
		s->files_synced = false;
	else if (errno != EEXIST)
		return err_sys(e, "make a directory for stored files");
	if (link_to(s, path_of(op->file.id, path), &op->blob_fd))
		return err_sys(e, "keep the file");
	op->blob_kept = true;
	return 0;
}

/* ---- the bytes of a batch ---- */

static void drop_name(const struct store *s, const char *id)
{
	char path[PATH_SIZE];

	unlinkat(s->files_fd, path_of(id, path), 0);
}

static unsigned prefix_of(const char *id)
{
	char digits[PREFIX + 1] = { id[0], id[1] };

	return (unsigned)strtoul(digits, NULL, 16) % PREFIXES;
}

static int sync_prefix(const struct store *s, unsigned prefix)
{
	char name[PREFIX + 1];
	auto_close int fd = -1;

	snprintf(name, sizeof(name), "%02x", prefix);
	fd = openat(s->files_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -1 : fsync(fd);
}

/* Not synced, too: after a start, since who made one may have been killed before that. */
static int sync_files(struct store *s)
{
	if (!s->files_synced)
		s->files_synced = fsync(s->files_fd) == 0;
	return s->files_synced ? 0 : -1;
}

static void sync_directories(struct store *s, struct op *batch)
{
	bool wanted[PREFIXES] = { false };
	bool failed[PREFIXES] = { false };
	bool all_failed = sync_files(s) != 0;
	struct err e;

	if (all_failed)
		err_sys(&e, "sync the directory of stored files");
	for (const struct op *op = batch; op; op = op->next) {
		if (op->blob_kept && !op->failed)
			wanted[prefix_of(op->file.id)] = true;
	}
	for (unsigned i = 0; i < PREFIXES && !all_failed; i++) {
		if (wanted[i] && sync_prefix(s, i)) {
			failed[i] = true;
			err_sys(&e, "sync a directory of stored files");
		}
	}
	for (struct op *op = batch; op; op = op->next) {
		if (op->blob_kept && !op->failed && (all_failed || failed[prefix_of(op->file.id)]))
			op_fail(op, &e);
	}
}

void blobs_keep(struct store *s, struct op *batch)
{
	bool has_blobs = false;
	struct err e;

	/* All of them on their way to the disk before the first is waited for; and named before
	 * they are synced: where there is a journal one commit of it then serves all. */
	for (struct op *op = batch; op; op = op->next) {
		if (op->failed || op->blob_fd < 0)
			continue;
		has_blobs = true;
		sync_file_range(op->blob_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		if (name_blob(s, op, &e))
			op_fail(op, &e);
	}
	for (struct op *op = batch; op; op = op->next) {
		if (!op->blob_kept || fsync(op->blob_fd) == 0)
			continue;
		err_sys(&e, "sync the file");
		op_fail(op, &e);
	}
	if (has_blobs)
		sync_directories(s, batch);
}

void blobs_settle(struct store *s, struct op *batch)
{
	for (struct op *op = batch; op; op = op->next) {
		if (op->failed && op->blob_kept)
			drop_name(s, op->file.id);
		/* Here, since to close a large one that has no name takes its time. */
		own_close(&op->blob_fd);
		op->blob_fd = -1;
	}
}

void blobs_remove(struct store *s, const struct op *op)
{
	for (size_t i = 0; i < op->removed_count; i++)
		drop_name(s, op->removed[i].id);
}

void blobs_remove_now(struct store *s, const struct op *op)
{
	for (size_t i = 0; i < op->removed_count; i++) {
		drop_name(s, op->removed[i].id);
		sync_prefix(s, prefix_of(op->removed[i].id));
	}
}

int store_open_file(struct store *s, const char *id, struct err *e)
{
	char path[PATH_SIZE];
	int fd;

	if (!store_is_id(id))
		return err_set(e, ERR_NOT_FOUND, "there is no such file");
	fd = openat(s->files_fd, path_of(id, path), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "there is no file '%s'", id);
	return fd < 0 ? err_sys(e, "open the file '%s'", id) : fd;
}

/* ---- when the store is opened ---- */

struct ids {
	char (*at)[STORE_ID_SIZE];
	size_t count;
};

static void own_ids(const struct ids *ids)
{
	free(ids->at);
}
#define auto_ids __attribute__((cleanup(own_ids))) struct ids

static void add_id(struct ids *ids, const char *id)
{
	/* Grows at the powers of two. */
	if ((ids->count & (ids->count - 1)) == 0)
		ids->at = xgrow(ids->at, (ids->count ? ids->count * 2 : 1) * sizeof(*ids->at));
	snprintf(ids->at[ids->count++], STORE_ID_SIZE, "%s", id);
}

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, STORE_ID_SIZE);
}

/* Ids of files in the directory, in order. What has no id's form is nobody's, and is removed. */
static int list_bytes(const struct store *s, const char *name, struct ids *ret, struct err *e)
{
	int fd = openat(s->files_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *entry;
	DIR *dir;

	if (fd < 0 && errno == ENOENT)
		return 0;
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		err_sys(e, "open 'files/%s'", name);
		own_close(&fd);
		return -1;
	}
	while ((entry = readdir(dir))) {
		bool has_place =
			store_is_id(entry->d_name) && strncmp(entry->d_name, name, PREFIX) == 0;

		if (has_place)
			add_id(ret, entry->d_name);
		else
			unlinkat(fd, entry->d_name, 0); /* not for directories, as "." */
	}
	closedir(dir);
	if (ret->count)
		qsort(ret->at, ret->count, sizeof(*ret->at), compare_ids);
	return 0;
}

static int list_rows(struct store *s, const char *prefix, struct ids *ret, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_FILE_IDS, e);
	char end[PREFIX + 2];
	int more;

	if (!query)
		return -1;
	snprintf(end, sizeof(end), "%s~", prefix);
	db_bind(query, 1, prefix);
	db_bind(query, 2, end);
	while ((more = db_step(&s->writer, query, e)) > 0) {
		char id[STORE_ID_SIZE];

		db_id(query, 0, id);
		add_id(ret, id);
	}
	return more;
}

static int remove_row(struct store *s, const char *id, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_FILE_REMOVE, e);

	if (!query)
		return -1;
	db_bind(query, 1, id);
	return db_step(&s->writer, query, e) < 0 ? -1 : 0;
}

static int sweep_prefix(struct store *s, unsigned prefix, struct err *e)
{
	auto_ids bytes = { 0 };
	auto_ids rows = { 0 };
	size_t byte = 0;
	size_t row = 0;
	char name[PREFIX + 1];

	snprintf(name, sizeof(name), "%02x", prefix);
	if (list_bytes(s, name, &bytes, e) || list_rows(s, name, &rows, e))
		return -1;
	while (byte < bytes.count || row < rows.count) {
		int order = byte == bytes.count ? 1 :
			    row == rows.count   ? -1 :
						  compare_ids(bytes.at[byte], rows.at[row]);

		if (order < 0)
			drop_name(s, bytes.at[byte]);
		if (order > 0 && remove_row(s, rows.at[row], e))
			return -1;
		byte += order <= 0;
		row += order >= 0;
	}
	return 0;
}

/* What open_and_unlink() could not finish. */
static void sweep_nameless(const struct store *s)
{
	int fd = openat(s->files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		own_close(&fd);
		return;
	}
	while ((entry = readdir(dir))) {
		if (store_is_id(entry->d_name))
			unlinkat(fd, entry->d_name, 0);
	}
	closedir(dir);
}

int blobs_sweep(struct store *s, struct err *e)
{
	bool failed = false;

	sweep_nameless(s);
	if (store_begin(s, e))
		return -1;
	for (unsigned i = 0; i < PREFIXES && !failed; i++)
		failed = sweep_prefix(s, i, e) != 0;
	return store_end(s, failed, e);
}
