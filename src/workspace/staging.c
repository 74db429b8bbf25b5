#include "workspace/staging.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"
#include "workspace/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

static struct stage_item *add(struct staging *s, const char *path, struct err *e)
{
	if (s->count == STAGING_ITEMS_MAX) {
		err_set(e, ERR_LIMIT, "more than %d files", STAGING_ITEMS_MAX);
		return NULL;
	}
	if (path_check_relative(path, strlen(path), e)) {
		err_wrap(e, "'%s'", path);
		return NULL;
	}
	if (s->count == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 8;
		s->items = xgrow(s->items, s->cap * sizeof(*s->items));
	}
	s->items[s->count] = (struct stage_item){ .path = xstrdup(path), .mode = 0644 };
	return &s->items[s->count++];
}

bool staging_has(const struct staging *s, const char *path)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].kind == FILE_REGULAR && strcmp(s->items[i].path, path) == 0)
			return true;
	return false;
}

int staging_add_data(
	struct staging *s, const char *path, const void *data, size_t len, struct err *e)
{
	struct stage_item *item = add(s, path, e);

	if (!item)
		return -1;
	item->kind = FILE_REGULAR;
	item->data = data;
	item->data_len = len;
	return 0;
}

int staging_add_code(
	struct staging *s, const char *path, const void *data, size_t len, struct err *e)
{
	if (staging_add_data(s, path, data, len, e))
		return -1;
	s->items[s->count - 1].is_code = true;
	return 0;
}

int staging_add_empty(
	struct staging *s, const char *path, enum file_kind kind, unsigned mode, struct err *e)
{
	struct stage_item *item = add(s, path, e);

	if (!item)
		return -1;
	item->kind = kind;
	item->mode = mode;
	return 0;
}

int staging_add_link(struct staging *s, const char *path, const char *target, struct err *e)
{
	struct stage_item *item;

	if (!*target || strlen(target) > PATH_MAX_BYTES)
		return err_set(e, ERR_INPUT,
			"symlink '%s' leads nowhere, or its target is too long", path);
	item = add(s, path, e);
	if (!item)
		return -1;
	item->kind = FILE_SYMLINK;
	item->target = xstrdup(target);
	return 0;
}

void staging_fill(struct stage_item *item, char *data, size_t len)
{
	free(item->owned);
	item->data = item->owned = data;
	item->data_len = len;
}

/* Does `target`, read from the link at `path` (relative to the top), stay beneath the top? */
static bool stays_inside(const char *path, const char *target)
{
	auto_free char *copy = xstrdup(target);
	char *save;
	int depth = 0;

	if (target[0] == '/')
		return false;
	for (const char *p = path; *p; p++)
		depth += *p == '/';
	for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
		if (strcmp(name, "..") == 0)
			depth--;
		else if (strcmp(name, ".") != 0)
			depth++;
		if (depth < 0)
			return false;
	}
	return true;
}

struct adding {
	struct staging *staging;
	int host_fd;
	const char *host_top;
	const char *top;
	struct err *e;
};

/* By way of other links, which the count of names does not see. A link to nothing leads nowhere. */
static bool leads_out(int top_fd, const char *below)
{
	auto_close int fd = path_open_beneath(top_fd, below, O_PATH, 0, false);

	return fd < 0 && (errno == EXDEV || errno == ELOOP);
}

static int add_link(struct adding *a, struct stage_item *item, const char *below)
{
	char target[PATH_MAX_BYTES + 1];
	ssize_t len = readlink(item->host_path, target, sizeof(target) - 1);

	if (len < 0)
		return err_sys(a->e, "read link '%s'", item->host_path);
	target[len] = '\0';
	if (!stays_inside(below, target) || leads_out(a->host_fd, below))
		return err_set(a->e, ERR_INPUT, "symlink '%s' leads out of '%s', to '%s'",
			item->host_path, a->host_top, target);
	item->kind = FILE_SYMLINK;
	item->target = xstrdup(target);
	return 0;
}

static int add_entry(void *context, const char *below, const struct stat *status)
{
	struct adding *a = context;
	auto_free char *path = path_join(a->top, below);
	struct stage_item *item = add(a->staging, path, a->e);

	if (!item)
		return -1;
	item->host_path = path_join(a->host_top, below);
	item->mode = status->st_mode & 0777;
	if (S_ISDIR(status->st_mode)) {
		item->kind = FILE_DIRECTORY;
		item->mode |= 0700;
	} else if (S_ISREG(status->st_mode)) {
		item->kind = FILE_REGULAR;
	} else if (S_ISLNK(status->st_mode)) {
		return add_link(a, item, below);
	} else {
		return err_set(a->e, ERR_INPUT, "'%s' is not a file or directory", item->host_path);
	}
	return 0;
}

static int add_directory(
	struct staging *s, int fd, const char *host_path, const char *path, struct err *e)
{
	struct adding a = {
		.staging = s, .host_fd = fd, .host_top = host_path, .top = path, .e = e
	};
	struct walk_options options = {
		.entries_max = STAGING_ITEMS_MAX + 1,
		.depth_max = PATH_MAX_DEPTH,
		.on_entry = add_entry,
		.context = &a,
	};
	struct stage_item *item = add(s, path, e);
	bool complete = true;

	if (!item)
		return -1;
	item->kind = FILE_DIRECTORY;
	item->mode = 0755;
	e->kind = ERR_NONE;
	if (walk(fd, &options, &complete))
		return e->kind ? -1 : err_sys(e, "read '%s'", host_path);
	return complete ? 0 : err_set(e, ERR_LIMIT, "'%s' is too large or too deep", host_path);
}

int staging_add_host(struct staging *s, const char *host_path, const char *path, struct err *e)
{
	auto_close int fd = open(host_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stage_item *item;
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return err_sys(e, "open '%s'", host_path);
	if (S_ISDIR(status.st_mode))
		return add_directory(s, fd, host_path, path, e);
	if (!S_ISREG(status.st_mode))
		return err_set(e, ERR_INPUT, "'%s' is not a file or directory", host_path);
	item = add(s, path, e);
	if (!item)
		return -1;
	item->kind = FILE_REGULAR;
	item->mode = status.st_mode & 0777;
	item->host_path = xstrdup(host_path);
	return 0;
}

void staging_free(struct staging *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->items[i].path);
		free(s->items[i].host_path);
		free(s->items[i].target);
		free(s->items[i].owned);
	}
	free(s->items);
	*s = (struct staging){ 0 };
}
