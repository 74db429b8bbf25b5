/* Files of a run on their way to this machine. Their names come from outside: each is opened beneath the
 * directory, through no symbolic link, and what is there under its name is replaced, not written through. */
#include "cli/cli.h"
#include "cli/remote.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "cli/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct getting {
	int fd;
	uint64_t left;
	const char *path;
};

int remote_files_open_dir(const char *path, int *ret_fd, struct err *e)
{
	int fd;

	if (mkdir(path, 0755) && errno != EEXIST)
		return err_sys(e, "create '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	*ret_fd = fd;
	return 0;
}

/* Its directory, and in it a new file. */
static int open_new(int dir_fd, const char *path, int *ret_parent, int *ret_fd, struct err *e)
{
	auto_free char *parent = xstrdup(path);
	char *slash = strrchr(parent, '/');
	auto_close int dir = -1;

	if (path_check_relative(path, strlen(path), e) || path_make_parents(dir_fd, path, 0755, e))
		return -1;
	if (slash)
		*slash = '\0';
	dir = path_open_beneath(dir_fd, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, true);
	if (dir < 0)
		return err_sys(e, "open the directory of '%s'", path);
	if (unlinkat(dir, path_base(path), 0) && errno != ENOENT)
		return err_sys(e, "replace '%s'", path);
	*ret_fd = openat(
		dir, path_base(path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (*ret_fd < 0)
		return err_sys(e, "create '%s'", path);
	*ret_parent = take_fd(&dir);
	return 0;
}

static int on_bytes(void *context, const char *data, size_t len, struct err *e)
{
	struct getting *g = context;

	if (len > g->left)
		return err_set(e, ERR_LIMIT, "'%s' is larger than it may be", g->path);
	g->left -= len;
	return fd_write_all(g->fd, data, len) ? err_sys(e, "write '%s'", g->path) : 0;
}

int remote_files_get(struct client *c, const struct remote_get *get, struct err *e)
{
	auto_close int parent = -1;
	auto_close int fd = -1;
	struct getting g = { .left = get->most, .path = get->path };
	struct client_request q = {
		.method = "GET", .path = get->from, .on_bytes = on_bytes, .context = &g
	};
	struct client_reply reply;

	if (open_new(get->dir_fd, get->path, &parent, &fd, e))
		return -1;
	g.fd = fd;
	if (client_ask(c, &q, &reply, e) == 0) {
		client_reply_free(&reply);
		return 0;
	}
	/* Rather no file than half of one. */
	unlinkat(parent, path_base(get->path), 0);
	return -1;
}

/* As the shell's > would: people know what it is. Not before there is something to write: what is there is
 * kept if the server has no such file. */
static int open_target(struct getting *g, struct err *e)
{
	if (g->fd < 0)
		g->fd = open(g->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644);
	return g->fd < 0 ? err_sys(e, "open '%s'", g->path) : 0;
}

static int on_bytes_to_save(void *context, const char *data, size_t len, struct err *e)
{
	return open_target(context, e) ? -1 : on_bytes(context, data, len, e);
}

int remote_files_save(struct client *c, const char *from, const char *to, struct err *e)
{
	bool is_ours = !to || strcmp(to, "-") == 0;
	struct getting g = {
		.fd = is_ours ? STDOUT_FILENO : -1,
		.left = UINT64_MAX,
		.path = is_ours ? "standard output" : to,
	};
	struct client_request q = {
		.method = "GET", .path = from, .on_bytes = on_bytes_to_save, .context = &g
	};
	struct client_reply reply = { 0 };
	int failed;

	if (!to && isatty(STDOUT_FILENO))
		return err_set(e, ERR_INPUT,
			"a file is not printed on a terminal: give -o FILE, or '-o -' to have it so");
	failed = client_ask(c, &q, &reply, e);
	if (!failed) {
		client_reply_free(&reply);
		failed = open_target(&g, e);
	}
	if (!is_ours && g.fd >= 0 && close(g.fd) && !failed)
		failed = err_sys(e, "write '%s'", g.path);
	return failed;
}

/* One of a result's files. */
static int fetch_one(struct client *c, json_t *file, int dir_fd, uint64_t *left, struct err *e)
{
	const char *path = json_string_value(json_object_get(file, "path"));
	const char *id = json_string_value(json_object_get(file, "file_id"));
	const char *error = json_string_value(json_object_get(file, "error"));
	json_int_t size = json_integer_value(json_object_get(file, "size_bytes"));
	struct remote_get get = { .dir_fd = dir_fd, .path = path };
	auto_free char *from = NULL;

	if (!path || strlen(path) != json_string_length(json_object_get(file, "path")))
		return err_set(e, ERR_PROTOCOL, "it has no name that a file can have");
	if (!id || !client_is_id(id))
		return err_set(e, ERR_SYSTEM, "%s", error ? error : "the server has not kept it");
	if (size < 0 || (uint64_t)size > *left)
		return err_set(e, ERR_LIMIT, "%s", strerror(EFBIG));
	from = xasprintf("/v1/files/%s", id);
	get.from = from;
	get.most = (uint64_t)size;
	*left -= (uint64_t)size;
	return remote_files_get(c, &get, e);
}

int remote_files_fetch(struct client *c, json_t *files, int dir_fd, uint64_t most)
{
	int failed = 0;

	for (size_t i = 0; i < json_array_size(files) && !client_was_interrupted(c); i++) {
		json_t *file = json_array_get(files, i);
		const char *path = json_string_value(json_object_get(file, "path"));
		struct err e = { 0 };

		if (fetch_one(c, file, dir_fd, &most, &e)) {
			auto_free char *name = plain_text(path ? path : "");
			auto_free char *why = plain_text(e.text);

			complain("'%s' could not be copied: %s", name, why);
			failed = -1;
		}
	}
	return failed;
}
