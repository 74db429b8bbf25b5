#include "keeper/files.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

/* REMOVE_NAMES_MAX: so many are removed in a second or two, in which the keeper does nothing else. */
enum { LIST_ENTRIES_MAX = 20000, LIST_DEPTH_MAX = 128, REMOVE_NAMES_MAX = 1 << 20 };

/* What is left to programs: a quarter of the memory, and so much at least. And what is not worth a look. */
enum { SPARE_LEAST = 4 << 20, SMALL = 4096 };

/* The keeper serves one thing at a time: one buffer for all frames that it builds here. */
static struct frame_out frame;

int files_open(struct files *f, const char *workspace, bool is_in_memory, struct err *e)
{
	*f = (struct files){ .put_fd = -1, .is_in_memory = is_in_memory };
	f->workspace_fd = open(workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return f->workspace_fd < 0 ? err_sys(e, "open '%s'", workspace) : 0;
}

void files_close(struct files *f)
{
	own_close(&f->put_fd);
	own_close(&f->workspace_fd);
	free(f->put_path);
	baseline_clear(&f->baseline);
	*f = (struct files){ .put_fd = -1, .workspace_fd = -1 };
}

/* It may be closed to ourselves: a program can do that to all that is its user's. */
static bool empty_tmp(const char *path)
{
	auto_close int handle = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_close int fd = -1;

	if (handle < 0 || fd_chmod_handle(handle, 01777))
		return false;
	fd = fd_open_handle(handle, O_RDONLY | O_DIRECTORY);
	return fd >= 0 && walk_remove_some(fd, REMOVE_NAMES_MAX);
}

int files_clear(struct files *f, const char *tmp, struct err *e)
{
	if (!f->touched)
		return 0;
	own_close(&f->put_fd);
	f->put_fd = -1;
	free(f->put_path);
	f->put_path = NULL;
	baseline_clear(&f->baseline);
	memset(f->code, 0, sizeof(f->code));
	if (fchmod(f->workspace_fd, 0755) || !walk_remove_some(f->workspace_fd, REMOVE_NAMES_MAX) ||
		!empty_tmp(tmp))
		return err_set(e, ERR_SYSTEM, "the cell's files could not be removed");
	f->touched = f->kept = false;
	return 0;
}

/* Files are given an older time than now: clocks of file systems are coarse, and a program that
 * changes a file at once must not leave the same time on it. */
static void age(int fd)
{
	struct timespec times[2];

	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= 2;
	times[1] = times[0];
	futimens(fd, times);
}

int files_put_end(struct files *f, struct err *e)
{
	struct stat status;
	int failed = 0;

	if (f->put_fd < 0)
		return 0;
	age(f->put_fd);
	if (fstat(f->put_fd, &status))
		failed = err_sys(e, "stat '%s'", f->put_path);
	else
		baseline_add(&f->baseline, f->put_path, &status, f->put_hash);
	close(take_fd(&f->put_fd));
	free(f->put_path);
	f->put_path = NULL;
	return failed;
}

/* Directories that are only there to hold a staged file are not new either. */
static void know_parents(struct files *f, const char *path)
{
	auto_free char *copy = xstrdup(path);

	for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		struct stat status;

		*slash = '\0';
		if (!baseline_find(&f->baseline, copy) &&
			fstatat(f->workspace_fd, copy, &status, AT_SYMLINK_NOFOLLOW) == 0)
			baseline_add(&f->baseline, copy, &status, 0);
		*slash = '/';
	}
}

/* The directory in which the last name of `path` stands, below the workspace. */
static int open_parent(struct files *f, const char *path, struct err *e)
{
	auto_free char *parent = xstrdup(path);
	int fd;

	if (path_make_parents(f->workspace_fd, path, 0755, e))
		return -1;
	know_parents(f, path);
	*strrchr(parent, '/') = '\0';
	fd = path_open_beneath(f->workspace_fd, parent, O_RDONLY | O_DIRECTORY, 0, true);
	return fd < 0 ? err_sys(e, "open directory of '%s'", path) : fd;
}

/* Replaces, never writes into what is there: it may be a link to something else. */
static int create(int parent, const char *name, mode_t mode)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	int fd = openat(parent, name, flags, mode);

	if (fd >= 0 || errno != EEXIST || unlinkat(parent, name, 0))
		return fd;
	return openat(parent, name, flags, mode);
}

/* Where the number of the file at `name` is kept, if a run's code was put into it; else NULL. */
static uint64_t *find_code(struct files *f, int parent, const char *name, bool *ret_is_there)
{
	struct stat status;

	*ret_is_there = fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
	if (!*ret_is_there)
		return NULL;
	for (size_t i = 0; i < FILES_CODE_MAX; i++)
		if (f->code[i] == status.st_ino)
			return &f->code[i];
	return NULL;
}

/* Another file may get its number: so that is forgotten, if it is one. False: it is a file that somebody has put or made
 * there. */
static bool forget_code(struct files *f, int parent, const char *name)
{
	bool is_there;
	uint64_t *code = find_code(f, parent, name, &is_there);

	if (code)
		*code = 0;
	return code || !is_there;
}

/* Whether the memory is left for it. Else the kernel would look for somebody to kill, and might find the keeper. */
static bool has_room(const struct files *f, const struct msg_put *m)
{
	const uint64_t quarter = m->memory_bytes / 4;
	const uint64_t spare = quarter > SPARE_LEAST ? quarter : SPARE_LEAST;
	struct statvfs s;

	if (!f->is_in_memory || !m->memory_bytes || m->data_len < SMALL ||
		fstatvfs(f->workspace_fd, &s))
		return true;
	return (s.f_blocks - s.f_bfree) * s.f_frsize + m->data_len + spare <= m->memory_bytes;
}

static int put_new(struct files *f, const struct msg_put *m, struct err *e)
{
	const char *name = path_base(m->path);
	auto_close int below = name == m->path ? -1 : open_parent(f, m->path, e);
	int parent = name == m->path ? f->workspace_fd : below;
	struct stat status;

	if (parent < 0)
		return -1;
	if (m->kind == FILE_DIRECTORY) {
		if (mkdirat(parent, name, m->mode) && errno != EEXIST)
			return err_sys(e, "create directory '%s'", m->path);
		if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(status.st_mode))
			return err_set(
				e, ERR_INPUT, "'%s' is there and is not a directory", m->path);
		baseline_add(&f->baseline, m->path, &status, 0);
		return 0;
	}
	if (m->kind == FILE_SYMLINK) {
		char target[PATH_MAX_BYTES + 1] = { 0 };

		if (m->data_len > PATH_MAX_BYTES)
			return err_set(e, ERR_INPUT, "symlink '%s' is too long", m->path);
		if (unlinkat(parent, name, 0) && errno != ENOENT)
			return err_sys(e, "replace '%s'", m->path);
		memcpy(target, m->data, m->data_len);
		if (symlinkat(target, parent, name) ||
			fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW))
			return err_sys(e, "create symlink '%s'", m->path);
		baseline_add(&f->baseline, m->path, &status,
			baseline_hash(BASELINE_HASH_INIT, target, m->data_len));
		return 0;
	}
	if (m->is_code && !forget_code(f, parent, name))
		return err_set(e, ERR_INPUT,
			"File path '%s' is reserved for the execution entrypoint.", m->path);
	f->put_fd = create(parent, name, m->mode | 0600);
	if (f->put_fd < 0)
		return err_sys(e, "create '%s'", m->path);
	if (m->is_code && fstat(f->put_fd, &status) == 0)
		f->code[f->code_count++ % FILES_CODE_MAX] = status.st_ino;
	f->put_path = xstrdup(m->path);
	f->put_hash = BASELINE_HASH_INIT;
	return 0;
}

void files_drop_half(struct files *f)
{
	auto_free char *path = take_ptr(&f->put_path);
	struct err ignored = { 0 };

	if (f->put_fd < 0)
		return;
	close(take_fd(&f->put_fd));
	files_remove(f, path, false, &ignored);
}

int files_put(struct files *f, const struct msg_put *m, struct err *e)
{
	f->touched = true;
	if (m->append) {
		if (f->put_fd < 0 || strcmp(f->put_path, m->path) != 0)
			return err_set(e, ERR_PROTOCOL, "'%s' was not begun", m->path);
	} else if (files_put_end(f, e) || put_new(f, m, e)) {
		return -1;
	}
	if (m->kind != FILE_REGULAR)
		return 0;
	if (!has_room(f, m)) {
		err_set(e, ERR_LIMIT,
			"'%s': files are part of a cell's memory, and too little is left", m->path);
		files_drop_half(f);
		return -1;
	}
	if (fd_write_all(f->put_fd, m->data, m->data_len)) {
		err_sys(e, "write '%s'", m->path);
		files_drop_half(f);
		return -1;
	}
	f->put_hash = baseline_hash(f->put_hash, m->data, m->data_len);
	return 0;
}

static uint8_t kind_of(mode_t mode)
{
	if (S_ISREG(mode))
		return FILE_REGULAR;
	if (S_ISDIR(mode))
		return FILE_DIRECTORY;
	if (S_ISLNK(mode))
		return FILE_SYMLINK;
	return FILE_OTHER;
}

static int64_t changed_ns(const struct stat *status)
{
	return status->st_ctim.tv_sec * 1000000000LL + status->st_ctim.tv_nsec;
}

static struct told describe(const char *path, const struct stat *status)
{
	return (struct told){
		.path_hash = baseline_hash(BASELINE_HASH_INIT, path, strlen(path)),
		.changed_ns = changed_ns(status),
		.inode = status->st_ino,
		.size = (uint64_t)status->st_size,
	};
}

/* Whether the files of a run before were told with this one among them, as it is now. By a time that programs
 * cannot set back; but its clock has ticks, for some files. */
static bool was_told(const struct files *f, const char *path, const struct stat *status)
{
	struct told now = describe(path, status);

	if (changed_ns(status) < f->since_ns)
		return true;
	for (size_t i = 0; i < f->told_count; i++)
		if (memcmp(&f->told[i], &now, sizeof(now)) == 0)
			return true;
	return false;
}

struct listing {
	struct files *files;
	files_send send;
	void *context;
	bool is_of_run;
	int64_t now_ns; /* when it began */
	struct told told[FILES_TOLD_MAX];
	size_t told_count;
};

static void note_told(struct listing *l, const char *path, const struct stat *status)
{
	if (l->told_count < FILES_TOLD_MAX)
		l->told[l->told_count++] = describe(path, status);
}

static bool is_generated(const struct files *f, const char *path, const struct stat *status)
{
	return !baseline_unchanged(&f->baseline, f->workspace_fd, path, status);
}

static int list_one(void *context, const char *path, const struct stat *status)
{
	struct listing *l = context;
	struct msg_file m = {
		.path = path,
		.kind = kind_of(status->st_mode),
		.generated = !(l->is_of_run && was_told(l->files, path, status)) &&
			     is_generated(l->files, path, status),
		.mode = status->st_mode & 07777,
		.size_bytes = (uint64_t)status->st_size,
	};
	char target[PATH_MAX_BYTES + 1];

	if (l->is_of_run && changed_ns(status) >= l->now_ns)
		note_told(l, path, status);
	if (m.kind == FILE_SYMLINK && path_read_link(l->files->workspace_fd, path, target) == 0)
		m.target = target;
	put_file(&frame, &m);
	return l->send(l->context, &frame);
}

static int is_new(void *context, const char *path, const struct stat *status)
{
	const struct files *f = context;

	return !was_told(f, path, status) && is_generated(f, path, status);
}

bool files_anything_new(struct files *f)
{
	struct walk_options options = {
		.entries_max = LIST_ENTRIES_MAX,
		.depth_max = LIST_DEPTH_MAX,
		.open_up = true,
		.on_entry = is_new,
		.context = f,
	};
	bool complete = false;

	return fchmod(f->workspace_fd, 0755) || walk(f->workspace_fd, &options, &complete) != 0 ||
	       !complete;
}

static int list(struct listing *l)
{
	struct files *f = l->files;
	struct walk_options options = {
		.entries_max = LIST_ENTRIES_MAX,
		.depth_max = LIST_DEPTH_MAX,
		.open_up = true,
		.on_entry = list_one,
		.context = l,
	};
	bool complete = false;
	int stop;

	/* It is the program's, who may have locked itself and us out. */
	if (fchmod(f->workspace_fd, 0755))
		complete = false;
	stop = walk(f->workspace_fd, &options, &complete);
	if (stop > 0)
		return stop;
	if (stop < 0)
		complete = false;
	put_listed(&frame, &(struct msg_listed){ .incomplete = !complete });
	return l->send(l->context, &frame);
}

int files_list(struct files *f, files_send send, void *context)
{
	return list(&(struct listing){ f, send, context, .is_of_run = false });
}

int files_list_run(struct files *f, files_send send, void *context)
{
	struct listing l = { f, send, context, .is_of_run = true };
	struct timespec now;
	int stop;

	/* The clock by which files get their times. */
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	l.now_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
	stop = list(&l);
	memcpy(f->told, l.told, sizeof(l.told));
	f->told_count = l.told_count;
	f->since_ns = l.now_ns;
	return stop;
}

static int send_contents(int fd, files_send send, void *context, int *ret_errno)
{
	static uint8_t piece[FRAME_DATA_MAX];

	for (;;) {
		ssize_t n = read(fd, piece, sizeof(piece));
		int stop;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			*ret_errno = errno;
		if (n <= 0)
			return 0;
		put_data(&frame, CELL_DATA,
			&(struct msg_data){ .data = piece, .data_len = (size_t)n });
		stop = send(context, &frame);
		if (stop)
			return stop;
	}
}

/* Opens for reading, also what the program left unreadable: it is the keeper's own file. */
static int open_for_reading(struct files *f, const char *path)
{
	int fd =
		path_open_beneath(f->workspace_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, true);
	auto_close int handle = -1;
	struct stat status;

	if (fd >= 0 || errno != EACCES)
		return fd;
	handle = path_open_beneath(f->workspace_fd, path, O_PATH | O_NOFOLLOW, 0, true);
	if (handle < 0 || fstat(handle, &status) || !S_ISREG(status.st_mode)) {
		errno = EACCES;
		return -1;
	}
	if (fd_chmod_handle(handle, (status.st_mode & 07777) | 0400))
		return -1;
	fd = fd_open_handle(handle, O_RDONLY | O_NONBLOCK);
	if (fd_chmod_handle(handle, status.st_mode & 07777) && fd >= 0)
		errno = 0; /* it stays readable: no harm */
	return fd;
}

int files_get(struct files *f, const struct msg_get *m, files_send send, void *context)
{
	auto_close int fd = -1;
	struct stat status;
	int failed;
	int stop;

	fd = open_for_reading(f, m->path);
	failed = fd < 0 ? errno : 0;
	/* Asked after opening: what it was before may have been swapped since. */
	if (!failed && fstat(fd, &status))
		failed = errno;
	if (!failed && !S_ISREG(status.st_mode))
		failed = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
	if (!failed && m->max_bytes && (uint64_t)status.st_size > m->max_bytes)
		failed = EFBIG;
	if (!failed) {
		stop = send_contents(fd, send, context, &failed);
		if (stop)
			return stop;
	}
	put_got(&frame, &(struct msg_got){ .error = (uint32_t)failed });
	return send(context, &frame);
}

static int remove_dir(int parent, const char *name)
{
	auto_close int fd = -1;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EACCES)
		return -1;
	walk_open_up(parent, name);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!walk_remove_some(fd, REMOVE_NAMES_MAX)) {
		errno = E2BIG;
		return -1;
	}
	return unlinkat(parent, name, AT_REMOVEDIR);
}

int files_remove(struct files *f, const char *path, bool only_code, struct err *e)
{
	auto_free char *above = xstrdup(path);
	char *slash = strrchr(above, '/');
	const char *name = path_base(path);
	auto_close int parent = -1;

	if (slash)
		*slash = '\0';
	parent = path_open_beneath(
		f->workspace_fd, slash ? above : ".", O_RDONLY | O_DIRECTORY, 0, true);
	if (parent < 0)
		return err_sys(e, "remove '%s'", path);
	if (!forget_code(f, parent, name) && only_code)
		return 0;
	/* Without write permission nothing in it can be removed; it is ours to give. */
	if (faccessat(parent, ".", W_OK | X_OK, AT_EACCESS))
		fchmod(parent, 0755);
	if (unlinkat(parent, name, 0) && (errno != EISDIR || remove_dir(parent, name)))
		return err_sys(e, "remove '%s'", path);
	baseline_forget(&f->baseline, path);
	return 0;
}

void files_rehearse(struct files *f)
{
	static const uint8_t text[] = "print(1)\n";
	const struct msg_put m = {
		.path = ".hotcell-rehearsal",
		.kind = FILE_REGULAR,
		.mode = 0600,
		.data = text,
		.data_len = sizeof(text) - 1,
	};
	struct err ignored = { 0 };

	if (f->baseline.count || f->put_fd >= 0)
		return;
	if (files_put(f, &m, &ignored) == 0 && files_put_end(f, &ignored) == 0)
		files_anything_new(f);
	files_remove(f, m.path, false, &ignored);
}
