#include "service/mirror.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/map.h"
#include "base/nameless.h"
#include "base/own.h"
#include "base/path.h"
#include "wire/limits.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

/* What is removed at once; more would keep the loop from serving others. */
enum { REMOVED_AT_ONCE_MAX = 100 };

struct entry {
	char *path;
	bool is_directory;
	bool generated;
	bool is_executable;
	uint64_t size_bytes;
	size_t children; /* of a directory */
	char *target;    /* of a symlink, which is only here; or NULL */
};

struct mirror {
	char *path;
	char *name;
	char *new_name; /* beside it: what gets its true name next */
	int above_fd;   /* of the directory of all mirrors */
	int fd;
	uint64_t max_bytes;
	uint64_t bytes;
	struct map entries;
};

const char *mirror_path(const struct mirror *m)
{
	return m->path;
}

/* ---- beginning and end ---- */

static int make(struct mirror *m, const char *dir, struct err *e)
{
	path_make_private(dir);
	m->above_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->above_fd < 0)
		return err_sys(e, "open the directory of sessions");
	if (mkdirat(m->above_fd, m->name, 0700))
		return err_sys(e, "make a directory for a session");
	m->fd = openat(m->above_fd, m->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return m->fd < 0 ? err_sys(e, "open the directory of a session") : 0;
}

size_t mirror_entries_max(uint64_t max_bytes)
{
	uint64_t room = limits_inodes(max_bytes) - MIRROR_ENTRIES_SPARE;

	return room < MIRROR_ENTRIES_MAX ? (size_t)room : MIRROR_ENTRIES_MAX;
}

int mirror_open(
	const char *dir, const char *name, uint64_t max_bytes, struct mirror **ret, struct err *e)
{
	struct mirror *m = xalloc(sizeof(*m));

	m->above_fd = m->fd = -1;
	m->path = path_join(dir, name);
	m->name = xstrdup(name);
	m->new_name = xasprintf("%s.new", name);
	m->max_bytes = max_bytes;
	if (make(m, dir, e)) {
		mirror_close(m);
		return -1;
	}
	*ret = m;
	return 0;
}

static void entry_free(struct entry *entry)
{
	free(entry->path);
	free(entry->target);
	free(entry);
}

void mirror_close(struct mirror *m)
{
	struct entry *entry;
	size_t at = 0;

	if (!m)
		return;
	if (m->fd >= 0) {
		walk_remove_all(m->fd);
		unlinkat(m->above_fd, m->name, AT_REMOVEDIR);
	}
	while ((entry = map_next(&m->entries, &at)))
		entry_free(entry);
	map_free(&m->entries);
	own_close(&m->fd);
	own_close(&m->above_fd);
	free(m->path);
	free(m->name);
	free(m->new_name);
	free(m);
}

struct removal {
	uv_work_t work;
	struct mirror *mirror;
};

static void remove_it(uv_work_t *work)
{
	mirror_close(container_of(work, struct removal, work)->mirror);
}

static void on_removed(uv_work_t *work, int status)
{
	(void)status;
	free(container_of(work, struct removal, work));
}

void mirror_drop(struct mirror *m, uv_loop_t *loop)
{
	struct removal *removal;

	if (!m || m->entries.count <= REMOVED_AT_ONCE_MAX) {
		mirror_close(m);
		return;
	}
	removal = xalloc(sizeof(*removal));
	removal->mirror = m;
	uv_queue_work(loop, &removal->work, remove_it, on_removed);
}

void mirror_sweep(const char *dir)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		walk_remove_all(fd);
}

/* ---- what is in it ---- */

static struct entry *find(const struct mirror *m, const char *path)
{
	return map_get(&m->entries, path);
}

/* NULL: it is the top. */
static struct entry *find_parent(const struct mirror *m, const char *path)
{
	auto_free char *above = xstrdup(path);
	char *slash = strrchr(above, '/');

	if (!slash)
		return NULL;
	*slash = '\0';
	return find(m, above);
}

static struct entry *add(struct mirror *m, const char *path)
{
	struct entry *entry = xalloc(sizeof(*entry));
	struct entry *parent = find_parent(m, path);

	entry->path = xstrdup(path);
	map_put(&m->entries, path, entry);
	if (parent)
		parent->children++;
	return entry;
}

static void forget(struct mirror *m, struct entry *entry)
{
	struct entry *parent = find_parent(m, entry->path);

	if (parent)
		parent->children--;
	m->bytes -= entry->size_bytes;
	map_remove(&m->entries, entry->path);
	entry_free(entry);
}

bool mirror_is_empty(const struct mirror *m, const char *path)
{
	const struct entry *entry = find(m, path);

	return entry && entry->is_directory && entry->children == 0;
}

static bool is_full(const struct mirror *m)
{
	return m->entries.count >= mirror_entries_max(m->max_bytes);
}

static int tell_full(const struct mirror *m, struct err *e)
{
	return err_set(e, ERR_LIMIT, "the session may have %zu files and directories at most",
		mirror_entries_max(m->max_bytes));
}

/* The directory that `path` is in. */
static int open_parent(const struct mirror *m, const char *path, struct err *e)
{
	auto_free char *above = xstrdup(path);
	char *slash = strrchr(above, '/');
	int fd;

	if (slash)
		*slash = '\0';
	fd = path_open_beneath(m->fd, slash ? above : ".", O_RDONLY | O_DIRECTORY, 0, true);
	return fd < 0 ? err_sys(e, "open the directory of '%s'", path) : fd;
}

static int make_one_dir(struct mirror *m, const char *path, bool generated, struct err *e)
{
	struct entry *entry = find(m, path);
	auto_close int parent = -1;

	if (entry)
		return entry->is_directory ? 0 :
					     err_set(e, ERR_INPUT, "'%s' is not a directory", path);
	if (is_full(m))
		return tell_full(m, e);
	parent = open_parent(m, path, e);
	if (parent < 0)
		return -1;
	if (mkdirat(parent, path_base(path), 0700))
		return err_sys(e, "create directory '%s'", path);
	entry = add(m, path);
	entry->is_directory = true;
	entry->generated = generated;
	return 0;
}

static int make_parents(struct mirror *m, const char *path, bool generated, struct err *e)
{
	auto_free char *above = xstrdup(path);

	for (char *slash = strchr(above, '/'); slash; slash = strchr(slash + 1, '/')) {
		int failed;

		*slash = '\0';
		failed = make_one_dir(m, above, generated, e);
		*slash = '/';
		if (failed)
			return -1;
	}
	return 0;
}

int mirror_make_dir(struct mirror *m, const char *path, bool generated, struct err *e)
{
	if (path_check_relative(path, strlen(path), e) || make_parents(m, path, generated, e))
		return -1;
	return make_one_dir(m, path, generated, e);
}

/* ---- putting ---- */

int mirror_open_blob(struct mirror *m, struct err *e)
{
	int fd = nameless_open(m->above_fd, m->new_name);

	return fd < 0 ? err_sys(e, "make a file for a session") : fd;
}

/* A first name, which nobody can have chosen. */
static int give_new_name(const struct mirror *m, int fd)
{
	auto_close int copy = -1;
	struct stat status;
	char self[32];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	unlinkat(m->above_fd, m->new_name, 0);
	if (linkat(AT_FDCWD, self, m->above_fd, m->new_name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	copy = openat(m->above_fd, m->new_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (copy < 0 || nameless_copy(fd, copy) || fstat(fd, &status))
		return -1;
	return fchmod(copy, status.st_mode & 0777);
}

static int name_it(const struct mirror *m, const char *path, int fd, struct err *e)
{
	auto_close int parent = open_parent(m, path, e);
	int saved;

	if (parent < 0)
		return -1;
	if (give_new_name(m, fd) == 0 &&
		renameat(m->above_fd, m->new_name, parent, path_base(path)) == 0)
		return 0;
	saved = errno;
	unlinkat(m->above_fd, m->new_name, 0);
	errno = saved;
	return err_sys(e, "write '%s'", path);
}

static int check_room(const struct mirror *m, const struct entry *old, uint64_t size, struct err *e)
{
	uint64_t others = m->bytes - (old ? old->size_bytes : 0);

	if (size > m->max_bytes || others > m->max_bytes - size)
		return err_set(e, ERR_LIMIT, "the session's files may have %llu bytes at most",
			(unsigned long long)m->max_bytes);
	return 0;
}

int mirror_put(struct mirror *m, const char *path, int fd, bool generated, struct err *e)
{
	auto_close int bytes = fd;
	struct entry *entry = find(m, path);
	struct stat status;

	if (path_check_relative(path, strlen(path), e))
		return -1;
	if (entry && entry->is_directory)
		return err_set(e, ERR_INPUT, "'%s' is a directory", path);
	if (fstat(bytes, &status))
		return err_sys(e, "look at '%s'", path);
	if (!S_ISREG(status.st_mode))
		return err_set(e, ERR_INPUT, "'%s' is not a regular file", path);
	if (check_room(m, entry, (uint64_t)status.st_size, e) ||
		make_parents(m, path, generated, e))
		return -1;
	if (!entry && is_full(m)) /* now that the directories above it are counted */
		return tell_full(m, e);
	if (name_it(m, path, bytes, e))
		return -1;
	if (!entry)
		entry = add(m, path);
	m->bytes += (uint64_t)status.st_size - entry->size_bytes;
	entry->size_bytes = (uint64_t)status.st_size;
	entry->generated = generated;
	entry->is_executable = status.st_mode & S_IXUSR;
	free(take_ptr(&entry->target));
	return 0;
}

int mirror_put_data(struct mirror *m, const char *path, const void *data, size_t len, struct err *e)
{
	auto_close int fd = mirror_open_blob(m, e);

	if (fd < 0)
		return -1;
	if (fd_write_all(fd, data, len))
		return err_sys(e, "write '%s'", path);
	return mirror_put(m, path, take_fd(&fd), false, e);
}

int mirror_put_link(
	struct mirror *m, const char *path, const char *target, bool generated, struct err *e)
{
	struct entry *entry = find(m, path);

	if (path_check_relative(path, strlen(path), e))
		return -1;
	if (entry && entry->is_directory)
		return err_set(e, ERR_INPUT, "'%s' is a directory", path);
	if (entry && mirror_remove(m, path, e))
		return -1;
	if (make_parents(m, path, generated, e))
		return -1;
	if (is_full(m))
		return tell_full(m, e);
	entry = add(m, path);
	entry->target = xstrdup(target);
	entry->generated = generated;
	return 0;
}

void mirror_make_way(struct mirror *m, const char *path, bool for_directory)
{
	const struct entry *entry = find(m, path);
	struct err ignored;

	if (entry && entry->is_directory != for_directory)
		mirror_remove(m, path, &ignored);
}

/* ---- getting, removing, listing ---- */

static int tell_missing(const char *path, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "there is no file '%s'", path);
}

int mirror_get(struct mirror *m, const char *path, uint64_t *ret_size, struct err *e)
{
	const struct entry *entry = find(m, path);
	int fd;

	if (!entry)
		return tell_missing(path, e);
	if (entry->is_directory || entry->target)
		return err_set(e, ERR_INPUT, "'%s' is not a regular file", path);
	fd = path_open_beneath(m->fd, path, O_RDONLY, 0, true);
	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	*ret_size = entry->size_bytes;
	return fd;
}

static bool is_beneath(const char *path, const char *top)
{
	size_t len = strlen(top);

	return strncmp(path, top, len) == 0 && path[len] == '/';
}

static void forget_beneath(struct mirror *m, const char *top)
{
	struct entry **found = xalloc((m->entries.count + 1) * sizeof(struct entry *));
	struct entry *entry;
	size_t count = 0;
	size_t at = 0;

	while ((entry = map_next(&m->entries, &at)))
		if (is_beneath(entry->path, top))
			found[count++] = entry;
	while (count)
		forget(m, found[--count]);
	free(found);
}

static int remove_dir(struct mirror *m, int parent, const struct entry *entry, struct err *e)
{
	const char *path = entry->path;
	auto_close int fd =
		openat(parent, path_base(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	if (entry->children) { /* else, where all are removed one by one, each would look at all others */
		walk_remove_all(fd);
		forget_beneath(m, path);
	}
	return unlinkat(parent, path_base(path), AT_REMOVEDIR) ? err_sys(e, "remove '%s'", path) :
								 0;
}

int mirror_remove(struct mirror *m, const char *path, struct err *e)
{
	struct entry *entry = find(m, path);
	auto_close int parent = -1;

	if (!entry)
		return tell_missing(path, e);
	if (entry->target) {
		forget(m, entry);
		return 0;
	}
	parent = open_parent(m, path, e);
	if (parent < 0)
		return -1;
	if (entry->is_directory && remove_dir(m, parent, entry, e))
		return -1;
	if (!entry->is_directory && unlinkat(parent, path_base(path), 0))
		return err_sys(e, "remove '%s'", path);
	forget(m, entry);
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct mirror_file *)a)->path, ((const struct mirror_file *)b)->path);
}

void mirror_list(const struct mirror *m, struct mirror_file **ret, size_t *ret_count)
{
	struct mirror_file *files = xalloc((m->entries.count + 1) * sizeof(*files));
	const struct entry *entry;
	size_t count = 0;
	size_t at = 0;

	while ((entry = map_next(&m->entries, &at)))
		files[count++] = (struct mirror_file){
			.path = xstrdup(entry->path),
			.is_directory = entry->is_directory,
			.generated = entry->generated,
			.is_executable = entry->is_executable,
			.size_bytes = entry->size_bytes,
			.target = entry->target ? xstrdup(entry->target) : NULL,
		};
	qsort(files, count, sizeof(*files), by_path);
	*ret = files;
	*ret_count = count;
}

void mirror_files_free(struct mirror_file *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(files[i].path);
		free(files[i].target);
	}
	free(files);
}
