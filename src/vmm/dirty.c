#include "vmm/dirty.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANGES_MAX = 65536, PAGE_BYTES = 4096, ENTRIES = 4096 };

/* Debian's headers are older than this (Linux 6.7). */
struct scan {
	uint64_t size, flags, start, end, walk_end;
	uint64_t ranges, ranges_count;
	uint64_t max_pages;
	uint64_t inverted, all_of, any_of, returned;
};

struct scan_range {
	uint64_t start, end, categories;
};

_Static_assert(DIRTY_PAGEMAP_SCAN == _IOWR('f', 16, struct scan), "as the kernel numbers it");
#define IS_FILE    4ULL
#define IS_PRESENT 8ULL
#define IS_SWAPPED 16ULL

static int pagemap_fd = -1;
static struct dirty_range found[RANGES_MAX];

int dirty_open(int proc_fd, struct err *e)
{
	int fd = openat(proc_fd, "self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open the page map");
	pagemap_fd = fcntl(fd, F_DUPFD_CLOEXEC, VMM_OWN_FDS);
	close(fd);
	return pagemap_fd < 0 ? err_sys(e, "move the page map") : 0;
}

/* Debian's headers do not have it. */
#define FEATURE_WP_ASYNC (1ULL << 15)

/* Nothing is ever protected, so nobody has to answer: all we are after is that memory which might be watched for writes
 * is mapped page by page. It ends with the descriptor, which stays open. */
void dirty_map_no_more_than_touched(const uint8_t *start, uint64_t size)
{
	int made = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURE_WP_ASYNC };
	struct uffdio_register range = {
		.range = { .start = (uint64_t)(uintptr_t)start, .len = size },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd;

	if (made < 0)
		return;
	fd = fcntl(made, F_DUPFD_CLOEXEC, VMM_OWN_FDS);
	close(made);
	if (fd >= 0 && (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)))
		close(fd);
}

/* Written pages are ours alone, so they are no file's any more; present, or swapped out. */
static int find_by_scan(const uint8_t *start, uint64_t size)
{
	static struct scan_range ranges[RANGES_MAX];
	uint64_t base = (uint64_t)(uintptr_t)start;
	struct scan s = {
		.size = sizeof(s),
		.start = base,
		.end = base + size,
		.ranges = (uint64_t)(uintptr_t)ranges,
		.ranges_count = RANGES_MAX,
		.inverted = IS_FILE,
		.all_of = IS_FILE,
		.any_of = IS_PRESENT | IS_SWAPPED,
		.returned = IS_FILE | IS_PRESENT,
	};
	int count = ioctl(pagemap_fd, DIRTY_PAGEMAP_SCAN, &s);

	for (int i = 0; i < count; i++) {
		found[i].start = ranges[i].start - base;
		found[i].end = ranges[i].end - base;
	}
	return count < RANGES_MAX ? count : -1;
}

static int find_by_reading(const uint8_t *start, uint64_t size)
{
	static uint64_t entries[ENTRIES];
	uint64_t first = (uint64_t)(uintptr_t)start / PAGE_BYTES;
	uint64_t pages = size / PAGE_BYTES;
	int count = 0;

	for (uint64_t at = 0; at < pages; at += ENTRIES) {
		uint64_t n = pages - at < ENTRIES ? pages - at : ENTRIES;

		if (pread(pagemap_fd, entries, n * 8, (off_t)((first + at) * 8)) !=
			(ssize_t)(n * 8))
			return -1;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t page = (at + i) * PAGE_BYTES;

			if (!(entries[i] >> 62) || entries[i] >> 61 & 1)
				continue;
			if (count && found[count - 1].end == page) {
				found[count - 1].end += PAGE_BYTES;
				continue;
			}
			if (count == RANGES_MAX)
				return -1;
			found[count++] = (struct dirty_range){ page, page + PAGE_BYTES };
		}
	}
	return count;
}

int dirty_find(const uint8_t *start, uint64_t size, const struct dirty_range **ret, struct err *e)
{
	static bool cannot_scan;
	int count = cannot_scan ? -1 : find_by_scan(start, size);

	if (count < 0) {
		cannot_scan = true;
		count = find_by_reading(start, size);
	}
	if (count < 0)
		return err_set(e, ERR_SYSTEM, "which pages were written cannot be found out");
	*ret = found;
	return count;
}
