#include "vmm/mem.h"

#include "base/buf.h"
#include "base/own.h"
#include "vmm/areas.h"
#include "vmm/stub/layout.h"
#include "vmm/tables.h"
#include "vmm/try.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

/* Larger mappings get memory where they are touched. */
#define EAGER_MAX (64UL << 20)
#define LAZY_MIN  (64UL << 10)

/* For machines that start from a snapshot, and for others. */
#define FIRST_SLOT_MORE (32UL << 20)
#define FIRST_SLOT_MIN  (128UL << 20)

void *mem_grow(void *old, uint32_t *room, uint32_t wanted, size_t size)
{
	if (wanted <= *room)
		return old;
	*room = wanted < 64 ? 64 : wanted * 2;
	return xgrow(old, *room * size);
}

/* ---- opening ---- */

static void *reserve(uint64_t size)
{
	/* Aligned like physical memory, so that the host may use large pages too. */
	uint8_t *all = mmap(NULL, size + CHUNK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t skip;

	if (all == MAP_FAILED)
		return NULL;
	skip = (CHUNK - (uint64_t)(uintptr_t)all % CHUNK) % CHUNK;
	if (skip)
		munmap(all, skip);
	munmap(all + skip + size, CHUNK - skip);
	return all + skip;
}

int mem_open(struct mem *m, uint64_t size, struct err *e)
{
	/* Without the edits, which have no content: that would touch two dozen pages. */
	memset(m, 0, offsetof(struct mem, edits));
	m->size = size / CHUNK * CHUNK;
	m->host = reserve(m->size);
	if (!m->host)
		return err_sys(
			e, "reserve %llu MiB of guest memory", (unsigned long long)(m->size >> 20));
	m->names = mem_grow(NULL, &m->names_room, 1, sizeof(*m->names));
	m->names[m->names_count++] = NULL;
	return 0;
}

static void forget(struct mem *m)
{
	for (uint32_t i = 1; i < m->names_count; i++)
		free(m->names[i]);
	m->names_count = 1;
	m->areas_count = 0;
	m->blocks_count = 0;
	m->free_chunks_count = 0;
	m->extra_tables_count = 0;
	m->edits_count = 0;
	m->is_broken = false;
	m->heap_start = 0;
	m->snapshot_chunks = 0;
	m->remaps_count = 0;
}

void mem_close(struct mem *m)
{
	forget(m);
	free(m->names);
	free(m->areas);
	free(m->blocks);
	free(m->free_chunks);
	free(m->remaps);
	munmap(m->host, m->size);
	*m = (struct mem){ 0 };
}

int mem_clear(struct mem *m, struct err *e)
{
	forget(m);
	if (mmap(m->host, m->size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != m->host)
		return err_sys(e, "fresh guest memory");
	m->cpu = NULL;
	m->in_slots = 0;
	return 0;
}

int mem_attach(struct mem *m, struct vcpu *cpu, struct err *e)
{
	uint64_t wanted = (uint64_t)m->next_chunk * CHUNK;

	m->cpu = cpu;
	m->in_slots = 0;
	/* The first slot holds what is there already and some more; later ones come as they are needed. KVM takes
	 * time and memory for all of a slot when it is made, and when it goes. */
	wanted += m->snapshot_chunks ? FIRST_SLOT_MORE : 0;
	if (!m->snapshot_chunks && wanted < FIRST_SLOT_MIN)
		wanted = FIRST_SLOT_MIN;
	wanted = wanted > m->size ? m->size : wanted;
	if (vcpu_add_memory(cpu, 0, wanted, m->host, e))
		return -1;
	m->in_slots = wanted;
	return 0;
}

uint32_t mem_name(struct mem *m, const char *name)
{
	for (uint32_t i = 1; i < m->names_count; i++)
		if (strcmp(m->names[i], name) == 0)
			return i;
	m->names = mem_grow(m->names, &m->names_room, m->names_count + 1, sizeof(*m->names));
	m->names[m->names_count] = xstrdup(name);
	return m->names_count++;
}

/* ---- content ---- */

bool mem_is_zero(const uint8_t *page)
{
	const uint64_t *words = (const uint64_t *)(const void *)page;

	for (size_t i = 0; i < PAGE / 8; i++)
		if (words[i])
			return false;
	return true;
}

static void zero_piece(struct mem *m, uint8_t *host, uint64_t size)
{
	bool is_snapshots = (uint64_t)(host - m->host) / CHUNK < m->snapshot_chunks;

	/* Thrown away it is zero again, unless it came from a snapshot, which would show through. */
	if (size >= 16 * PAGE && !is_snapshots) {
		madvise(host, size, MADV_DONTNEED);
		return;
	}
	if ((size | (uint64_t)(host - m->host)) % PAGE) {
		memset(host, 0, size);
		return;
	}
	/* Most of a thread's stack was never used. What is written here is copied back after the run. */
	for (uint64_t at = 0; at < size; at += PAGE)
		if (!mem_is_zero(host + at))
			memset(host + at, 0, PAGE);
}

/* The next piece of [*start, end) that has memory behind it: its address in *start, where it ends in
 * *ret_end. NULL if there is none. */
static uint8_t *next_piece(const struct mem *m, uint64_t *start, uint64_t end, uint64_t *ret_end)
{
	const struct block *b = *start < end ? tables_first(m, *start, end) : NULL;

	if (!b)
		return NULL;
	if (*start < b->number * CHUNK)
		*start = b->number * CHUNK;
	*ret_end = to_block_end(*start, end);
	return m->host + (uint64_t)b->chunk * CHUNK + *start % CHUNK;
}

void mem_zero(struct mem *m, uint64_t start, uint64_t end)
{
	uint64_t next;
	uint8_t *host;

	for (; (host = next_piece(m, &start, end, &next)); start = next)
		zero_piece(m, host, next - start);
}

static void note_remap(struct mem *m, const uint8_t *host, uint64_t size)
{
	uint64_t start = (uint64_t)(host - m->host);

	if (!m->snapshot_chunks)
		return;
	m->remaps = mem_grow(m->remaps, &m->remaps_room, m->remaps_count + 1, sizeof(*m->remaps));
	m->remaps[m->remaps_count++] = (struct remap){ start, start + size };
}

/* Plain memory again where a file was. */
static int make_plain(struct mem *m, uint64_t start, uint64_t end)
{
	uint64_t next;
	uint8_t *host;

	for (; (host = next_piece(m, &start, end, &next)); start = next) {
		note_remap(m, host, next - start);
		if (mmap(host, next - start, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			    0) == MAP_FAILED)
			return -ENOMEM;
	}
	return 0;
}

/* Leaves nothing of what was mapped in the range. */
static int wipe(struct mem *m, uint64_t start, uint64_t end)
{
	for (uint32_t i = mem_first(m, start); i < m->areas_count && m->areas[i].start < end; i++) {
		const struct area *a = &m->areas[i];
		uint64_t from = a->start > start ? a->start : start;
		uint64_t to = a->end < end ? a->end : end;

		if (a->kind == AREA_FILE || a->kind == AREA_SHARED) {
			if (make_plain(m, from, to))
				return -ENOMEM;
		} else {
			mem_zero(m, from, to);
		}
	}
	return 0;
}

static enum tables_how how_to_map(const struct area *area)
{
	return area->protection != PROT_NONE && area->end - area->start <= EAGER_MAX ?
		       TABLES_BIND :
		       TABLES_PRESENT;
}

/* A loader maps all of a library to be read, and then most of it again to be executed. An entry that is
 * there is dear to change (see mem.h): those of what is only read are made when it is touched. */
static enum tables_how how_to_map_file(const struct area *area)
{
	return area->kind == AREA_FILE && area->protection == PROT_READ &&
			       area->end - area->start > LAZY_MIN ?
		       TABLES_LAZY :
		       TABLES_BIND;
}

int mem_map(struct mem *m, const struct area *area)
{
	int result = wipe(m, area->start, area->end);

	if (result == 0)
		result = areas_set(m, area);
	return result ? result : tables_sync(m, area->start, area->end, how_to_map(area));
}

static int put_file(struct mem *m, const struct area *area, int fd)
{
	int flags = (area->kind == AREA_SHARED ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED |
		    (fd < 0 ? MAP_ANONYMOUS : 0);
	/* What a program may not write it must not write through us either; private pages are our
	 * own to fill. */
	int protection =
		area->kind == AREA_SHARED && !area->may_write ? PROT_READ : PROT_READ | PROT_WRITE;
	uint64_t offset = area->offset;

	for (uint64_t at = area->start; at < area->end;) {
		uint64_t next = to_block_end(at, area->end);
		struct block *b = tables_bind(m, at);
		uint8_t *host;

		if (!b)
			return -ENOMEM;
		host = m->host + (uint64_t)b->chunk * CHUNK + at % CHUNK;
		note_remap(m, host, next - at);
		if (mmap(host, next - at, protection, flags, fd, (off_t)offset) == MAP_FAILED)
			return -errno;
		offset += next - at;
		at = next;
	}
	return 0;
}

int mem_map_file(struct mem *m, const struct area *area, int fd)
{
	int result = wipe(m, area->start, area->end);

	if (result == 0)
		result = put_file(m, area, fd);
	if (result == 0)
		result = areas_set(m, area);
	if (result == 0)
		return tables_sync(m, area->start, area->end, how_to_map_file(area));
	/* Part of the file may be there already, behind what is no file's or nothing at all: as with
	 * Linux, what was mapped there is gone. */
	if (make_plain(m, area->start, area->end) == 0)
		mem_unmap(m, area->start, area->end);
	return result;
}

int mem_move_shared(struct mem *m, const struct area *area, uint64_t from, uint64_t length)
{
	uint64_t new_length = area->end - area->start;
	const struct block *first = tables_block(m, from);
	uint8_t *source = first ? m->host + (uint64_t)first->chunk * CHUNK + from % CHUNK : NULL;
	uint8_t *whole;
	int result = 0;

	/* From length 0 the host makes a second mapping of the same file, as long as we like. */
	whole = source ? mremap(source, 0, new_length, MREMAP_MAYMOVE) : MAP_FAILED;
	if (whole == MAP_FAILED)
		return -ENOMEM;
	result = mem_unmap(m, from, from + length);
	if (result == 0)
		result = wipe(m, area->start, area->end);
	for (uint64_t at = area->start; at < area->end && result == 0;) {
		uint64_t next = to_block_end(at, area->end);
		struct block *b = tables_bind(m, at);
		uint8_t *host = b ? m->host + (uint64_t)b->chunk * CHUNK + at % CHUNK : NULL;

		if (host)
			note_remap(m, host, next - at);
		if (!host || mremap(whole + (at - area->start), next - at, next - at,
				     MREMAP_MAYMOVE | MREMAP_FIXED, host) == MAP_FAILED)
			result = -ENOMEM;
		at = next;
	}
	if (result) {
		munmap(whole, new_length); /* what has been moved has left a hole */
		return result;
	}
	result = areas_set(m, area);
	return result ? result : tables_sync(m, area->start, area->end, TABLES_BIND);
}

int mem_unmap(struct mem *m, uint64_t start, uint64_t end)
{
	int result = areas_split(m, start);
	uint32_t from;
	uint32_t to;

	if (result == 0)
		result = areas_split(m, end);
	if (result == 0)
		result = wipe(m, start, end);
	if (result)
		return result;
	from = to = mem_first(m, start);
	while (to < m->areas_count && m->areas[to].start < end)
		to++;
	areas_delete(m, from, to);
	/* Entries for single pages stay: taking them away costs more than the program gains by being
	 * told of its error. Whole blocks go. */
	for (uint64_t at = start;;) {
		struct block *b = at < end ? tables_first(m, at, end) : NULL;

		if (!b)
			break;
		at = (b->number + 1) * CHUNK;
		if (mem_is_free(m, at - CHUNK, at))
			tables_unbind(m, b);
	}
	return 0;
}

int mem_protect(struct mem *m, uint64_t start, uint64_t end, unsigned protection)
{
	for (uint64_t at = start; at < end;) {
		struct area *a = mem_find(m, at);
		struct area changed;
		uint64_t next;
		int result;

		if (!a)
			return -ENOMEM;
		next = a->end < end ? a->end : end;
		if (a->protection != protection) {
			changed = *a;
			changed.offset += at - a->start;
			changed.start = at;
			changed.end = next;
			changed.protection = (uint8_t)protection;
			if (a->kind == AREA_SHARED && protection & PROT_WRITE && !a->may_write)
				return -EACCES;
			result = areas_set(m, &changed);
			if (result == 0)
				result = tables_sync(m, at, next, how_to_map(&changed));
			if (result)
				return result;
		}
		at = next;
	}
	return 0;
}

int mem_move(struct mem *m, uint64_t from, uint64_t to, uint64_t length)
{
	uint64_t start = from;
	uint64_t next;
	uint8_t *source;

	for (; (source = next_piece(m, &start, from + length, &next)); start = next) {
		uint64_t target = to + (start - from);
		/* tables_bind() may move the table of blocks, never the memory. */
		struct block *b = tables_bind(m, target);

		if (!b)
			return -ENOMEM;
		next = start + (to_block_end(target, target + (next - start)) - target);
		if (try_copy(m->host + (uint64_t)b->chunk * CHUNK + target % CHUNK, source,
			    next - start))
			return -EFAULT;
	}
	return 0;
}

int mem_flush(struct mem *m)
{
	uint32_t room = (AT_EDITS_END - AT_EDITS) / sizeof(struct edit);
	uint32_t done = 0;

	while (done < m->edits_count && !m->is_broken) {
		uint32_t count = m->edits_count - done < room ? m->edits_count - done : room;

		memcpy(m->host + AT_EDITS, &m->edits[done], count * sizeof(struct edit));
		if (vcpu_edit(m->cpu, count))
			m->is_broken = true;
		done += count;
	}
	if (m->is_broken)
		return -1;
	m->edits_count = 0;
	return 0;
}

int mem_fault(struct mem *m, uint64_t address, uint64_t error_code)
{
	bool to_write = error_code & 2;
	bool to_execute = error_code & 16;
	const struct area *a = address < ADDRESS_END ? mem_find(m, address) : NULL;
	uint64_t start = address & ~(CHUNK - 1);
	uint64_t end = start + CHUNK;

	if (!a)
		return SEGV_MAPERR;
	if ((to_write && !(a->protection & PROT_WRITE)) ||
		(to_execute && !(a->protection & PROT_EXEC)) ||
		!(a->protection & (PROT_READ | PROT_WRITE | PROT_EXEC)))
		return SEGV_ACCERR;
	/* There already: the processor had an old entry in mind. */
	if (tables_allow(m, address, to_write, to_execute))
		return 0;
	/* All of the area in this block: whoever touches one page will touch others. */
	start = a->start > start ? a->start : start;
	end = a->end < end ? a->end : end;
	/* No memory: as if it were not there, for want of anything better. */
	return tables_sync(m, start, end, TABLES_BIND) ? SEGV_MAPERR : 0;
}
