#include "cell/wall/landlock.h"

#include "base/own.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Debian 12's headers are older than the kernels it may run on: the ABI, written out. */
#define FS_EXECUTE          (1ULL << 0)
#define FS_WRITE_FILE       (1ULL << 1)
#define FS_READ_FILE        (1ULL << 2)
#define FS_READ_DIR         (1ULL << 3)
#define FS_ABI1             ((1ULL << 13) - 1)
#define FS_REFER            (1ULL << 13) /* ABI 2 */
#define FS_TRUNCATE         (1ULL << 14) /* ABI 3 */
#define FS_IOCTL_DEV        (1ULL << 15) /* ABI 5 */
#define SCOPE_ABSTRACT_UNIX (1ULL << 0)  /* ABI 6 */
#define SCOPE_SIGNAL        (1ULL << 1)

enum { RULE_PATH_BENEATH = 1, CREATE_VERSION = 1 };

struct ruleset {
	uint64_t handled_fs;
	uint64_t handled_net;
	uint64_t scoped;
};

struct path_rule {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

#define READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define ALL  (FS_ABI1 | FS_REFER | FS_TRUNCATE | FS_IOCTL_DEV)

static const struct {
	const char *path;
	uint64_t allowed;
	bool is_kernels; /* not there for a VMM */
} places[] = {
	{ "/", READ },
	{ "/workspace", ALL },
	{ "/tmp", ALL },
	{ "/dev/shm", ALL },
	{ "/dev", FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV, true },
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static uint64_t known_rights(int abi)
{
	uint64_t rights = FS_ABI1;

	if (abi >= 2)
		rights |= FS_REFER;
	if (abi >= 3)
		rights |= FS_TRUNCATE;
	if (abi >= 5)
		rights |= FS_IOCTL_DEV;
	return rights;
}

static int allow(int ruleset_fd, const char *path, uint64_t rights, struct err *e)
{
	auto_close int fd = open(path, O_PATH | O_CLOEXEC);
	struct path_rule rule = { .allowed = rights, .parent_fd = fd };

	if (fd < 0)
		return err_sys(e, "open '%s' for landlock", path);
	if (syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &rule, 0))
		return err_sys(e, "landlock rule for '%s'", path);
	return 0;
}

/* What is mounted nowhere lies beneath no place of the table. */
static int allow_vmm(int ruleset_fd, struct err *e)
{
	static const struct path_rule rules[] = {
		{ .parent_fd = VMM_SELF_FD, .allowed = FS_EXECUTE | FS_READ_FILE },
		{ .parent_fd = VMM_PROC_FD, .allowed = FS_READ_FILE },
	};

	for (size_t i = 0; i < COUNT(rules); i++)
		if (syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &rules[i], 0) &&
			errno != EBADF)
			return err_sys(e, "landlock rule for descriptor %d", rules[i].parent_fd);
	return 0;
}

int landlock_enter(int abi, bool for_vmm, struct err *e)
{
	struct ruleset ruleset = { .handled_fs = known_rights(abi) };
	/* Older kernels take a shorter struct. */
	size_t size = abi >= 6 ? sizeof(ruleset) : abi >= 4 ? 16 : 8;
	auto_close int fd = -1;

	if (abi >= 6)
		ruleset.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
	fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, size, 0);
	if (fd < 0)
		return err_sys(e, "landlock ruleset");
	for (size_t i = 0; i < COUNT(places); i++)
		if (!(for_vmm && places[i].is_kernels) &&
			allow(fd, places[i].path, places[i].allowed & ruleset.handled_fs, e))
			return -1;
	if (for_vmm && allow_vmm(fd, e))
		return -1;
	if (syscall(SYS_landlock_restrict_self, fd, 0))
		return err_sys(e, "enter landlock");
	return 0;
}
