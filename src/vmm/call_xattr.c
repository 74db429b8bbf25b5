/* call_xattr: extended attributes, passed on. Each call comes in three: by path, by path without
 * following a link, by descriptor. */
#include "vmm/call_xattr.h"

#include "base/own.h"
#include "vmm/call_path.h"
#include "vmm/fds.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

enum by { BY_PATH, BY_LINK, BY_FD };

struct target {
	enum by by;
	bool is_made; /* made-up files have none, and can have none */
	int fd;
	struct place place;
	char name[XATTR_NAME_MAX + 1];
};

static int get_file(struct guest *g, enum by by, uint64_t file, struct target *ret)
{
	char target[PATH_SIZE];
	int result;

	ret->by = by;
	if (by == BY_FD) {
		ret->fd = fds_get(file);
		result = ret->fd < 0 ? ret->fd : 0;
		ret->is_made = result == 0 && fds_kind(ret->fd) != FD_PLAIN;
		return result;
	}
	result = path_get(g, (uint64_t)AT_FDCWD, file, &ret->place);
	if (result == 0 && by == BY_PATH && ret->place.is_made &&
		path_follow_made(g, ret->place.path, target, sizeof(target))) {
		memcpy(ret->place.path, target, sizeof(target));
		ret->place.is_made = false;
	}
	ret->is_made = result == 0 && ret->place.is_made;
	return result;
}

static int get_target(struct guest *g, enum by by, uint64_t file, uint64_t name, struct target *ret)
{
	int result = get_file(g, by, file, ret);

	if (result)
		return result;
	result = mem_string(&g->mem, ret->name, name, sizeof(ret->name));
	if (result == -ENAMETOOLONG)
		return -ERANGE;
	return result < 0 ? result : 0;
}

/* Values and lists are at most 64 KiB. */
static char value[XATTR_SIZE_MAX];

static int64_t give(struct guest *g, int64_t length, uint64_t address, uint64_t size)
{
	if (length <= 0 || size == 0)
		return length;
	return mem_write(&g->mem, address, value, (size_t)length) ? -EFAULT : length;
}

static int64_t get(struct guest *g, const uint64_t a[6], enum by by)
{
	struct target t;
	size_t size = a[3] < sizeof(value) ? a[3] : sizeof(value);
	int64_t n = get_target(g, by, a[0], a[1], &t);

	if (n || t.is_made)
		return n ? n : -EOPNOTSUPP;
	if (by == BY_PATH)
		n = getxattr(t.place.path, t.name, value, size);
	else if (by == BY_LINK)
		n = lgetxattr(t.place.path, t.name, value, size);
	else
		n = fgetxattr(t.fd, t.name, value, size);
	return give(g, host_result(n), a[2], a[3]);
}

static int64_t list(struct guest *g, const uint64_t a[6], enum by by)
{
	struct target t;
	size_t size = a[2] < sizeof(value) ? a[2] : sizeof(value);
	int64_t n = get_file(g, by, a[0], &t);

	if (n || t.is_made)
		return n;
	if (by == BY_PATH)
		n = listxattr(t.place.path, value, size);
	else if (by == BY_LINK)
		n = llistxattr(t.place.path, value, size);
	else
		n = flistxattr(t.fd, value, size);
	return give(g, host_result(n), a[1], a[2]);
}

static int64_t set(struct guest *g, const uint64_t a[6], enum by by)
{
	struct target t;
	int64_t n = get_target(g, by, a[0], a[1], &t);

	if (n || t.is_made)
		return n ? n : -EOPNOTSUPP;
	if (a[3] > sizeof(value))
		return -E2BIG;
	if (mem_read(&g->mem, value, a[2], a[3]))
		return -EFAULT;
	if (by == BY_PATH)
		return host_result(setxattr(t.place.path, t.name, value, a[3], (int)a[4]));
	if (by == BY_LINK)
		return host_result(lsetxattr(t.place.path, t.name, value, a[3], (int)a[4]));
	return host_result(fsetxattr(t.fd, t.name, value, a[3], (int)a[4]));
}

static int64_t take_away(struct guest *g, const uint64_t a[6], enum by by)
{
	struct target t;
	int64_t n = get_target(g, by, a[0], a[1], &t);

	if (n || t.is_made)
		return n ? n : -EOPNOTSUPP;
	if (by == BY_PATH)
		return host_result(removexattr(t.place.path, t.name));
	if (by == BY_LINK)
		return host_result(lremovexattr(t.place.path, t.name));
	return host_result(fremovexattr(t.fd, t.name));
}

int64_t call_getxattr(struct guest *g, const uint64_t a[6])
{
	return get(g, a, BY_PATH);
}

int64_t call_lgetxattr(struct guest *g, const uint64_t a[6])
{
	return get(g, a, BY_LINK);
}

int64_t call_fgetxattr(struct guest *g, const uint64_t a[6])
{
	return get(g, a, BY_FD);
}

int64_t call_setxattr(struct guest *g, const uint64_t a[6])
{
	return set(g, a, BY_PATH);
}

int64_t call_lsetxattr(struct guest *g, const uint64_t a[6])
{
	return set(g, a, BY_LINK);
}

int64_t call_fsetxattr(struct guest *g, const uint64_t a[6])
{
	return set(g, a, BY_FD);
}

int64_t call_listxattr(struct guest *g, const uint64_t a[6])
{
	return list(g, a, BY_PATH);
}

int64_t call_llistxattr(struct guest *g, const uint64_t a[6])
{
	return list(g, a, BY_LINK);
}

int64_t call_flistxattr(struct guest *g, const uint64_t a[6])
{
	return list(g, a, BY_FD);
}

int64_t call_removexattr(struct guest *g, const uint64_t a[6])
{
	return take_away(g, a, BY_PATH);
}

int64_t call_lremovexattr(struct guest *g, const uint64_t a[6])
{
	return take_away(g, a, BY_LINK);
}

int64_t call_fremovexattr(struct guest *g, const uint64_t a[6])
{
	return take_away(g, a, BY_FD);
}
