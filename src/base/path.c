#include "base/path.h"
#include "base/buf.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int path_check_relative(const char *path, size_t len, struct err *e)
{
	size_t depth = 0;

	if (len == 0)
		return err_set(e, ERR_INPUT, "File path must not be empty.");
	if (memchr(path, '\0', len))
		return err_set(e, ERR_INPUT, "File paths must not contain NUL bytes.");
	if (path[0] == '/')
		return err_set(e, ERR_INPUT, "File paths must be relative.");
	if (len > PATH_MAX_BYTES)
		return err_set(e, ERR_INPUT, "File paths must not be longer than %d bytes.",
			PATH_MAX_BYTES);
	for (size_t at = 0; at <= len;) {
		const char *slash = memchr(path + at, '/', len - at);
		size_t name = slash ? (size_t)(slash - path) - at : len - at;

		if (name == 0)
			return err_set(e, ERR_INPUT, "File paths must not contain empty names.");
		if (name == 2 && path[at] == '.' && path[at + 1] == '.')
			return err_set(e, ERR_INPUT, "File paths must not contain '..'.");
		if (name == 1 && path[at] == '.')
			return err_set(e, ERR_INPUT, "File paths must not contain '.' as a name.");
		if (name > PATH_NAME_MAX)
			return err_set(e, ERR_INPUT,
				"A name in a file path must not be longer than %d bytes.",
				PATH_NAME_MAX);
		if (++depth > PATH_MAX_DEPTH)
			return err_set(e, ERR_INPUT,
				"File paths must not be deeper than %d directories.",
				PATH_MAX_DEPTH);
		at += name + 1;
	}
	return 0;
}

static int open_resolved(int dir_fd, const char *path, const struct open_how *how)
{
	int fd;

	/* EAGAIN: a rename raced with the walk and the kernel could not tell whether we stayed
	 * beneath. Bounded, since whoever renames may be hostile. */
	for (int tries = 0; tries < 64; tries++) {
		fd = (int)syscall(SYS_openat2, dir_fd, path, how, sizeof(*how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			return fd;
	}
	return -1;
}

int path_open_beneath(int dir_fd, const char *path, int flags, unsigned mode, bool no_symlinks)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};

	if (no_symlinks)
		how.resolve |= RESOLVE_NO_SYMLINKS;
	return open_resolved(dir_fd, path, &how);
}

int path_read_link(int dir_fd, const char *path, char ret[static PATH_MAX_BYTES + 1])
{
	auto_close int fd = path_open_beneath(dir_fd, path, O_PATH | O_NOFOLLOW, 0, false);
	ssize_t len = fd < 0 ? -1 : readlinkat(fd, "", ret, PATH_MAX_BYTES);

	if (len < 0)
		return -1;
	ret[len] = '\0';
	return 0;
}

int path_open_in_root(int root_fd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT,
	};

	return open_resolved(root_fd, path, &how);
}

int path_make_parents(int dir_fd, const char *path, unsigned mode, struct err *e)
{
	auto_free char *copy = xstrdup(path);

	for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_close int fd = -1;
		char *up;

		*slash = '\0';
		up = strrchr(copy, '/');
		if (up) {
			*up = '\0';
			fd = path_open_beneath(dir_fd, copy, O_PATH | O_DIRECTORY, 0, true);
			*up = '/';
			if (fd < 0)
				return err_sys(e, "open directory above '%s'", copy);
		}
		if (mkdirat(up ? fd : dir_fd, up ? up + 1 : copy, mode) && errno != EEXIST)
			return err_sys(e, "create directory '%s'", copy);
		*slash = '/';
	}
	return 0;
}

void path_make_private(const char *dir)
{
	auto_free char *copy = xstrdup(dir);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(copy, 0700);
		*slash = '/';
	}
	mkdir(copy, 0700);
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *path_join(const char *dir, const char *name)
{
	return xasprintf("%s/%s", dir, name);
}
