/* A cell's files, while nothing runs in it: one question, or files and then a question, and one answer.
 *
 * Whatever happens, the answer is waited for: what comes late is not for the cell's next work. So a work that
 * failed here, or was cancelled, ends when the cell has had its say, or is ended for having none. */
#include "engine/request.h"

#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Without any news. Removing or reading a full disk takes a second or two, on a busy machine more. */
enum { PATIENCE_MS = 30000, PATIENCE_AT_END_MS = 5000, ERRORS_MAX = 4096 };

static void wait_on(struct hotcell_work *work)
{
	/* Who has heard enough is not kept by more of it. */
	if (work->failure.kind == ERR_NONE)
		timer_start(work->engine, &work->timer, PATIENCE_MS);
}

/* The first failure is the one that counts. */
static void spoil(struct hotcell_work *work, const struct err *e)
{
	if (work->failure.kind != ERR_NONE)
		return;
	work->failure = *e;
	timer_start(work->engine, &work->timer, PATIENCE_AT_END_MS);
}

/* ---- asking ---- */

static void put_question(const struct hotcell_work *work)
{
	struct frame_out *out = &work->engine->out;

	switch (work->files.kind) {
	case HOTCELL_FILES_PUT:
		put_bare(out, CELL_PUT_END);
		break;
	case HOTCELL_FILES_LIST:
		put_bare(out, CELL_LIST);
		break;
	case HOTCELL_FILES_GET:
		put_get(out, &(struct msg_get){ work->entry, work->files.max_size });
		break;
	case HOTCELL_FILES_REMOVE:
		put_remove(out, &(struct msg_remove){ work->entry, work->files.only_code != 0 });
		break;
	case HOTCELL_FILES_CLEAR:
		put_bare(out, CELL_CLEAR);
		break;
	}
}

void files_continue(struct hotcell_work *work)
{
	wait_on(work);
	if (work->step != WORK_STAGING || stage_continue(work) != 1)
		return;
	put_question(work);
	if (cell_send(work->cell))
		return;
	work_goto(work, WORK_SERVING);
	/* Not answered: a cell that cannot do it ends. */
	if (work->files.kind == HOTCELL_FILES_CLEAR) {
		work->cell->has_leftovers = false;
		work_finish(work);
	}
}

static int check(const struct hotcell_files *f, struct err *e)
{
	switch (f->kind) {
	case HOTCELL_FILES_PUT:
	case HOTCELL_FILES_LIST:
	case HOTCELL_FILES_CLEAR:
		return 0;
	case HOTCELL_FILES_GET:
	case HOTCELL_FILES_REMOVE:
		if (!f->path)
			return err_set(e, ERR_INPUT, "File path must not be empty.");
		return path_check_relative(f->path, strlen(f->path), e);
	}
	return err_set(e, ERR_INPUT, "nothing of the kind can be done with files");
}

static void begin(struct hotcell_work *work, const struct hotcell_files *f)
{
	bool puts = f->kind == HOTCELL_FILES_PUT;

	work->files = *f;
	work->files.path = NULL;
	work->entry = f->path ? xstrdup(f->path) : NULL;
	work->result = xalloc(sizeof(*work->result));
	work->result->language = xstrdup("");
	work->result->isolation = hotcell_cell_isolation(work->cell);
	if (f->kind == HOTCELL_FILES_GET) {
		work->result->files = xalloc(sizeof(*work->result->files));
		work->result->files[0] =
			(struct hotcell_file){ .path = xstrdup(f->path), .kind = "file" };
		work->result->files_count = 1;
		lseek(f->fd, 0, SEEK_SET);
	}
	work->cell->work = work;
	work->cell->has_leftovers |= puts;
	work->step = WORK_STAGING;
	files_continue(work);
}

int hotcell_files_start(struct hotcell_cell *cell, const struct hotcell_files *files,
	struct hotcell_work **ret, struct hotcell_error *error)
{
	struct hotcell_work *work = work_new(cell->engine, &(struct hotcell_request){ 0 });
	struct err e = { 0 };

	work->is_for_files = true;
	if (cell->gone)
		e = cell->failure;
	else if (cell->work)
		err_set(&e, ERR_INPUT, "the cell is busy");
	else if (check(files, &e) == 0 && files->kind == HOTCELL_FILES_PUT)
		request_stage_inputs(files->inputs, files->inputs_count, &work->staging, &e);
	if (e.kind != ERR_NONE) {
		work_free(work);
		error_out(error, &e);
		return -1;
	}
	work->cell = cell;
	begin(work, files);
	*ret = work;
	return 0;
}

/* ---- what is answered, by whoever is in the cell ---- */

static void fail_get(struct hotcell_work *work, uint32_t error)
{
	struct err e = { 0 };

	switch (error) {
	case ENOENT:
	case ENOTDIR:
		err_set(&e, ERR_NOT_FOUND, "there is no file '%s'", work->entry);
		break;
	case EISDIR:
	case EINVAL:
	case ELOOP:
	case ENXIO:
		err_set(&e, ERR_INPUT, "'%s' is not a regular file", work->entry);
		break;
	case EFBIG:
		err_set(&e, ERR_LIMIT, "'%s' is larger than %" PRIu64 " bytes", work->entry,
			work->files.max_size);
		break;
	default:
		errno = error < ERRORS_MAX ? (int)error : EIO;
		err_sys(&e, "'%s'", work->entry);
	}
	spoil(work, &e);
}

static void on_data(struct hotcell_work *work, const struct msg_data *m)
{
	struct err e = { 0 };

	work->got_bytes += m->data_len;
	if (work->failure.kind != ERR_NONE)
		return;
	wait_on(work);
	if (work->files.max_size && work->got_bytes > work->files.max_size) {
		fail_get(work, EFBIG);
	} else if (collect_write(work->files.fd, m)) {
		err_sys(&e, "write what is in '%s'", work->entry);
		spoil(work, &e);
	}
}

static void on_got(struct hotcell_work *work, const struct msg_got *m)
{
	if (m->error)
		fail_get(work, m->error);
	work->result->files[0].size_bytes = work->got_bytes;
	work_finish(work);
}

/* What the keeper could not do with a file, for a reason that whoever asked can act on. */
static enum err_kind kind_of(uint8_t kind, uint32_t error, bool puts)
{
	if (kind != ERR_SYSTEM)
		return (enum err_kind)kind;
	switch (error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case E2BIG:
		return ERR_LIMIT;
	case ENOENT:
		return ERR_NOT_FOUND;
	case ENOTDIR:
		return puts ? ERR_INPUT : ERR_NOT_FOUND;
	case ELOOP:
	case EISDIR:
	case EEXIST:
		return ERR_INPUT;
	default:
		return ERR_SYSTEM;
	}
}

void files_why_not_begun(const struct msg_exited *m, struct err *ret)
{
	bool for_file = m->failed_put != ERR_NONE;

	err_set(ret, for_file ? kind_of(m->failed_put, m->failed_put_as, true) : ERR_SYSTEM, "%s",
		m->text);
	if (ret->kind == ERR_LIMIT)
		err_wrap(ret, "the files do not fit into the run's %s",
			m->failed_put_as ? "disk" : "memory");
}

static void on_served(struct hotcell_work *work, const struct msg_served *m)
{
	struct err e = { 0 };

	if (m->kind) {
		err_set(&e, kind_of(m->kind, m->error, work->files.kind == HOTCELL_FILES_PUT), "%s",
			m->text);
		spoil(work, &e);
	}
	work_finish(work);
}

static void on_listed(struct hotcell_work *work, const struct msg_listed *m)
{
	work->result->files_incomplete = m->incomplete;
	work_finish(work);
}

bool files_on_frame(struct hotcell_work *work, uint8_t type, struct frame_in *in)
{
	enum hotcell_files_kind kind = work->files.kind;
	bool good = work->step == WORK_SERVING;
	union {
		struct msg_file file;
		struct msg_listed listed;
		struct msg_data data;
		struct msg_got got;
		struct msg_served served;
	} m;

	if (kind == HOTCELL_FILES_LIST && type == CELL_FILE) {
		good = good && get_file(in, &m.file) && collect_file(work, &m.file) == 0;
	} else if (kind == HOTCELL_FILES_LIST && type == CELL_LISTED) {
		good = good && get_listed(in, &m.listed);
		if (good)
			on_listed(work, &m.listed);
	} else if (kind == HOTCELL_FILES_GET && type == CELL_DATA) {
		good = good && get_data(in, &m.data);
		if (good)
			on_data(work, &m.data);
	} else if (kind == HOTCELL_FILES_GET && type == CELL_GOT) {
		good = good && get_got(in, &m.got);
		if (good)
			on_got(work, &m.got);
	} else if ((kind == HOTCELL_FILES_PUT || kind == HOTCELL_FILES_REMOVE) &&
		   type == CELL_SERVED) {
		good = good && get_served(in, &m.served);
		if (good)
			on_served(work, &m.served);
	} else {
		good = false;
	}
	return good;
}

void files_on_time(struct hotcell_work *work)
{
	struct err e = { 0 };

	/* Many cells may be before it: the warden tells if it fails. */
	if (!work->cell->made) {
		timer_start(work->engine, &work->timer, PATIENCE_MS);
		return;
	}
	err_set(&work->cell->failure, ERR_GONE, "the cell did not answer");
	e = work->cell->failure;
	cell_kill(work->cell);
	work_fail(work, &e);
}

void files_cancel(struct hotcell_work *work)
{
	struct err e = { 0 };

	err_set(&e, ERR_GONE, "it was cancelled");
	spoil(work, &e);
	if (work->step == WORK_STAGING && work->stage_offset)
		cell_drop_half(work->cell);
	work->stage_at = work->staging.count;
}
