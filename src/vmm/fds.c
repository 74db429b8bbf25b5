#include "vmm/fds.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/call_poll.h"

#include <fcntl.h>
#include <stdio.h>

struct about {
	char *name; /* NULL = not known */
	uint8_t kind;
	uint8_t access;
	uint8_t row;
	uint8_t origin;
	bool is_semaphore;
	uint32_t object;
};

static struct about table[VMM_GUEST_FDS];

int fds_get(uint64_t argument)
{
	return (uint32_t)argument < VMM_GUEST_FDS ? (int)(uint32_t)argument : -EBADF;
}

int fds_get_directory(uint64_t argument)
{
	return (int32_t)argument == AT_FDCWD ? AT_FDCWD : fds_get(argument);
}

bool fds_in_limit(const struct guest *g, uint64_t number)
{
	return number < VMM_GUEST_FDS && number < g->open_files;
}

int fds_new(const struct guest *g, int fd)
{
	if (fd < 0)
		return -errno;
	if (!fds_in_limit(g, (uint64_t)fd)) {
		close(fd);
		return -EMFILE;
	}
	fds_forget(fd);
	return fd;
}

void fds_copy(int from, int to)
{
	const char *name = table[from].name;

	if (from == to)
		return;
	fds_forget(to);
	table[to] = table[from];
	table[to].name = name ? xstrdup(name) : NULL;
}

void fds_forget(int fd)
{
	free(table[fd].name);
	table[fd] = (struct about){ 0 };
	epoll_forget(fd);
}

void fds_close_on_exec(void)
{
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && flags & FD_CLOEXEC) {
			fds_forget(fd);
			close(fd);
		}
	}
}

const char *fds_name(int fd)
{
	return table[fd].name ? table[fd].name : "";
}

void fds_set_name(int fd, const char *name)
{
	free(table[fd].name);
	table[fd].name = *name ? xstrdup(name) : NULL;
}

enum fd_kind fds_kind(int fd)
{
	return fd >= 0 && fd < VMM_GUEST_FDS ? table[fd].kind : FD_PLAIN;
}

int special_kind(int fd)
{
	return (int)fds_kind(fd);
}

int fds_access(int fd)
{
	return table[fd].access;
}

int fds_row(int fd)
{
	return table[fd].row;
}

void fds_set_kind(int fd, enum fd_kind kind, int access, int row)
{
	table[fd].kind = (uint8_t)kind;
	table[fd].access = (uint8_t)(access & O_ACCMODE);
	table[fd].row = (uint8_t)row;
}

uint32_t fds_new_object(void)
{
	static uint32_t last;

	return ++last;
}

void fds_set_origin(int fd, enum fd_origin origin, uint32_t object, bool is_semaphore)
{
	table[fd].origin = (uint8_t)origin;
	table[fd].object = object;
	table[fd].is_semaphore = is_semaphore;
}

enum fd_origin fds_origin(int fd)
{
	return table[fd].origin;
}

uint32_t fds_object(int fd)
{
	return table[fd].object;
}

bool fds_is_semaphore(int fd)
{
	return table[fd].is_semaphore;
}

/* ---- vfork ---- */

struct fds_kept {
	struct about table[VMM_GUEST_FDS];
	struct epoll_kept *epolls;
};

struct fds_kept *fds_keep(void)
{
	struct fds_kept *kept = xalloc(sizeof(*kept));

	for (int fd = 0; fd < VMM_GUEST_FDS; fd++) {
		kept->table[fd] = table[fd];
		if (table[fd].name)
			kept->table[fd].name = xstrdup(table[fd].name);
	}
	kept->epolls = epoll_keep();
	return kept;
}

void fds_restore(struct fds_kept *kept)
{
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++) {
		free(table[fd].name);
		table[fd] = kept->table[fd];
	}
	epoll_restore(kept->epolls);
	free(kept);
}

/* ---- execve in another VMM ---- */

size_t special_save(char *ret, size_t size)
{
	size_t len = 0;

	if (size == 0)
		return 0;
	ret[0] = '\0';
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++) {
		const struct about *about = &table[fd];
		int flags = about->kind ? fcntl(fd, F_GETFD) : -1;
		int added;

		if (flags < 0 || flags & FD_CLOEXEC)
			continue;
		added = snprintf(ret + len, size - len, "%d:%d.%d.%d,", fd, about->kind,
			about->access, about->row);
		if ((size_t)added >= size - len) {
			ret[len] = '\0';
			break;
		}
		len += (size_t)added;
	}
	return len;
}

void special_load(const char *text)
{
	int fd;
	int kind;
	int access;
	int row;
	int used = 0;

	while (sscanf(text, "%d:%d.%d.%d,%n", &fd, &kind, &access, &row, &used) == 4 && used) {
		if (fds_get((uint64_t)fd) >= 0 && kind > FD_PLAIN && kind <= FD_DIRECTORY)
			fds_set_kind(fd, (enum fd_kind)kind, access, row);
		text += used;
		used = 0;
	}
}
