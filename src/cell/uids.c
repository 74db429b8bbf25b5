#include "cell/uids.h"

#include "base/buf.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

/* Above the range that systemd gives to containers, below what is negative as an int. */
#define RANGE_BASE  0x70000000U
#define RANGE_COUNT 0x10000U
#define LOCK_DIR    "/run/hotcell"

/* In a user namespace the usual range may not exist: the upper half of the largest one that does,
 * if it is large enough to hold ids that nobody there uses. */
static void find_range(struct uids *u)
{
	auto_fclose FILE *map = fopen("/proc/self/uid_map", "re");
	unsigned inside;
	unsigned outside;
	unsigned length;

	while (map && fscanf(map, "%u %u %u", &inside, &outside, &length) == 3) {
		if (inside <= RANGE_BASE && length > RANGE_BASE - inside + RANGE_COUNT) {
			u->base = RANGE_BASE;
			u->count = RANGE_COUNT;
			return;
		}
		if (length >= 4096 && length / 2 > u->count) {
			u->count = length / 2 - 8; /* 65534 is nobody's */
			u->base = inside + length / 2;
		}
	}
}

void uids_open(struct uids *u)
{
	*u = (struct uids){ .base = geteuid(), .lock_fd = -1 };
	if (geteuid() != 0)
		return;
	find_range(u);
	if (u->count == 0) {
		u->base = geteuid();
		return;
	}
	/* At random: pids are alike in all containers, which share the ids but not the file. */
	if (getrandom(&u->next, sizeof(u->next), 0) != (ssize_t)sizeof(u->next))
		u->next = (unsigned)getpid() * 37;
	u->next %= u->count;
	u->taken = xalloc(u->count / 8 + 1);
	mkdir(LOCK_DIR, 0755);
	u->lock_fd = open(LOCK_DIR "/uids", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void uids_check_again(struct uids *u)
{
	struct uids now = { .base = geteuid() };

	if (u->count == 0)
		return;
	find_range(&now);
	if (now.count == u->count && now.base == u->base)
		return;
	u->base = geteuid();
	u->count = 0;
}

void uids_close(struct uids *u)
{
	own_close(&u->lock_fd);
	u->lock_fd = -1;
	free(u->taken);
	u->taken = NULL;
}

static bool is_taken(const struct uids *u, unsigned index)
{
	return u->taken[index / 8] & (1U << index % 8);
}

static void mark(struct uids *u, unsigned index, bool taken)
{
	uint8_t bit = (uint8_t)(1U << index % 8);

	u->taken[index / 8] =
		taken ? u->taken[index / 8] | bit : u->taken[index / 8] & (uint8_t)~bit;
}

static int set_lock(const struct uids *u, unsigned index, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = index, .l_len = 1 };

	return fcntl(u->lock_fd, F_OFD_SETLK, &lock);
}

uid_t uids_take(struct uids *u)
{
	if (u->count == 0)
		return u->base;
	for (unsigned tries = 0; tries < u->count; tries++) {
		unsigned index = u->next;

		u->next = (u->next + 1) % u->count;
		if (is_taken(u, index))
			continue;
		/* Without the file there is nobody to agree with: ids are ours alone. */
		if (u->lock_fd < 0 || set_lock(u, index, F_WRLCK) == 0) {
			mark(u, index, true);
			return u->base + index;
		}
		if (errno != EAGAIN && errno != EACCES)
			break;
	}
	return (uid_t)-1;
}

void uids_give_back(struct uids *u, uid_t uid)
{
	if (u->count == 0)
		return;
	mark(u, uid - u->base, false);
	if (u->lock_fd >= 0)
		set_lock(u, uid - u->base, F_UNLCK);
}
