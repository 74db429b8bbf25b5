/* What comes out of a cell: output as it comes, generated files afterwards. All of it is hostile:
 * sizes are bounded here, names were checked when the frame was decoded. */
#include "engine/work.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES_MAX = 20000, ERRORS_MAX = 4096 };

static const char *const kind_names[] = {
	[FILE_REGULAR] = "file",
	[FILE_DIRECTORY] = "directory",
	[FILE_SYMLINK] = "symlink",
	[FILE_OTHER] = "other",
};

/* What was collected so far, and from then on all that comes. A descriptor that takes no more is left alone. */
static void overflow(
	struct hotcell_work *work, const struct collected *out, const struct msg_output *m)
{
	if (!work->has_overflown) {
		work->has_overflown = true;
		work->overflow_fd = work->request.open_overflow(work->request.context);
		for (int i = 0; work->overflow_fd >= 0 && i < 2; i++)
			if (fd_write_all(work->overflow_fd, out[i].bytes.data, out[i].bytes.len))
				work->overflow_fd = -1;
	}
	if (work->overflow_fd >= 0 && fd_write_all(work->overflow_fd, m->data, m->data_len))
		work->overflow_fd = -1;
}

void collect_output(struct hotcell_work *work, const struct msg_output *m)
{
	bool compiling = work->step == WORK_COMPILING;
	struct collected *c = &work->out[compiling][m->stream == STREAM_STDERR];
	size_t room = work->max_output > c->bytes.len ? work->max_output - c->bytes.len : 0;
	size_t take = m->data_len < room ? m->data_len : room;

	if (work->request.open_overflow && !compiling &&
		(take < m->data_len || work->has_overflown))
		overflow(work, work->out[0], m);
	buf_add(&c->bytes, m->data, take);
	c->truncated |= take < m->data_len;
	if (!work->request.on_output)
		return;
	work->has_streamed = true;
	work->request.on_output(work->request.context,
		m->stream == STREAM_STDERR ? HOTCELL_STDERR : HOTCELL_STDOUT, compiling,
		(const char *)m->data, m->data_len);
}

int collect_file(struct hotcell_work *work, const struct msg_file *m)
{
	struct hotcell_result *r = work->result;

	if (r->files_count == FILES_MAX)
		return -1;
	if (!m->generated && !work->is_for_files)
		return 0;
	/* Grown by doubling: whenever the count is a power of two. */
	if ((r->files_count & (r->files_count - 1)) == 0)
		r->files = xgrow(r->files, (r->files_count * 2 + 1) * sizeof(*r->files));
	r->files[r->files_count++] = (struct hotcell_file){
		.path = xstrdup(m->path),
		.kind = kind_names[m->kind],
		.mode = m->mode & 0777,
		.target = m->kind == FILE_SYMLINK ? xstrdup(m->target) : NULL,
		.size_bytes = m->kind == FILE_REGULAR ? m->size_bytes : 0,
		.generated = m->generated,
	};
	return 0;
}

/* ---- copying them out ---- */

static int open_output(struct hotcell_work *work, const char *path, struct err *e)
{
	auto_free char *parent = xstrdup(path);
	auto_close int dir = -1;
	char *slash = strrchr(parent, '/');
	int fd;

	if (path_make_parents(work->out_dir_fd, path, 0755, e))
		return -1;
	if (slash)
		*slash = '\0';
	dir = path_open_beneath(
		work->out_dir_fd, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, true);
	if (dir < 0)
		return err_sys(e, "open the directory of '%s'", path);
	if (unlinkat(dir, path_base(path), 0) && errno != ENOENT)
		return err_sys(e, "replace '%s'", path);
	fd = openat(
		dir, path_base(path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	return fd < 0 ? err_sys(e, "create '%s'", path) : fd;
}

int collect_prepare(struct hotcell_work *work, struct err *e)
{
	const char *path = work->request.output_dir;

	if (!path)
		return 0;
	if (mkdir(path, 0755) && errno != EEXIST)
		return err_sys(e, "create '%s'", path);
	work->out_dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return work->out_dir_fd < 0 ? err_sys(e, "open '%s'", path) : 0;
}

/* Where the file is to go: 1, 0 if it is not wanted, -1 on failure. */
static int open_next(struct hotcell_work *work, const struct hotcell_file *file, struct err *e)
{
	bool is_regular = file->kind == kind_names[FILE_REGULAR];
	int fd = -1;

	work->get_is_lent = work->request.open_file != NULL;
	if (work->get_is_lent)
		fd = work->request.open_file(work->request.context, file);
	if (!is_regular || (work->get_is_lent && fd < 0))
		return 0;
	if (!work->get_is_lent)
		fd = open_output(work, file->path, e);
	work->get_fd = fd;
	work->get_left = file->size_bytes;
	return fd < 0 ? err_wrap(e, "output directory") : 1;
}

bool collect_next(struct hotcell_work *work)
{
	struct hotcell_result *r = work->result;
	struct err e = { 0 };
	int opened = 0;

	if (!work->request.output_dir && !work->request.open_file)
		return false;
	while (work->get_at < r->files_count && opened == 0) {
		opened = open_next(work, &r->files[work->get_at], &e);
		work->get_at += opened == 0;
	}
	if (opened < 0)
		work_fail(work, &e);
	if (opened <= 0)
		return opened < 0;
	put_get(&work->engine->out, &(struct msg_get){ .path = r->files[work->get_at].path });
	/* One small frame after another: there is room, or there is no cell. */
	if (cell_send(work->cell) != 0)
		return false;
	return true;
}

static bool all_zero(const uint8_t *data, size_t len)
{
	return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

int collect_write(int fd, const struct msg_data *m)
{
	off_t end = all_zero(m->data, m->data_len) ? lseek(fd, (off_t)m->data_len, SEEK_CUR) : -1;

	return end < 0 ? fd_write_all(fd, m->data, m->data_len) : ftruncate(fd, end);
}

/* Holes stay holes, so what comes out takes no more room than it took in the cell; and hard links
 * do not multiply it beyond the cell's disk. */
static int write_piece(struct hotcell_work *work, const struct msg_data *m)
{
	if (!all_zero(m->data, m->data_len))
		work->got_bytes += m->data_len;
	if (work->got_bytes <= work->limits.at[LIMIT_DISK_BYTES])
		return collect_write(work->get_fd, m);
	work->result->files[work->get_at].error = EFBIG;
	return 0;
}

int collect_data(struct hotcell_work *work, const struct msg_data *m)
{
	struct hotcell_file *file = &work->result->files[work->get_at];

	/* Nothing of the run is alive that could have made the file larger than it was. */
	if (work->get_fd < 0 || m->data_len > work->get_left)
		return -1;
	work->get_left -= m->data_len;
	if (file->error || write_piece(work, m) == 0)
		return 0;
	/* The rest of it comes nonetheless, and is not for the cell's next work. To whoever gave us the
	 * descriptor, one file that failed is no reason to lose all others. */
	file->error = errno;
	if (!work->get_is_lent)
		err_sys(&work->failure, "write '%s/%s'", work->request.output_dir, file->path);
	return 0;
}

/* Through no link: what stands there may be somebody else's. */
static void remove_output(const struct hotcell_work *work, const char *path)
{
	auto_free char *parent = xstrdup(path);
	auto_close int dir = -1;
	char *slash = strrchr(parent, '/');

	if (slash)
		*slash = '\0';
	dir = path_open_beneath(
		work->out_dir_fd, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, true);
	if (dir >= 0)
		unlinkat(dir, path_base(path), 0);
}

void collect_got(struct hotcell_work *work, uint32_t error)
{
	struct hotcell_file *file = &work->result->files[work->get_at];
	bool is_ours = !work->get_is_lent && work->get_fd >= 0; /* we have made it */

	collect_let_go(work);
	work->get_at++;
	if (error)
		file->error = error < ERRORS_MAX ? (int)error : EIO;
	/* Rather no file than half of one. */
	if (file->error && is_ours && work->out_dir_fd >= 0)
		remove_output(work, file->path);
}

void collect_give_up(struct hotcell_work *work)
{
	struct hotcell_result *r = work->result;
	bool wanted = work->request.output_dir || work->request.open_file;

	if (!work->have_list)
		r->files_incomplete = true;
	while (wanted && work->get_at < r->files_count) {
		if (r->files[work->get_at].kind == kind_names[FILE_REGULAR]) {
			r->files_incomplete = true;
			collect_got(work, EIO);
		} else {
			work->get_at++;
		}
	}
}

void collect_let_go(struct hotcell_work *work)
{
	if (!work->get_is_lent)
		own_close(&work->get_fd);
	work->get_fd = -1;
}
