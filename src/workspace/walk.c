#include "workspace/walk.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>

enum { REMOVE_DEPTH = 64 };

/* The directories that are open on the way down, and the path that they spell. */
struct level {
	DIR *dir;
	size_t path_len;
};

struct walker {
	const struct walk_options *options;
	struct level *levels;
	size_t depth;
	size_t seen;
	bool complete;
	char path[PATH_MAX_BYTES + 1];
};

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* By descriptor: chmod() by name would follow a symlink that took its place. */
void walk_open_up(int dir_fd, const char *name)
{
	auto_close int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && fd_chmod_handle(fd, 0700))
		return; /* then it stays, and is tried again by the next sweep */
}

static int push(struct walker *w, int dir_fd, const char *name, size_t path_len)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir_fd, name, flags);
	DIR *dir;

	if (w->options->open_up && (fd < 0 || faccessat(fd, ".", X_OK, AT_EACCESS))) {
		own_close(&fd);
		walk_open_up(dir_fd, name);
		fd = openat(dir_fd, name, flags);
	}
	dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	w->levels[w->depth++] = (struct level){ .dir = dir, .path_len = path_len };
	return 0;
}

/* Appends "/name" to the path of the present level. 0 if it would be too long. */
static size_t spell(struct walker *w, const char *name)
{
	size_t at = w->levels[w->depth - 1].path_len;
	size_t len = strlen(name);

	if (at + len + 2 > sizeof(w->path))
		return 0;
	if (at)
		w->path[at++] = '/';
	memcpy(w->path + at, name, len + 1);
	return at + len;
}

static int step(struct walker *w)
{
	struct level *level = &w->levels[w->depth - 1];
	struct dirent *entry = readdir(level->dir);
	struct stat status;
	size_t len;
	int stop;

	if (!entry) {
		closedir(level->dir);
		w->depth--;
		return 0;
	}
	if (is_dot(entry->d_name))
		return 0;
	len = spell(w, entry->d_name);
	if (w->seen >= w->options->entries_max || len == 0) {
		w->complete = false;
		return 0;
	}
	w->seen++;
	if (fstatat(dirfd(level->dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
		return 0; /* it was removed meanwhile */
	stop = w->options->on_entry(w->options->context, w->path, &status);
	if (stop)
		return stop;
	if (!S_ISDIR(status.st_mode))
		return 0;
	if (w->depth >= w->options->depth_max || push(w, dirfd(level->dir), entry->d_name, len))
		w->complete = false;
	return 0;
}

int walk(int top_fd, const struct walk_options *options, bool *ret_complete)
{
	struct walker w = { .options = options, .complete = true };
	int stop = 0;

	w.levels = xalloc(options->depth_max * sizeof(*w.levels));
	if (push(&w, top_fd, ".", 0))
		stop = -1;
	while (w.depth && stop == 0)
		stop = step(&w);
	while (w.depth)
		closedir(w.levels[--w.depth].dir);
	free(w.levels);
	*ret_complete = w.complete;
	return stop;
}

/* Gives it a name at the top that nothing has yet: what is there may have such names too. */
static bool move_up(int top_fd, int dir_fd, const char *from, unsigned *counter)
{
	for (int tries = 0; tries < 10000; tries++) {
		char name[64];

		snprintf(name, sizeof(name), ".hotcell-remove-%u", (*counter)++);
		if (renameat2(dir_fd, from, top_fd, name, RENAME_NOREPLACE) == 0)
			return true;
		if (errno != EEXIST)
			return false;
	}
	return false;
}

struct remover {
	int top_fd;
	unsigned counter; /* of names at the top */
	size_t left;      /* so many may still be removed */
};

static bool remove_name(struct remover *r, int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) && unlinkat(dir_fd, name, AT_REMOVEDIR))
		return false;
	r->left--;
	return true;
}

/* Empties a directory. What lies deeper than a few levels is moved up to the top, where it is found
 * in a later round: so depth costs neither stack nor descriptors. True if anything was removed. */
static bool empty(struct remover *r, int dir_fd, unsigned depth)
{
	DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;
	bool any = false;

	while (dir && r->left && (entry = readdir(dir))) {
		auto_close int sub = -1;

		if (is_dot(entry->d_name))
			continue;
		if (remove_name(r, dir_fd, entry->d_name)) {
			any = true;
			continue;
		}
		walk_open_up(dir_fd, entry->d_name);
		sub = openat(
			dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0)
			continue;
		if (depth == REMOVE_DEPTH) {
			any |= move_up(r->top_fd, dir_fd, entry->d_name, &r->counter);
			continue;
		}
		any |= empty(r, sub, depth + 1);
		any |= r->left && remove_name(r, dir_fd, entry->d_name);
	}
	if (dir)
		closedir(dir);
	return any;
}

static bool is_empty(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		own_close(&fd);
		return false;
	}
	while ((entry = readdir(dir)) && is_dot(entry->d_name))
		;
	closedir(dir);
	return !entry;
}

bool walk_remove_some(int top_fd, size_t names_max)
{
	struct remover r = { .top_fd = top_fd, .left = names_max };

	while (r.left && empty(&r, top_fd, 0))
		;
	return is_empty(top_fd);
}

void walk_remove_all(int top_fd)
{
	walk_remove_some(top_fd, SIZE_MAX);
}
