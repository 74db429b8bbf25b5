#include "engine/snapshot.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/path.h"
#include "engine/version.h"
#include "engine/work.h"
#include "workspace/baseline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The VMM leaves the last page before the image to us (vmm/snapshot.c). */
#define IMAGE_AT   (2UL << 20)
#define SEAL_AT    (IMAGE_AT - 4096)
#define SEAL_MAGIC "hotcell snapshot"

enum { NAME_SIZE = 160, PIECE = 1 << 20 };

struct seal {
	char magic[16];
	uint64_t key;    /* of what it depends on */
	uint64_t size;   /* of the whole file */
	uint64_t header; /* hash of all before the seal */
	uint64_t image;  /* hash of all behind it */
};

struct snapshot {
	struct snapshot *next;
	const struct language *language;
	const struct profile *profile;
	char *program;
	int fd;
	bool serves_many;
};

const struct strings *snapshot_command(const struct tool *tool)
{
	return tool_command(&tool->candidate->warm, &tool->language->warm);
}

/* ---- what it depends on ---- */

static uint64_t add_text(uint64_t hash, const char *text)
{
	return baseline_hash(hash, text, strlen(text) + 1);
}

/* Which file stands there, not what is in it: reading a whole interpreter would take longer than
 * starting it. */
static uint64_t add_file(uint64_t hash, const char *path)
{
	struct stat status;
	uint64_t facts[5] = { 0 };

	if (stat(path, &status) == 0) {
		facts[0] = status.st_dev;
		facts[1] = status.st_ino;
		facts[2] = (uint64_t)status.st_size;
		facts[3] = (uint64_t)status.st_mtim.tv_sec;
		facts[4] = (uint64_t)status.st_mtim.tv_nsec;
	}
	return baseline_hash(add_text(hash, path), facts, sizeof(facts));
}

static uint64_t add_strings(uint64_t hash, const struct strings *list)
{
	for (unsigned i = 0; i < list->count; i++)
		hash = add_text(hash, list->at[i]);
	return hash;
}

/* Features of the processor that programs choose code by; the kernel that runs machines, and with which part
 * of KVM, since a machine's first pages are made for one kind of host; and when it was started: since then
 * its clock counts, and no program expects that to go back. */
static uint64_t add_machine(uint64_t hash)
{
	static const char *const kinds[] = { "/sys/module/kvm_pvm", "/sys/module/kvm_intel",
		"/sys/module/kvm_amd" };
	auto_buf struct buf text = { 0 };
	auto_buf struct buf boot = { 0 };
	struct utsname name;
	struct err ignored;
	char *flags;

	if (uname(&name) == 0)
		hash = add_text(hash, name.release);
	for (size_t i = 0; i < COUNT(kinds); i++)
		hash = add_text(hash, access(kinds[i], F_OK) ? "" : kinds[i]);
	if (fd_slurp(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &boot, &ignored) == 0)
		hash = add_text(hash, boot.data);
	if (fd_slurp(AT_FDCWD, "/proc/cpuinfo", 1 << 20, &text, &ignored))
		return hash;
	flags = strstr(text.data, "\nflags");
	return flags ? baseline_hash(hash, flags, strcspn(flags + 1, "\n")) : hash;
}

/* All files beside a driver: it may be made of several. */
static uint64_t add_beside(uint64_t hash, const char *path)
{
	auto_free char *dir_path = xasprintf("%.*s", (int)(path_base(path) - path), path);
	DIR *dir = opendir(dir_path);
	struct dirent *entry;
	uint64_t sum = 0; /* whatever order they come in */

	while (dir && (entry = readdir(dir))) {
		auto_free char *file = path_join(dir_path, entry->d_name);

		if (entry->d_name[0] != '.')
			sum += add_file(BASELINE_HASH_INIT, file);
	}
	if (dir)
		closedir(dir);
	return baseline_hash(hash, &sum, sizeof(sum));
}

uint64_t snapshot_key(
	const struct hotcell *h, const struct tool *tool, const struct profile *profile)
{
	/* Packages come and go by these. */
	static const char *const changes[] = { "/etc/ld.so.cache", "/var/lib/dpkg/status",
		"/usr/lib/python3/dist-packages", "/usr/local/lib" };
	uint64_t hash = add_text(BASELINE_HASH_INIT, HOTCELL_VERSION);

	hash = add_file(hash, tool->program);
	hash = add_file(hash, h->vmm_path);
	for (size_t i = 0; i < COUNT(changes); i++)
		hash = add_file(hash, changes[i]);
	for (unsigned i = 0; i < snapshot_command(tool)->count; i++) {
		const char *word = snapshot_command(tool)->at[i];

		hash = add_text(hash, word);
		if (strncmp(word, "{drivers}", 9) == 0 && h->drivers_dir) {
			auto_free char *path = xasprintf("%s%s", h->drivers_dir, word + 9);

			hash = add_beside(hash, path);
		}
	}
	hash = add_strings(hash, &tool->language->env);
	hash = add_strings(hash, &profile->modules);
	for (char **at = tool->needs; at && *at; at++)
		hash = add_file(hash, *at);
	return add_machine(hash);
}

/* ---- on disk ---- */

/* Eight bytes at a time: a snapshot has a hundred million. */
static uint64_t hash_words(uint64_t hash, const uint8_t *data, size_t size)
{
	const uint64_t *words = (const uint64_t *)(const void *)data;

	for (size_t i = 0; i < size / 8; i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ULL + (hash >> 29);
	return hash;
}

static uint64_t hash_zeros(uint64_t hash, uint64_t size)
{
	for (uint64_t i = 0; i < size / 8; i++)
		hash = hash * 0x9e3779b97f4a7c15ULL + (hash >> 29);
	return hash;
}

/* Where `fd` has its next data, or a hole; `to` if that is behind it. */
static uint64_t seek_up_to(int fd, uint64_t from, uint64_t to, int what)
{
	off_t at = lseek(fd, (off_t)from, what);

	return at < 0 || (uint64_t)at > to ? to : (uint64_t)at;
}

/* Holes are not looked into: in memory that would fill them, and half of a snapshot is holes. */
static int hash_range(int fd, uint64_t from, uint64_t to, uint64_t *ret)
{
	const uint8_t *map = mmap(NULL, to, PROT_READ, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -1;
	*ret = BASELINE_HASH_INIT;
	for (uint64_t at = from; at < to;) {
		uint64_t data = seek_up_to(fd, at, to, SEEK_DATA);
		uint64_t hole = data < to ? seek_up_to(fd, data, to, SEEK_HOLE) : to;

		*ret = hash_words(hash_zeros(*ret, data - at), map + data, hole - data);
		at = hole;
	}
	munmap((void *)(uintptr_t)map, to);
	return 0;
}

/* A directory that only we can look into. */
static int open_dir(const char *cache_dir, bool make, struct err *e)
{
	auto_free char *path = path_join(cache_dir, "snapshots");
	auto_close int fd = -1;
	struct stat status;

	if (make)
		path_make_private(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return err_sys(e, "open '%s'", path);
	if (status.st_uid != geteuid() || status.st_mode & 077)
		return err_set(e, ERR_SYSTEM, "'%s' is not ours alone", path);
	return take_fd(&fd);
}

static int open_file(int dir_fd, const char *name, struct seal *ret, struct err *e)
{
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	uint64_t hash;

	if (fd < 0 || fstat(fd, &status))
		return err_sys(e, "open '%s'", name);
	if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_mode & 077 ||
		status.st_nlink != 1)
		return err_set(e, ERR_SYSTEM, "'%s' is not ours alone", name);
	if (status.st_size < (off_t)IMAGE_AT ||
		pread(fd, ret, sizeof(*ret), SEAL_AT) != sizeof(*ret) ||
		memcmp(ret->magic, SEAL_MAGIC, sizeof(ret->magic)) != 0 ||
		ret->size != (uint64_t)status.st_size || hash_range(fd, 0, SEAL_AT, &hash) ||
		hash != ret->header)
		return err_set(e, ERR_SYSTEM, "'%s' is damaged", name);
	return take_fd(&fd);
}

int snapshot_copy(int from, int to, uint64_t size)
{
	off_t at = 0;

	if (ftruncate(to, (off_t)size))
		return -1;
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE);

		if (end < 0 || lseek(to, at, SEEK_SET) < 0)
			return -1;
		while (at < end) {
			ssize_t n = sendfile(to, from, &at, (size_t)(end - at));

			if (n <= 0)
				return -1;
		}
	}
	return errno == ENXIO ? 0 : -1;
}

static int seal(int fd, uint64_t key, struct err *e)
{
	struct seal s = { .key = key };
	struct stat status;

	memcpy(s.magic, SEAL_MAGIC, sizeof(s.magic));
	if (fstat(fd, &status))
		return err_sys(e, "stat the snapshot");
	s.size = (uint64_t)status.st_size;
	if (hash_range(fd, 0, SEAL_AT, &s.header) || hash_range(fd, IMAGE_AT, s.size, &s.image) ||
		pwrite(fd, &s, sizeof(s), SEAL_AT) != sizeof(s))
		return err_sys(e, "seal the snapshot");
	return 0;
}

static int store(int dir_fd, const char *name, int memory_fd)
{
	char temporary[NAME_SIZE + 32];
	auto_close int fd = -1;
	struct stat status;

	snprintf(temporary, sizeof(temporary), "%s.%ld.new", name, (long)getpid());
	fd = openat(dir_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (fstat(memory_fd, &status) || snapshot_copy(memory_fd, fd, (uint64_t)status.st_size) ||
		fsync(fd) || renameat(dir_fd, temporary, dir_fd, name)) {
		unlinkat(dir_fd, temporary, 0);
		return -1;
	}
	return 0;
}

/* Older ones of the same language and profile: what they depended on is gone. */
static void remove_stale(int dir_fd, const char *prefix, const char *keep)
{
	DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
			strcmp(entry->d_name, keep) != 0)
			unlinkat(dir_fd, entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* ---- those that there are ---- */

int snapshot_new(struct err *e)
{
	int fd = memfd_create("hotcell-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd < 0 ? err_sys(e, "memfd") : fd;
}

/* The end of the name is the key. */
static void name_it(const struct tool *tool, const struct profile *profile, uint64_t key,
	char ret_prefix[NAME_SIZE], char ret[NAME_SIZE + 32])
{
	snprintf(ret_prefix, NAME_SIZE, "%.60s-%.60s-", tool->language->id, profile->name);
	snprintf(ret, NAME_SIZE + 32, "%s%016" PRIx64, ret_prefix, key);
}

static int keep(struct hotcell *h, const struct tool *tool, const struct profile *profile, int fd)
{
	struct snapshot *s = xalloc(sizeof(*s));

	*s = (struct snapshot){
		.next = h->snapshots,
		.language = tool->language,
		.profile = profile,
		.program = xstrdup(tool->program),
		.fd = fd,
		.serves_many = !h->cache_dir, /* the VMM that made it has seen to that */
	};
	h->snapshots = s;
	return fd;
}

int snapshot_find(const struct hotcell *h, const struct tool *tool, const struct profile *profile)
{
	for (const struct snapshot *s = h->snapshots; s; s = s->next)
		if (s->language == tool->language && s->profile == profile &&
			strcmp(s->program, tool->program) == 0)
			return s->fd;
	return -1;
}

int snapshot_load(
	struct hotcell *h, const struct tool *tool, const struct profile *profile, uint64_t key)
{
	char prefix[NAME_SIZE];
	char name[NAME_SIZE + 32];
	auto_close int dir_fd = -1;
	auto_close int fd = -1;
	struct err ignored = { 0 };
	struct seal s;

	if (!h->cache_dir)
		return -1;
	name_it(tool, profile, key, prefix, name);
	dir_fd = open_dir(h->cache_dir, true, &ignored);
	fd = dir_fd < 0 ? -1 : open_file(dir_fd, name, &s, &ignored);
	return fd >= 0 && s.key == key ? keep(h, tool, profile, take_fd(&fd)) : -1;
}

/* Without it the next engine is slower, and that is all. */
static void store_in_cache(const struct hotcell *h, const struct tool *tool,
	const struct profile *profile, uint64_t key, int fd)
{
	char prefix[NAME_SIZE];
	char name[NAME_SIZE + 32];
	auto_close int dir_fd = -1;
	struct err ignored = { 0 };

	name_it(tool, profile, key, prefix, name);
	dir_fd = open_dir(h->cache_dir, true, &ignored);
	if (dir_fd < 0)
		return;
	unlinkat(dir_fd, name, 0);
	if (store(dir_fd, name, fd) == 0)
		remove_stale(dir_fd, prefix, name);
}

int snapshot_add(struct hotcell *h, const struct tool *tool, const struct profile *profile,
	uint64_t key, int *fd, struct err *e)
{
	struct stat status;

	if (fstat(*fd, &status) || status.st_size <= (off_t)IMAGE_AT)
		return err_set(e, ERR_SYSTEM, "the snapshot is empty");
	/* What stays in our hands need not be recognized. */
	if (h->cache_dir && seal(*fd, key, e))
		return -1;
	if (fcntl(*fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_sys(e, "seal the snapshot");
	if (h->cache_dir)
		store_in_cache(h, tool, profile, key, *fd);
	keep(h, tool, profile, take_fd(fd));
	return 0;
}

int snapshot_get(
	struct hotcell *h, const struct tool *tool, const struct profile *profile, struct err *e)
{
	int fd = snapshot_find(h, tool, profile);

	if (fd >= 0)
		return fd;
	if (h->never_waits)
		return err_set(e, ERR_UNAVAILABLE, "the snapshot is not ready");
	if (prepare_snapshot(h, tool, profile, e))
		return -1;
	return snapshot_find(h, tool, profile);
}

void snapshot_serve_many(struct hotcell *h, int fd)
{
	struct snapshot *s = h->snapshots;
	auto_close int copy = -1;

	while (s && s->fd != fd)
		s = s->next;
	if (!s || s->serves_many || h->never_waits)
		return;
	s->serves_many = true;
	copy = snapshot_bring_in(fd);
	if (copy >= 0)
		dup3(copy, fd, O_CLOEXEC);
}

void snapshot_close_all(struct hotcell *h)
{
	while (h->snapshots) {
		struct snapshot *s = h->snapshots;

		h->snapshots = s->next;
		close(s->fd);
		free(s->program);
		free(s);
	}
}

/* ---- choosing ---- */

bool snapshot_is_possible(const struct hotcell *h, const struct tool *tool)
{
	return h->drivers_dir && snapshot_command(tool)->count && tool->language->profiles_count;
}

/* Settings that loaders, C libraries and interpreters look at once, when they start: what started long
 * ago would not know of them. Beginnings of names:
 * too many of them cost time only. */
static const char *const early[] = {
	"LD_",
	"GLIBC_TUNABLES",
	"MALLOC_",
	"GCONV_PATH",
	"LOCPATH",
	"LANG",
	"LC_",
	"TZ",
	"HOME", /* ~/.local is on the path of modules */
	"PYTHON",
	"OPENBLAS_",
	"OMP_",
	"MKL_",
	"MPL",
	"NUMPY_",
	"NPY_",
	"NODE_",
};

static bool is_early(const char *setting)
{
	for (size_t i = 0; i < COUNT(early); i++)
		if (strncmp(setting, early[i], strlen(early[i])) == 0)
			return true;
	return false;
}

bool snapshot_suits_env(const char *const *env)
{
	for (; env && *env; env++)
		if (is_early(*env))
			return false;
	return true;
}

static bool has_word(const char *code, size_t len, const struct strings *words)
{
	for (unsigned i = 0; i < words->count; i++)
		if (memmem(code, len, words->at[i], strlen(words->at[i])))
			return true;
	return false;
}

static void tell_profiles(const struct language *language, const char *name, struct err *e)
{
	auto_buf struct buf list = { 0 };

	for (unsigned i = 0; i < language->profiles_count; i++)
		buf_addf(&list, "%s%s", i ? ", " : "", language->profiles[i].name);
	if (list.len)
		err_set(e, ERR_NOT_FOUND, "%s has no profile '%s'; it has: %s", language->name,
			name, list.data);
	else
		err_set(e, ERR_NOT_FOUND, "%s has no profiles", language->name);
}

const struct profile *snapshot_profile(const struct language *language, const char *name,
	const char *code, size_t code_len, struct err *e)
{
	for (unsigned i = 0; i < language->profiles_count; i++) {
		const struct profile *p = &language->profiles[i];

		if (name ? strcmp(p->name, name) == 0 : code && has_word(code, code_len, &p->words))
			return p;
	}
	if (name) {
		tell_profiles(language, name, e);
		return NULL;
	}
	return language->profiles_count ? &language->profiles[0] : NULL;
}

/* ---- looking after them ---- */

/* A name ends with the key. */
static bool is_named_by(const char *name, uint64_t key)
{
	char end[24];
	int len = snprintf(end, sizeof(end), "-%016" PRIx64, key);
	size_t name_len = strlen(name);

	return name_len > (size_t)len && strcmp(name + name_len - len, end) == 0;
}

static int verify(int dir_fd, const char *name, struct err *e)
{
	struct seal s = { 0 };
	uint64_t hash = 0;
	auto_close int fd = open_file(dir_fd, name, &s, e);

	if (fd < 0)
		return -1;
	if (hash_range(fd, IMAGE_AT, s.size, &hash))
		return err_sys(e, "read '%s'", name);
	if (hash != s.image || !is_named_by(name, s.key))
		return err_set(e, ERR_SYSTEM, "'%s' is damaged", name);
	return 0;
}

/* One that is just being written (store()) is nobody's yet. */
static bool is_temporary(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && strcmp(name + len - 4, ".new") == 0;
}

int snapshot_verify_all(const char *cache_dir,
	void (*on_one)(void *context, const char *name, const char *problem), void *context,
	struct err *e)
{
	auto_close int dir_fd = open_dir(cache_dir, false, e);
	DIR *dir;
	struct dirent *entry;
	int broken = 0;

	if (dir_fd < 0)
		return e->sys_errno == ENOENT ? 0 : -1;
	dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!dir)
		return err_sys(e, "read '%s/snapshots'", cache_dir);
	while ((entry = readdir(dir))) {
		struct err problem = { 0 };
		char text[sizeof(problem.text) + 80];

		if (entry->d_name[0] == '.' || is_temporary(entry->d_name))
			continue;
		if (verify(dir_fd, entry->d_name, &problem) == 0) {
			on_one(context, entry->d_name, NULL);
			continue;
		}
		broken++;
		if (unlinkat(dir_fd, entry->d_name, 0))
			snprintf(text, sizeof(text), "%s; it could not be removed: %s",
				problem.text, strerror(errno));
		else
			snprintf(text, sizeof(text), "%s; removed: the next run makes it anew",
				problem.text);
		on_one(context, entry->d_name, text);
	}
	closedir(dir);
	return broken;
}
