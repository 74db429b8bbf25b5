#include "workspace/baseline.h"

#include "base/buf.h"
#include "base/own.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* FNV-1a. Whoever makes two of their own files collide hides a file from themselves only. */
uint64_t baseline_hash(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++) {
		hash ^= p[i];
		hash *= 0x100000001b3ULL;
	}
	return hash;
}

static int64_t nanoseconds(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* The slot of `path`, or the free one where it would go. */
static size_t slot_of(const struct baseline *b, const char *path)
{
	size_t at = baseline_hash(BASELINE_HASH_INIT, path, strlen(path)) & (b->slots_count - 1);

	while (b->slots[at] && strcmp(b->entries[b->slots[at] - 1].path, path) != 0)
		at = (at + 1) & (b->slots_count - 1);
	return at;
}

static struct baseline_entry *find(const struct baseline *b, const char *path)
{
	size_t at;

	if (b->count == 0)
		return NULL;
	at = slot_of(b, path);
	return b->slots[at] ? &b->entries[b->slots[at] - 1] : NULL;
}

static void grow(struct baseline *b)
{
	if (b->count < b->cap)
		return;
	b->cap = b->cap ? b->cap * 2 : 16;
	b->entries = xgrow(b->entries, b->cap * sizeof(*b->entries));
	free(b->slots);
	b->slots_count = b->cap * 4;
	b->slots = xalloc(b->slots_count * sizeof(*b->slots));
	for (size_t i = 0; i < b->count; i++)
		b->slots[slot_of(b, b->entries[i].path)] = (uint32_t)i + 1;
}

const struct baseline_entry *baseline_find(const struct baseline *b, const char *path)
{
	return find(b, path);
}

void baseline_add(
	struct baseline *b, const char *path, const struct stat *status, uint64_t content_hash)
{
	struct baseline_entry *entry = find(b, path);

	if (!entry) {
		grow(b);
		b->slots[slot_of(b, path)] = (uint32_t)b->count + 1;
		entry = &b->entries[b->count++];
		entry->path = xstrdup(path);
	}
	entry->hash = content_hash;
	entry->size = (uint64_t)status->st_size;
	entry->mtime_ns = nanoseconds(&status->st_mtim);
	entry->ctime_ns = nanoseconds(&status->st_ctim);
	entry->inode = status->st_ino;
	entry->type = status->st_mode & S_IFMT;
	entry->is_executable = status->st_mode & S_IXUSR;
}

static int hash_file(int dir_fd, const char *path, uint64_t *ret)
{
	auto_close int fd = path_open_beneath(dir_fd, path, O_RDONLY | O_NONBLOCK, 0, true);
	char piece[16384];
	ssize_t n;

	if (fd < 0)
		return -1;
	*ret = BASELINE_HASH_INIT;
	while ((n = read(fd, piece, sizeof(piece))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		*ret = baseline_hash(*ret, piece, (size_t)n);
	}
	return 0;
}

static int hash_link(int dir_fd, const char *path, uint64_t *ret)
{
	char target[PATH_MAX_BYTES + 1];

	if (path_read_link(dir_fd, path, target))
		return -1;
	*ret = baseline_hash(BASELINE_HASH_INIT, target, strlen(target));
	return 0;
}

bool baseline_unchanged(
	const struct baseline *b, int dir_fd, const char *path, const struct stat *status)
{
	const struct baseline_entry *entry = find(b, path);
	uint64_t hash;

	if (!entry || entry->type != (status->st_mode & S_IFMT))
		return false;
	if (S_ISDIR(status->st_mode))
		return true;
	if (entry->size != (uint64_t)status->st_size)
		return false;
	if (S_ISREG(status->st_mode) && entry->is_executable != !!(status->st_mode & S_IXUSR))
		return false;
	if (entry->inode == status->st_ino && entry->mtime_ns == nanoseconds(&status->st_mtim) &&
		entry->ctime_ns == nanoseconds(&status->st_ctim))
		return true;
	if (S_ISREG(status->st_mode))
		return hash_file(dir_fd, path, &hash) == 0 && hash == entry->hash;
	if (S_ISLNK(status->st_mode))
		return hash_link(dir_fd, path, &hash) == 0 && hash == entry->hash;
	return false;
}

void baseline_forget(struct baseline *b, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < b->count; i++) {
		const char *known = b->entries[i].path;

		/* It keeps its slot, but is of a type that nothing has. */
		if (strncmp(known, path, len) == 0 && (known[len] == '\0' || known[len] == '/'))
			b->entries[i].type = 0;
	}
}

void baseline_clear(struct baseline *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->entries[i].path);
	free(b->entries);
	free(b->slots);
	*b = (struct baseline){ 0 };
}
