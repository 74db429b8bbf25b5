#include "vmm/areas.h"

#include "vmm/stub/layout.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Where mappings go that may go anywhere. Apart, so that plain data share blocks with plain data
 * (see want() in tables.c). */
#define PLACE_FILES    0x7d0000000000UL
#define PLACE_DATA     0x7e0000000000UL
#define PLACE_RESERVED 0x7e8000000000UL
#define PLACE_END      0x7f0000000000UL
/* Hints are followed below this: some programs keep short pointers. Above it they are wishes for
 * disorder, and every mapping in another gigabyte costs two page tables. */
#define HINTS_END (1UL << 40)
#define AREAS_MAX 65530

uint32_t mem_first(const struct mem *m, uint64_t address)
{
	uint32_t low = 0;
	uint32_t high = m->areas_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (m->areas[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct area *mem_find(const struct mem *m, uint64_t address)
{
	uint32_t i = mem_first(m, address);

	return i < m->areas_count && m->areas[i].start <= address ? &m->areas[i] : NULL;
}

bool mem_is_free(const struct mem *m, uint64_t start, uint64_t end)
{
	uint32_t i = mem_first(m, start);

	return i == m->areas_count || m->areas[i].start >= end;
}

static uint64_t first_fit(const struct mem *m, uint64_t from, uint64_t to, uint64_t length)
{
	uint64_t align = length >= CHUNK ? CHUNK : PAGE;
	uint64_t at = from;

	for (uint32_t i = mem_first(m, from); i < m->areas_count && m->areas[i].start < at + length;
		i++)
		if (m->areas[i].end > at)
			at = (m->areas[i].end + align - 1) / align * align;
	return at + length <= to ? at : 0;
}

uint64_t mem_place(
	const struct mem *m, uint64_t hint, uint64_t length, unsigned protection, bool is_file)
{
	uint64_t at;

	if (length > ADDRESS_END)
		return 0;
	hint = PAGE_DOWN(hint);
	if (hint >= LOW_END && length <= HINTS_END && hint <= HINTS_END - length &&
		mem_is_free(m, hint, hint + length))
		return hint;
	if (protection == PROT_NONE)
		at = first_fit(m, PLACE_RESERVED, PLACE_END, length);
	else if (is_file || protection & PROT_EXEC)
		at = first_fit(m, PLACE_FILES, PLACE_DATA, length);
	else
		at = first_fit(m, PLACE_DATA, PLACE_RESERVED, length);
	return at ? at : first_fit(m, 0x100000000000UL, PLACE_FILES, length);
}

static int insert(struct mem *m, uint32_t at, const struct area *area)
{
	if (m->areas_count >= AREAS_MAX)
		return -ENOMEM;
	m->areas = mem_grow(m->areas, &m->areas_room, m->areas_count + 1, sizeof(*m->areas));
	memmove(&m->areas[at + 1], &m->areas[at], (m->areas_count - at) * sizeof(*m->areas));
	m->areas[at] = *area;
	m->areas_count++;
	return 0;
}

void areas_delete(struct mem *m, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	memmove(&m->areas[from], &m->areas[to], (m->areas_count - to) * sizeof(*m->areas));
	m->areas_count -= to - from;
}

int areas_split(struct mem *m, uint64_t at)
{
	uint32_t i = mem_first(m, at);
	struct area upper;
	int result;

	if (i == m->areas_count || m->areas[i].start >= at)
		return 0;
	upper = m->areas[i];
	upper.start = at;
	upper.offset += at - m->areas[i].start;
	result = insert(m, i + 1, &upper);
	if (result == 0)
		m->areas[i].end = at;
	return result;
}

static bool joins(const struct area *lower, const struct area *upper)
{
	return lower->end == upper->start && lower->protection == upper->protection &&
	       lower->kind == upper->kind && lower->name == upper->name &&
	       lower->may_write == upper->may_write &&
	       (lower->kind == AREA_ANONYMOUS || lower->kind == AREA_HEAP ||
		       lower->offset + (lower->end - lower->start) == upper->offset);
}

static void join(struct mem *m, uint32_t i)
{
	if (i + 1 < m->areas_count && joins(&m->areas[i], &m->areas[i + 1])) {
		m->areas[i].end = m->areas[i + 1].end;
		areas_delete(m, i + 1, i + 2);
	}
}

int areas_set(struct mem *m, const struct area *area)
{
	uint32_t from;
	uint32_t to;
	int result = areas_split(m, area->start);

	if (result == 0)
		result = areas_split(m, area->end);
	if (result)
		return result;
	from = mem_first(m, area->start);
	to = mem_first(m, area->end);
	while (to < m->areas_count && m->areas[to].start < area->end)
		to++;
	areas_delete(m, from, to);
	result = insert(m, from, area);
	if (result)
		return result;
	join(m, from);
	if (from > 0)
		join(m, from - 1);
	return 0;
}
