#include "vmm/call_mem.h"

#include "base/own.h"
#include "vmm/fds.h"
#include "vmm/stub/layout.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAP_AHEAD = 4 << 20 };

#define PROTECTIONS    (PROT_READ | PROT_WRITE | PROT_EXEC)
#define LEAST_WRITABLE (2UL << 30)

/* In whole pages; false if it is not a range that a program can have. */
static bool range(uint64_t start, uint64_t length, uint64_t *ret_end)
{
	if (start % PAGE || start < LOW_END || length > ADDRESS_END || start > ADDRESS_END - length)
		return false;
	*ret_end = PAGE_UP(start + length);
	return true;
}

/* What no limit could ever hold is refused at once, as the kernel does, so that a program hears of
 * it instead of being ended later. Reserved memory is free. */
static bool is_too_much(const struct guest *g, uint64_t length, unsigned protection, uint64_t flags)
{
	uint64_t most = g->memory_bytes * 4 < LEAST_WRITABLE ? LEAST_WRITABLE : g->memory_bytes * 4;

	return protection & PROT_WRITE && !(flags & MAP_NORESERVE) && length > most;
}

/* RLIMIT_AS, which a program sets to hear of its greed in time. */
static bool is_over_limit(const struct guest *g, uint64_t more)
{
	uint64_t total = more;

	if (g->address_space == RLIM_INFINITY)
		return false;
	for (uint32_t i = 0; i < g->mem.areas_count; i++)
		total += g->mem.areas[i].end - g->mem.areas[i].start;
	return total > g->address_space;
}

static int map_file(struct guest *g, struct area *area, uint64_t fd, uint64_t flags)
{
	struct stat status;
	int result;

	if (fd >= VMM_GUEST_FDS || fstat((int)fd, &status))
		return -EBADF;
	if (S_ISDIR(status.st_mode))
		return -ENODEV;
	area->kind = (flags & MAP_TYPE) == MAP_PRIVATE ? AREA_FILE : AREA_SHARED;
	area->may_write =
		area->kind == AREA_SHARED && (fcntl((int)fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	if (area->kind == AREA_SHARED && area->protection & PROT_WRITE && !area->may_write)
		return -EACCES;
	area->name = fds_name((int)fd)[0] ? mem_name(&g->mem, fds_name((int)fd)) : 0;
	result = mem_map_file(&g->mem, area, (int)fd);
	/* Sealed against writing, though it is open for that. */
	if (result == -EPERM && area->may_write && !(area->protection & PROT_WRITE)) {
		area->may_write = false;
		result = mem_map_file(&g->mem, area, (int)fd);
	}
	return result;
}

int64_t call_mmap(struct guest *g, const uint64_t a[6])
{
	uint64_t length = PAGE_UP(a[1]);
	unsigned protection = (unsigned)a[2] & PROTECTIONS;
	uint64_t flags = a[3];
	bool is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
	bool is_file = !(flags & MAP_ANONYMOUS);
	struct area area = { .protection = (uint8_t)protection, .offset = a[5] };
	uint64_t end;
	int result;

	if (a[1] == 0 || length < a[1])
		return a[1] ? -ENOMEM : -EINVAL;
	if (a[5] % PAGE || (flags & MAP_TYPE) == 0)
		return -EINVAL;
	/* /dev/zero is memory. */
	if (is_file && a[4] < VMM_GUEST_FDS && special_kind((int)a[4])) {
		is_file = false;
		area.offset = 0;
	}
	if (is_too_much(g, length, protection, flags) ||
		is_over_limit(g, flags & MAP_FIXED ? 0 : length))
		return -ENOMEM;
	if (is_fixed) {
		if (!range(a[0], length, &end))
			return a[0] % PAGE ? -EINVAL : -ENOMEM;
		if (flags & MAP_FIXED_NOREPLACE && !mem_is_free(&g->mem, a[0], end))
			return -EEXIST;
		area.start = a[0];
	} else {
		area.start = mem_place(&g->mem, a[0], length, protection, is_file);
		if (!area.start)
			return -ENOMEM;
	}
	area.end = area.start + length;
	if (is_file) {
		result = map_file(g, &area, a[4], flags);
	} else if ((flags & MAP_TYPE) == MAP_SHARED) {
		area.kind = AREA_SHARED;
		area.may_write = true;
		area.offset = 0;
		result = mem_map_file(&g->mem, &area, -1);
	} else {
		area.offset = 0;
		result = mem_map(&g->mem, &area);
	}
	return result ? result : (int64_t)area.start;
}

int64_t call_munmap(struct guest *g, const uint64_t a[6])
{
	uint64_t end;

	if (a[1] == 0 || !range(a[0], a[1], &end))
		return -EINVAL;
	return mem_unmap(&g->mem, a[0], end);
}

int64_t call_mprotect(struct guest *g, const uint64_t a[6])
{
	uint64_t end;

	if (a[1] == 0)
		return 0;
	if (!range(a[0], a[1], &end))
		return a[0] % PAGE ? -EINVAL : -ENOMEM;
	return mem_protect(&g->mem, a[0], end, (unsigned)a[2] & PROTECTIONS);
}

static int64_t grow_elsewhere(struct guest *g, const struct area *old, uint64_t from,
	uint64_t length, uint64_t new_length, uint64_t to)
{
	struct area area = {
		.start = to,
		.end = to + new_length,
		.kind = AREA_ANONYMOUS,
		.protection = PROT_READ | PROT_WRITE,
	};
	unsigned protection = old->protection;
	int result = mem_map(&g->mem, &area);

	if (result == 0)
		result = mem_move(&g->mem, from, to, length < new_length ? length : new_length);
	if (result == 0)
		result = mem_unmap(&g->mem, from, from + length);
	if (result == 0 && protection != area.protection)
		result = mem_protect(&g->mem, area.start, area.end, protection);
	return result ? result : (int64_t)to;
}

int64_t call_mremap(struct guest *g, const uint64_t a[6])
{
	uint64_t length = PAGE_UP(a[1]);
	uint64_t new_length = PAGE_UP(a[2]);
	const struct area *area = mem_find(&g->mem, a[0]);
	uint64_t end;
	uint64_t to;
	struct area more;
	int result;

	if (!range(a[0], length, &end) || length < a[1] || length == 0 || new_length == 0 ||
		new_length > ADDRESS_END)
		return -EINVAL;
	if (!area || area->end < end)
		return -EFAULT;
	if (is_too_much(g, new_length, area->protection, 0) ||
		(new_length > length && is_over_limit(g, new_length - length)))
		return -ENOMEM;
	if (!(a[3] & MREMAP_FIXED)) {
		if (new_length <= length) {
			result = new_length < length ? mem_unmap(&g->mem, a[0] + new_length, end) :
						       0;
			return result ? result : (int64_t)a[0];
		}
		if (mem_is_free(&g->mem, end, a[0] + new_length) && area->kind == AREA_ANONYMOUS &&
			a[0] + new_length <= ADDRESS_END) {
			more = *area;
			more.start = end;
			more.end = a[0] + new_length;
			result = mem_map(&g->mem, &more);
			return result ? result : (int64_t)a[0];
		}
		if (!(a[3] & MREMAP_MAYMOVE))
			return -ENOMEM;
		to = mem_place(&g->mem, 0, new_length, area->protection, false);
	} else {
		to = a[4];
		/* The two must not overlap. */
		if (!(a[3] & MREMAP_MAYMOVE) || !range(to, new_length, &end) ||
			(to < a[0] + length && a[0] < end))
			return -EINVAL;
	}
	if (to && area->kind == AREA_SHARED) {
		more = *area;
		more.offset += a[0] - area->start;
		more.start = to;
		more.end = to + new_length;
		result = mem_move_shared(&g->mem, &more, a[0], length);
		return result ? result : (int64_t)to;
	}
	return to ? grow_elsewhere(g, area, a[0], length, new_length, to) : -ENOMEM;
}

int64_t call_madvise(struct guest *g, const uint64_t a[6])
{
	uint64_t end;

	if (!range(a[0], a[1], &end))
		return -EINVAL;
	if (a[2] == MADV_DONTNEED || a[2] == MADV_FREE)
		for (uint32_t i = mem_first(&g->mem, a[0]);
			i < g->mem.areas_count && g->mem.areas[i].start < end; i++) {
			const struct area *area = &g->mem.areas[i];
			uint64_t from = area->start > a[0] ? area->start : a[0];
			uint64_t to = area->end < end ? area->end : end;

			/* A file's pages would have to come back from the file. */
			if (area->kind != AREA_FILE && area->kind != AREA_SHARED)
				mem_zero(&g->mem, from, to);
		}
	return 0;
}

int64_t call_brk(struct guest *g, const uint64_t a[6])
{
	volatile struct shared *s = guest_shared(g);
	uint64_t start = g->mem.heap_start;
	const struct area *heap = mem_find(&g->mem, start);
	struct area more = { .kind = AREA_HEAP, .protection = PROT_READ | PROT_WRITE };
	uint64_t now = s->heap;

	/* A program may have mapped something else there. */
	if (heap && heap->kind != AREA_HEAP)
		heap = NULL;
	/* The stub moves it within what is mapped; on some hosts the program could lie about it. */
	if (!heap || now < start || now > heap->end)
		now = start;
	if (a[0] < start || a[0] > ADDRESS_END - HEAP_AHEAD || !heap)
		return (int64_t)now;
	if (a[0] > heap->end) {
		more.start = heap->end;
		more.end = PAGE_UP(a[0]) + HEAP_AHEAD;
		if (is_over_limit(g, more.end - more.start))
			more.end = PAGE_UP(a[0]);
		if (is_too_much(g, more.end - start, more.protection, 0) ||
			is_over_limit(g, more.end - more.start))
			return (int64_t)now;
		if (!mem_is_free(&g->mem, more.start, more.end))
			more.end = PAGE_UP(a[0]);
		if (!mem_is_free(&g->mem, more.start, more.end) || mem_map(&g->mem, &more))
			return (int64_t)now;
		s->heap_end = more.end;
	} else if (a[0] < now) {
		static const uint8_t zeros[PAGE];

		/* Whatever it gets back later must be zero. */
		mem_write(&g->mem, a[0], zeros,
			PAGE_UP(a[0]) < now ? PAGE_UP(a[0]) - a[0] : now - a[0]);
		if (PAGE_UP(a[0]) < now)
			mem_zero(&g->mem, PAGE_UP(a[0]), PAGE_UP(now));
	}
	s->heap = a[0];
	s->heap_start = start;
	return (int64_t)a[0];
}

int64_t call_msync(struct guest *g, const uint64_t a[6])
{
	uint64_t end;

	(void)g;
	return range(a[0], a[1], &end) ? 0 : -EINVAL; /* a shared file's pages are the file's */
}

int64_t call_mincore(struct guest *g, const uint64_t a[6])
{
	const uint8_t one = 1;
	uint64_t end;

	if (!range(a[0], a[1], &end))
		return -EINVAL;
	for (uint64_t at = a[0]; at < end; at += PAGE) {
		if (!mem_find(&g->mem, at))
			return -ENOMEM;
		if (mem_write(&g->mem, a[2] + (at - a[0]) / PAGE, &one, 1))
			return -EFAULT;
	}
	return 0;
}
