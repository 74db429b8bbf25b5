/* Guest memory without a processor: page tables are written at once, unless a test says otherwise. */
#include "testing.h"

#include "base/own.h"
#include "vmm/mem.h"
#include "vmm/tables.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define AT         0x10000000000UL /* the beginning of a block */
#define READ_WRITE (PROT_READ | PROT_WRITE)
#define LEAF       0x80ULL
#define WRITABLE   0x02ULL

enum { SIZE = 512 << 20 };

static struct mem m;

static int make(void **state)
{
	struct err e = { 0 };

	(void)state;
	if (mem_open(&m, SIZE, &e))
		return -1;
	tables_init(&m, true);
	return 0;
}

static int clear(void **state)
{
	(void)state;
	mem_close(&m);
	return 0;
}

static int map(uint64_t page, uint64_t pages, unsigned protection)
{
	const struct area area = { .start = AT + page * PAGE,
		.end = AT + (page + pages) * PAGE,
		.protection = (uint8_t)protection };

	return mem_map(&m, &area);
}

static void expect_area(uint32_t i, uint64_t page, uint64_t pages, unsigned protection)
{
	assert_in_range(i + 1, 1, m.areas_count);
	assert_int_equal(m.areas[i].start, AT + page * PAGE);
	assert_int_equal(m.areas[i].end, AT + (page + pages) * PAGE);
	assert_int_equal(m.areas[i].protection, protection);
}

static bool may(uint64_t page, bool to_write)
{
	return tables_allow(&m, AT + page * PAGE, to_write, false);
}

static uint64_t *directory_entry(uint64_t address)
{
	uint64_t *table = (uint64_t *)(void *)(m.host + AT_PML4);
	const unsigned shifts[] = { 39, 30 };

	for (size_t i = 0; i < COUNT(shifts); i++)
		table = (uint64_t *)(void *)(m.host +
					     (table[address >> shifts[i] & 511] & 0xffffffffff000));
	return &table[address >> 21 & 511];
}

/* ---- areas ---- */

static void neighbours_that_are_alike_become_one(void **state)
{
	(void)state;
	assert_int_equal(map(0, 1, READ_WRITE), 0);
	assert_int_equal(map(2, 1, READ_WRITE), 0);
	assert_int_equal(m.areas_count, 2);
	assert_int_equal(map(1, 1, READ_WRITE), 0);
	assert_int_equal(m.areas_count, 1);
	expect_area(0, 0, 3, READ_WRITE);
	assert_int_equal(map(3, 1, PROT_READ), 0);
	assert_int_equal(m.areas_count, 2);
}

static void a_hole_splits_an_area(void **state)
{
	(void)state;
	assert_int_equal(map(0, 10, READ_WRITE), 0);
	assert_int_equal(mem_unmap(&m, AT + 3 * PAGE, AT + 5 * PAGE), 0);
	assert_int_equal(m.areas_count, 2);
	expect_area(0, 0, 3, READ_WRITE);
	expect_area(1, 5, 5, READ_WRITE);
	assert_null(mem_find(&m, AT + 4 * PAGE));
	assert_non_null(mem_find(&m, AT + 3 * PAGE - 1));
	assert_true(mem_is_free(&m, AT + 3 * PAGE, AT + 5 * PAGE));
	assert_false(mem_is_free(&m, AT + 3 * PAGE, AT + 5 * PAGE + 1));
}

static void a_new_area_replaces_what_is_there_and_is_zero(void **state)
{
	uint64_t value = 7;

	(void)state;
	assert_int_equal(map(0, 10, READ_WRITE), 0);
	assert_int_equal(mem_write(&m, AT + 4 * PAGE, &value, sizeof(value)), 0);
	assert_int_equal(map(2, 6, PROT_READ), 0);
	assert_int_equal(m.areas_count, 3);
	expect_area(1, 2, 6, PROT_READ);
	assert_int_equal(mem_read(&m, &value, AT + 4 * PAGE, sizeof(value)), 0);
	assert_int_equal(value, 0);
}

static void protection_splits_and_joins(void **state)
{
	(void)state;
	assert_int_equal(map(0, 8, READ_WRITE), 0);
	assert_int_equal(mem_protect(&m, AT + 2 * PAGE, AT + 4 * PAGE, PROT_READ), 0);
	assert_int_equal(m.areas_count, 3);
	assert_true(may(1, true) && may(2, false) && !may(2, true) && may(4, true));
	assert_int_equal(mem_protect(&m, AT + 2 * PAGE, AT + 4 * PAGE, READ_WRITE), 0);
	assert_int_equal(m.areas_count, 1);
	assert_true(may(2, true));
	assert_int_equal(mem_protect(&m, AT + 6 * PAGE, AT + 9 * PAGE, PROT_READ), -ENOMEM);
}

static void there_is_an_end_to_areas(void **state)
{
	int result = 0;

	(void)state;
	assert_int_equal(map(0, 1 << 18, PROT_NONE), 0);
	for (uint64_t page = 0; page < 1 << 18 && result == 0; page += 2)
		result = mem_protect(&m, AT + page * PAGE, AT + (page + 1) * PAGE, PROT_READ);
	assert_int_equal(result, -ENOMEM);
	assert_int_equal(m.areas_count, 65530);
	assert_int_equal(mem_unmap(&m, AT, AT + (PAGE << 18)), 0);
	assert_int_equal(m.areas_count, 0);
}

/* ---- places ---- */

static void the_first_place_that_fits_is_taken(void **state)
{
	uint64_t first = mem_place(&m, 0, 4 * PAGE, READ_WRITE, false);
	struct area area = { .start = first, .end = first + 4 * PAGE, .protection = READ_WRITE };

	(void)state;
	assert_int_equal(mem_map(&m, &area), 0);
	assert_int_equal(mem_place(&m, 0, PAGE, READ_WRITE, false), first + 4 * PAGE);
	assert_int_equal(mem_unmap(&m, first + PAGE, first + 3 * PAGE), 0);
	assert_int_equal(mem_place(&m, 0, 2 * PAGE, READ_WRITE, false), first + PAGE);
	assert_int_equal(mem_place(&m, 0, 3 * PAGE, READ_WRITE, false), first + 4 * PAGE);
	/* Large ones begin with a block. */
	assert_int_equal(mem_place(&m, 0, CHUNK, READ_WRITE, false) % CHUNK, 0);
}

static void hints_are_wishes(void **state)
{
	(void)state;
	assert_int_equal(mem_place(&m, 0x40000123, PAGE, READ_WRITE, false), 0x40000000);
	assert_int_not_equal(mem_place(&m, PAGE, PAGE, READ_WRITE, false), PAGE);
	assert_int_equal(mem_place(&m, 0, 1UL << 63, READ_WRITE, false), 0);
	/* One whose end is before its beginning wrote over our own memory once. */
	for (uint64_t pages = 1; pages < 4; pages++) {
		uint64_t at = mem_place(&m, UINT64_MAX - PAGE + 1, pages * PAGE, READ_WRITE, false);

		assert_in_range(at, LOW_END, ADDRESS_END - pages * PAGE);
	}
}

/* ---- tables ---- */

static void plain_data_share_one_large_entry(void **state)
{
	(void)state;
	assert_int_equal(map(0, 4, READ_WRITE), 0);
	assert_int_equal(map(100, 4, READ_WRITE), 0);
	assert_true(*directory_entry(AT) & LEAF);
	/* What lies between may be touched: nobody is hurt, and it costs nothing to map it later. */
	assert_true(may(50, true));
	assert_int_equal(mem_fault(&m, AT + 50 * PAGE, 2), SEGV_MAPERR);
}

static void reserved_pages_are_never_touched(void **state)
{
	(void)state;
	assert_int_equal(map(0, 4, READ_WRITE), 0);
	assert_int_equal(map(4, 1, PROT_NONE), 0);
	assert_false(*directory_entry(AT) & LEAF);
	assert_true(may(3, true));
	assert_false(may(4, false));
	assert_int_equal(mem_fault(&m, AT + 4 * PAGE, 0), SEGV_ACCERR);
	/* And beside them nothing else is either. */
	assert_false(may(50, false));
}

static void a_block_of_one_kind_is_one_large_entry(void **state)
{
	(void)state;
	assert_int_equal(map(0, 512, PROT_READ), 0);
	assert_true(*directory_entry(AT) & LEAF);
	assert_false(*directory_entry(AT) & WRITABLE);
	assert_int_equal(map(512, 511, PROT_READ), 0);
	assert_false(*directory_entry(AT + CHUNK) & LEAF);
}

static void code_is_not_written_and_data_not_executed(void **state)
{
	(void)state;
	assert_int_equal(map(0, 1, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(map(1, 1, READ_WRITE), 0);
	assert_true(tables_allow(&m, AT, false, true));
	assert_false(tables_allow(&m, AT, true, false));
	assert_false(tables_allow(&m, AT + PAGE, false, true));
	assert_int_equal(mem_fault(&m, AT, 2), SEGV_ACCERR);
	assert_int_equal(mem_fault(&m, AT + PAGE, 16), SEGV_ACCERR);
}

static void memory_comes_when_it_is_touched(void **state)
{
	(void)state;
	assert_int_equal(map(0, (1UL << 30) / PAGE, READ_WRITE), 0);
	assert_null(tables_block(&m, AT));
	assert_int_equal(mem_fault(&m, AT + 5 * CHUNK, 2), 0);
	assert_non_null(tables_block(&m, AT + 5 * CHUNK));
	assert_null(tables_block(&m, AT + 4 * CHUNK));
	assert_true(tables_allow(&m, AT + 5 * CHUNK, true, false));
}

static void a_block_that_is_empty_gives_its_chunk_back(void **state)
{
	uint32_t chunk;

	(void)state;
	assert_int_equal(map(0, 512, READ_WRITE), 0);
	chunk = tables_block(&m, AT)->chunk;
	assert_int_equal(mem_unmap(&m, AT, AT + CHUNK), 0);
	assert_null(tables_block(&m, AT));
	assert_false(may(0, false));
	assert_int_equal(map(10 * 512, 512, READ_WRITE), 0);
	assert_int_equal(tables_block(&m, AT + 10 * CHUNK)->chunk, chunk);
}

static void out_of_chunks_is_out_of_memory(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < SIZE / CHUNK - 1; i++)
		assert_int_equal(map(i * 512, 1, READ_WRITE), 0);
	assert_int_equal(map(SIZE / PAGE, 1, READ_WRITE), -ENOMEM);
	assert_int_equal(mem_fault(&m, AT + SIZE, 2), SEGV_MAPERR);
}

static void a_file_that_cannot_be_mapped_leaves_nothing_behind(void **state)
{
	const struct area area = { .start = AT,
		.end = AT + SIZE * 2UL,
		.kind = AREA_SHARED,
		.protection = READ_WRITE,
		.may_write = true };
	uint64_t value = 7;

	(void)state;
	assert_int_equal(mem_map_file(&m, &area, -1), -ENOMEM);
	assert_int_equal(m.areas_count, 0);
	assert_int_equal(m.blocks_count, 0);
	assert_int_equal(mem_write(&m, AT, &value, sizeof(value)), -EFAULT);
	assert_int_equal(map(0, 1, READ_WRITE), 0);
}

/* ---- the editor's list ---- */

static void what_is_present_is_changed_by_the_editor(void **state)
{
	struct vcpu nobody = { .fd = -1, .vm_fd = -1 };
	uint64_t before;

	(void)state;
	assert_int_equal(map(0, 512, READ_WRITE), 0);
	m.cpu = &nobody; /* from now on somebody may have seen it */
	m.in_slots = m.size;
	before = *directory_entry(AT);
	assert_int_equal(mem_protect(&m, AT, AT + CHUNK, PROT_READ), 0);
	assert_int_equal(*directory_entry(AT), before);
	assert_int_equal(m.edits_count, 1);
	assert_int_equal(m.edits[0].address, AT);
	assert_int_equal(m.edits[0].value, before & ~WRITABLE);
	assert_int_equal(m.edits[0].entry, (uint64_t)((uint8_t *)directory_entry(AT) - m.host));
	/* What was absent nobody has seen. */
	assert_int_equal(map(512, 512, READ_WRITE), 0);
	assert_int_equal(m.edits_count, 1);
	assert_true(tables_allow(&m, AT + CHUNK, true, false));
}

static void a_failed_editor_stops_everything(void **state)
{
	(void)state;
	m.is_broken = true;
	assert_int_equal(mem_flush(&m), -1);
	assert_int_equal(mem_flush(&m), -1);
}

/* ---- the program's memory, for the VMM ---- */

static void only_what_the_program_may_touch_is_touched_for_it(void **state)
{
	char text[8];
	uint64_t value = 1;

	(void)state;
	assert_int_equal(map(0, 1, PROT_READ), 0);
	assert_int_equal(map(2, 1, READ_WRITE), 0);
	assert_int_equal(map(3, 1, PROT_NONE), 0);
	assert_int_equal(mem_read(&m, &value, AT, 8), 0);
	assert_int_equal(mem_write(&m, AT, &value, 8), -EFAULT);
	assert_int_equal(mem_read(&m, &value, AT + PAGE, 8), -EFAULT);
	assert_int_equal(mem_write(&m, AT + 3 * PAGE - 4, &value, 8), -EFAULT);
	assert_int_equal(mem_read(&m, &value, AT + 3 * PAGE, 1), -EFAULT);
	assert_int_equal(mem_read(&m, &value, AT_SHARED, 8), -EFAULT);
	assert_int_equal(mem_read(&m, &value, UINT64_MAX - 3, 8), -EFAULT);
	assert_int_equal(mem_read(&m, &value, 1UL << 47, 8), -EFAULT);
	assert_int_equal(mem_string(&m, text, AT + PAGE - 1, sizeof(text)), 0);
}

static void a_string_ends_where_it_must(void **state)
{
	char text[600];
	char long_one[512];

	(void)state;
	memset(long_one, 'x', sizeof(long_one));
	assert_int_equal(map(0, 2, READ_WRITE), 0);
	assert_int_equal(mem_write(&m, AT + 2 * PAGE - 512, long_one, 512), 0);
	assert_int_equal(mem_string(&m, text, AT + 2 * PAGE - 512, sizeof(text)), -EFAULT);
	assert_int_equal(mem_string(&m, text, AT + 2 * PAGE - 512, 512), -ENAMETOOLONG);
	assert_int_equal(mem_write(&m, AT + 2 * PAGE - 1, "", 1), 0);
	assert_int_equal(mem_string(&m, text, AT + 2 * PAGE - 512, 512), 511);
	assert_int_equal(mem_string(&m, text, AT + 2 * PAGE - 512, 511), -ENAMETOOLONG);
	/* Across a page. */
	assert_int_equal(mem_write(&m, AT + PAGE - 2, "abcd", 5), 0);
	assert_int_equal(mem_string(&m, text, AT + PAGE - 2, sizeof(text)), 4);
	assert_string_equal(text, "abcd");
}

static void pieces_are_joined_and_counted(void **state)
{
	struct iovec pieces[4];

	(void)state;
	assert_int_equal(map(0, 1024, READ_WRITE), 0);
	assert_int_equal(mem_protect(&m, AT + PAGE, AT + 2 * PAGE, PROT_READ | PROT_EXEC), 0);
	/* Three areas, but one stretch of our memory. */
	assert_int_equal(mem_pieces(&m, AT, 3 * PAGE, false, pieces, 4), 1);
	assert_int_equal(pieces[0].iov_len, 3 * PAGE);
	/* To be written it ends at what may not be. */
	assert_int_equal(mem_pieces(&m, AT, 3 * PAGE, true, pieces, 4), 1);
	assert_int_equal(pieces[0].iov_len, PAGE);
	assert_int_equal(mem_pieces(&m, AT + PAGE, 1, true, pieces, 4), -EFAULT);
	assert_int_equal(mem_pieces(&m, AT, 0, true, pieces, 4), 0);
}

static void what_is_moved_arrives(void **state)
{
	uint64_t value = 7;
	uint64_t to = AT + 20 * CHUNK + 3 * PAGE;

	(void)state;
	assert_int_equal(map(0, (1UL << 40) / PAGE, READ_WRITE), 0);
	assert_int_equal(mem_write(&m, AT + CHUNK - 4, &value, sizeof(value)), 0);
	assert_int_equal(mem_write(&m, AT + 9 * CHUNK, &value, sizeof(value)), 0);
	assert_int_equal(mem_move(&m, AT, to, 10 * CHUNK), 0);
	value = 0;
	assert_int_equal(mem_read(&m, &value, to + CHUNK - 4, sizeof(value)), 0);
	assert_int_equal(value, 7);
	assert_int_equal(mem_read(&m, &value, to + 9 * CHUNK, sizeof(value)), 0);
	assert_int_equal(value, 7);
}

#define WITH_MEMORY(name) cmocka_unit_test_setup_teardown(name, make, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MEMORY(neighbours_that_are_alike_become_one),
		WITH_MEMORY(a_hole_splits_an_area),
		WITH_MEMORY(a_new_area_replaces_what_is_there_and_is_zero),
		WITH_MEMORY(protection_splits_and_joins),
		WITH_MEMORY(there_is_an_end_to_areas),
		WITH_MEMORY(the_first_place_that_fits_is_taken),
		WITH_MEMORY(hints_are_wishes),
		WITH_MEMORY(plain_data_share_one_large_entry),
		WITH_MEMORY(reserved_pages_are_never_touched),
		WITH_MEMORY(a_block_of_one_kind_is_one_large_entry),
		WITH_MEMORY(code_is_not_written_and_data_not_executed),
		WITH_MEMORY(memory_comes_when_it_is_touched),
		WITH_MEMORY(a_block_that_is_empty_gives_its_chunk_back),
		WITH_MEMORY(out_of_chunks_is_out_of_memory),
		WITH_MEMORY(a_file_that_cannot_be_mapped_leaves_nothing_behind),
		WITH_MEMORY(what_is_present_is_changed_by_the_editor),
		WITH_MEMORY(a_failed_editor_stops_everything),
		WITH_MEMORY(only_what_the_program_may_touch_is_touched_for_it),
		WITH_MEMORY(a_string_ends_where_it_must),
		WITH_MEMORY(pieces_are_joined_and_counted),
		WITH_MEMORY(what_is_moved_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
