/* A session's files, in its cell or in its mirror. */
#include "service/session_inner.h"

#include "base/buf.h"
#include "base/own.h"
#include "service/mirror.h"
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

void session_found_free(struct session_found *found)
{
	if (!found)
		return;
	for (size_t i = 0; i < found->count; i++) {
		free(found->files[i].path);
		free(found->files[i].target);
	}
	free(found->files);
	own_close(&found->fd);
	free(found);
}

static struct session_found *found_new(void)
{
	struct session_found *found = xalloc(sizeof(*found));

	found->fd = -1;
	return found;
}

static void tell(struct session_turn *turn, struct session_found *found, const struct err *failure)
{
	if (failure)
		session_found_free(take_ptr(&found));
	turn->on_files(turn, found, failure);
}

/* ---- in the mirror: at once ---- */

static int put_one(struct mirror *m, const struct hotcell_input *input, struct err *e)
{
	struct stat status;
	int fd;

	if (!input->host_path)
		return mirror_put_data(m, input->path, input->data, input->data_len, e);
	fd = open(input->host_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open '%s'", input->path);
	if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
		close(fd);
		return mirror_make_dir(m, input->path, false, e);
	}
	return mirror_put(m, input->path, fd, false, e);
}

static const char *kind_of(const struct mirror_file *file)
{
	if (file->target)
		return "symlink";
	return file->is_directory ? "directory" : "file";
}

static void list_mirror(const struct mirror *m, struct session_found *ret)
{
	struct mirror_file *files;
	size_t count;

	mirror_list(m, &files, &count);
	ret->files = xalloc((count + 1) * sizeof(*ret->files));
	for (size_t i = 0; i < count; i++)
		ret->files[ret->count++] = (struct session_file){
			.path = files[i].path,
			.kind = kind_of(&files[i]),
			.size_bytes = files[i].size_bytes,
			.generated = files[i].generated,
			.is_executable = files[i].is_executable,
			.target = files[i].target,
		};
	free(files); /* what was in it is the list's */
}

static int do_in_mirror(struct mirror *m, const struct hotcell_files *what,
	struct session_found *ret, struct err *e)
{
	int failed = 0;

	switch (what->kind) {
	case HOTCELL_FILES_PUT:
		for (size_t i = 0; !failed && i < what->inputs_count; i++)
			failed = put_one(m, &what->inputs[i], e);
		return failed;
	case HOTCELL_FILES_LIST:
		list_mirror(m, ret);
		return 0;
	case HOTCELL_FILES_GET:
		ret->fd = mirror_get(m, what->path, &ret->size_bytes, e);
		if (ret->fd < 0)
			return -1;
		if (what->max_size && ret->size_bytes > what->max_size)
			return err_set(e, ERR_LIMIT, "'%s' is larger than %llu bytes", what->path,
				(unsigned long long)what->max_size);
		return 0;
	case HOTCELL_FILES_REMOVE:
		return mirror_remove(m, what->path, e);
	case HOTCELL_FILES_CLEAR:
		break; /* a mirror goes with its session */
	}
	return err_set(e, ERR_INPUT, "nothing of the kind can be done with files");
}

/* ---- in the cell ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(
		((const struct session_file *)a)->path, ((const struct session_file *)b)->path);
}

static void take_list(struct hotcell_result *result, struct session_found *ret)
{
	ret->is_incomplete = result->files_incomplete;
	ret->files = xalloc((result->files_count + 1) * sizeof(*ret->files));
	for (size_t i = 0; i < result->files_count; i++) {
		struct hotcell_file *f = &result->files[i];
		char *path = take_ptr(&f->path);
		char *target = take_ptr(&f->target);

		ret->files[ret->count++] = (struct session_file){
			.path = path,
			.kind = f->kind,
			.size_bytes = f->size_bytes,
			.generated = f->generated,
			.is_executable = f->mode & S_IXUSR,
			.target = target,
		};
	}
	qsort(ret->files, ret->count, sizeof(*ret->files), by_path);
}

/* In the words that whoever comes later gets, too. */
static void set_lost(const struct session *session, const char *why, struct err *ret)
{
	err_set(ret, ERR_NOT_FOUND, "Session '%s' not found: %s", session->id, why);
}

static void set_failure(
	const struct session *session, const struct hotcell_error *failure, struct err *ret)
{
	if (failure->kind == HOTCELL_ERROR_GONE) {
		set_lost(session, failure->text, ret);
	} else {
		err_set(ret, (enum err_kind)failure->kind, "%s", failure->text);
		ret->sys_errno = failure->sys_errno; /* a full disk has an answer of its own */
	}
}

static void on_done_in_cell(
	struct engine_op *op, struct hotcell_result *result, const struct hotcell_error *failure)
{
	struct session *session = container_of(op, struct session, op);
	struct session_found *found = found_new();
	int fd = take_fd(&session->got_fd);
	struct err e = { 0 };

	found->fd = fd;
	if (failure)
		set_failure(session, failure, &e);
	else if (session->doing == HOTCELL_FILES_LIST)
		take_list(result, found);
	else if (session->doing == HOTCELL_FILES_GET)
		found->size_bytes = result->files[0].size_bytes;
	hotcell_result_free(result);
	tell(session->turn, found, failure ? &e : NULL);
}

static int begin_in_cell(struct session *session, const struct hotcell_files *asked, struct err *e)
{
	struct hotcell_files what = *asked;
	struct hotcell_error error;

	if (!session->cell) {
		set_lost(session, session->why, e);
		return -1;
	}
	if (what.kind == HOTCELL_FILES_GET) {
		session->got_fd = store_open_blob(session->service->store, e);
		if (session->got_fd < 0)
			return -1;
		what.fd = session->got_fd;
	}
	session->doing = what.kind;
	session->op.on_done = on_done_in_cell;
	if (engine_files(session->engine, session->cell, &what, &session->op, &error) == 0)
		return 0;
	if (session->got_fd >= 0)
		close(take_fd(&session->got_fd));
	set_failure(session, &error, e);
	return -1;
}

/* ---- wherever ---- */

void session_files(struct session_turn *turn, const struct hotcell_files *what)
{
	struct session *session = turn->session;
	struct session_found *found;
	struct err e = { 0 };

	if (session->has_ended) {
		set_lost(session, session->why, &e);
		tell(turn, NULL, &e);
	} else if (session->mirror) {
		int failed;

		found = found_new();
		failed = do_in_mirror(session->mirror, what, found, &e);
		tell(turn, found, failed ? &e : NULL);
	} else if (begin_in_cell(session, what, &e)) {
		tell(turn, NULL, &e);
	}
}

void session_files_in_cell(struct session_turn *turn, const struct hotcell_files *what)
{
	struct err e = { 0 };

	if (begin_in_cell(turn->session, what, &e))
		tell(turn, NULL, &e);
}

void session_files_abandon(struct session *session)
{
	struct err e = { 0 };

	if (!session->op.work)
		return;
	engine_abandon(&session->op);
	if (session->got_fd >= 0)
		close(take_fd(&session->got_fd));
	err_set(&e, ERR_GONE, "the service has ended");
	tell(session->turn, NULL, &e);
}

void session_put_files(struct session *session)
{
	const struct session_config *c = &session->config;
	struct hotcell_files what = { .kind = HOTCELL_FILES_PUT, .inputs_count = c->files_count };

	session->inputs = xalloc((c->files_count + 1) * sizeof(*session->inputs));
	for (size_t i = 0; i < c->files_count; i++)
		session->inputs[i] = (struct hotcell_input){
			.path = c->files[i].path,
			.host_path = c->files[i].host_path,
			.data = c->files[i].data,
			.data_len = c->files[i].data_len,
		};
	what.inputs = session->inputs;
	/* A cell that is not asked for anything is not waited for. */
	if (c->files_count)
		session_files(&session->own_turn, &what);
	else
		tell(&session->own_turn, found_new(), NULL);
}
