#include "store/inner.h"

#include <string.h>
#include <sys/stat.h>

/* How many expired files one transaction removes: others wait for it. */
enum { EXPIRE_STEP = 500 };

void store_file_free(struct store_file *file)
{
	free(file->owner);
	free(file->name);
	file->owner = file->name = NULL;
}

void store_files_free(struct store_file *files, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_file_free(&files[i]);
	free(files);
}

/* ---- adding ---- */

static int write_added(struct store *s, struct op *op, struct err *e)
{
	const struct store_file *file = &op->file;
	auto_query query = db_query(&s->writer, QUERY_FILE_ADD, e);

	if (!query)
		return -1;
	db_bind(query, 1, file->id);
	db_bind(query, 2, file->owner);
	db_bind(query, 3, file->name);
	sqlite3_bind_int64(query, 4, (sqlite3_int64)file->size_bytes);
	sqlite3_bind_double(query, 5, file->created_s);
	sqlite3_bind_double(query, 6, file->expires_s);
	return db_step(&s->writer, query, e);
}

static void finish_added(struct store *s, struct op *op)
{
	if (op->failed)
		owners_take(s, op->file.owner, op->file.size_bytes);
}

static int check_file(const struct store_file *file, int blob_fd, uint64_t *ret_size, struct err *e)
{
	struct stat status;

	if (!store_is_id(file->id))
		return err_set(e, ERR_INPUT, "the file's id has not the form of one");
	if (store_check_text("file's owner", file->owner, STORE_NAME_MAX, e) ||
		store_check_text("file's name", file->name, STORE_NAME_MAX, e))
		return -1;
	if (fstat(blob_fd, &status))
		return err_sys(e, "look at the file");
	*ret_size = (uint64_t)status.st_size;
	return 0;
}

void store_add_file(struct store *s, const struct store_file *file, int blob_fd, store_done *done,
	void *context)
{
	struct op *op = op_new(write_added, done, context);
	uint64_t size = 0;
	struct err e;

	op->blob_fd = blob_fd;
	if (check_file(file, blob_fd, &size, &e)) {
		op_fail(op, &e);
		writer_submit(s, op);
		return;
	}
	op->file = *file;
	op->file.owner = xstrdup(file->owner);
	op->file.name = xstrdup(file->name);
	op->file.size_bytes = size;
	op->finish = finish_added;
	owners_add(s, file->owner, 1, size);
	writer_submit(s, op);
}

/* ---- removing ---- */

static int remove_row(struct store *s, struct op *op, const char *id, struct err *e)
{
	auto_query query = db_query(&s->writer, QUERY_FILE_REMOVE, e);
	int found;

	if (!query)
		return -1;
	db_bind(query, 1, id);
	found = db_step(&s->writer, query, e);
	if (found == 0)
		return err_set(e, ERR_NOT_FOUND, "there is no file '%s'", id);
	if (found < 0)
		return -1;
	op_add_removed(op, id, query, 0, 1);
	/* To its end, or it is not carried out. */
	return db_step(&s->writer, query, e);
}

static int write_removed(struct store *s, struct op *op, struct err *e)
{
	return remove_row(s, op, op->id, e);
}

static void finish_removed(struct store *s, struct op *op)
{
	if (op->failed)
		return;
	for (size_t i = 0; i < op->removed_count; i++)
		owners_take(s, op->removed[i].owner, op->removed[i].size_bytes);
}

void store_remove_file(struct store *s, const char *id, store_done *done, void *context)
{
	struct op *op = op_new(write_removed, done, context);
	struct err e;

	op->finish = finish_removed;
	op->id = xstrdup(id);
	if (!store_is_id(id)) {
		err_set(&e, ERR_NOT_FOUND, "there is no such file");
		op_fail(op, &e);
	}
	writer_submit(s, op);
}

static int write_expired(struct store *s, struct op *op, struct err *e)
{
	auto_free char(*ids)[STORE_ID_SIZE] = xalloc(EXPIRE_STEP * sizeof(*ids));
	auto_query query = db_query(&s->writer, QUERY_FILE_EXPIRED, e);
	size_t count = 0;
	int more;

	if (!query)
		return -1;
	sqlite3_bind_double(query, 1, op->time_s);
	sqlite3_bind_int(query, 2, EXPIRE_STEP);
	while ((more = db_step(&s->writer, query, e)) > 0)
		db_id(query, 0, ids[count++]);
	/* Not before it is read to its end: what is removed under a reader confuses it. */
	for (size_t i = 0; i < count && more == 0; i++)
		more = remove_row(s, op, ids[i], e);
	op->has_more = count == EXPIRE_STEP;
	return more;
}

static void finish_expired(struct store *s, struct op *op)
{
	finish_removed(s, op);
	if (!op->failed && op->has_more)
		store_expire_files(s);
}

void store_expire_files(struct store *s)
{
	struct op *op = op_new(write_expired, NULL, NULL);

	op->finish = finish_expired;
	op->time_s = store_now_s();
	writer_submit(s, op);
}

/* ---- reading ---- */

static void read_file(sqlite3_stmt *query, struct store_file *ret)
{
	db_id(query, 0, ret->id);
	ret->owner = db_text(query, 1);
	ret->name = db_text(query, 2);
	ret->size_bytes = (uint64_t)sqlite3_column_int64(query, 3);
	ret->created_s = sqlite3_column_double(query, 4);
	ret->expires_s = sqlite3_column_double(query, 5);
}

int store_find_file(
	struct store *s, const char *id, const char *owner, struct store_file *ret, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_FILE_FIND, e);
	struct store_file file = { 0 };
	int found;

	if (!query)
		return -1;
	if (!store_is_id(id))
		return err_set(e, ERR_NOT_FOUND, "there is no such file");
	db_bind(query, 1, id);
	found = db_step(&s->reader, query, e);
	if (found < 0)
		return -1;
	if (found)
		read_file(query, &file);
	if (!found || (owner && strcmp(owner, file.owner) != 0) ||
		(file.expires_s > 0 && file.expires_s <= store_now_s())) {
		store_file_free(&file);
		return err_set(e, ERR_NOT_FOUND, "there is no file '%s'", id);
	}
	*ret = file;
	return 0;
}

int store_list_files(struct store *s, const char *owner, struct store_file **ret, size_t *ret_count,
	struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_FILE_LIST, e);
	struct store_file *files = NULL;
	size_t count = 0;
	int more;

	if (!query)
		return -1;
	db_bind(query, 1, owner);
	sqlite3_bind_double(query, 2, store_now_s());
	sqlite3_bind_int(query, 3, STORE_LIST_MAX);
	while ((more = db_step(&s->reader, query, e)) > 0) {
		files = xgrow(files, (count + 1) * sizeof(*files));
		read_file(query, &files[count++]);
	}
	if (more < 0) {
		store_files_free(files, count);
		return -1;
	}
	*ret = files;
	*ret_count = count;
	return 0;
}

int files_count_owners(struct store *s, struct err *e)
{
	auto_query query = db_query(&s->reader, QUERY_FILE_OWNERS, e);
	int more;

	if (!query)
		return -1;
	while ((more = db_step(&s->reader, query, e)) > 0) {
		auto_free char *owner = db_text(query, 0);

		owners_add(s, owner, (uint64_t)sqlite3_column_int64(query, 1),
			(uint64_t)sqlite3_column_int64(query, 2));
	}
	return more;
}

uint64_t store_owner_bytes(struct store *s, const char *owner)
{
	uint64_t bytes = owners_bytes(s, owner);
	struct err ignored;
	auto_query query = db_query(&s->reader, QUERY_FILE_EXPIRED_BYTES, &ignored);
	uint64_t expired = 0;

	if (!bytes || !query)
		return bytes;
	db_bind(query, 1, owner);
	sqlite3_bind_double(query, 2, store_now_s());
	if (db_step(&s->reader, query, &ignored) > 0)
		expired = (uint64_t)sqlite3_column_double(query, 0);
	return expired < bytes ? bytes - expired : 0;
}

char *store_file_path(const struct store *s, const char *id)
{
	return xasprintf("%s/files/%.2s/%s", s->dir, id, id);
}
