#include "testing.h"

#include "vmm/put_back.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PAGES = 2048, KEPT_PAGE = 40, RUNS = 16 };

static int image_fd;
static uint8_t *image;
static uint8_t *memory; /* a private copy of it */

static int set_up(void **state)
{
	(void)state;
	image_fd = memfd_create("image", MFD_CLOEXEC);
	assert_int_equal(ftruncate(image_fd, PAGES * PAGE_BYTES), 0);
	image = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, image_fd, 0);
	memory = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, image_fd, 0);
	for (int i = 0; i < PAGES; i++)
		memset(image + i * PAGE_BYTES, i % 251, PAGE_BYTES);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	munmap(image, PAGES * PAGE_BYTES);
	munmap(memory, PAGES * PAGE_BYTES);
	return close(image_fd);
}

static void write_page(int page)
{
	memory[page * PAGE_BYTES + 17] ^= 0xff;
}

static int find(const struct dirty_range **ret)
{
	struct err e = { 0 };
	int count = dirty_find(memory, PAGES * PAGE_BYTES, ret, &e);

	assert_true(count >= 0);
	return count;
}

static int count_own(void)
{
	const struct dirty_range *ranges;
	int count = find(&ranges);
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += ranges[i].end - ranges[i].start;
	return (int)(sum / PAGE_BYTES);
}

static bool is_kept(const void *context, uint64_t at)
{
	assert_ptr_equal(context, image);
	return at == KEPT_PAGE * PAGE_BYTES;
}

static void put_all_back(void)
{
	const struct dirty_range *ranges;
	int count = find(&ranges);

	put_back(memory, image, ranges, count, is_kept, image);
	assert_memory_equal(memory, image, PAGES * PAGE_BYTES);
}

static void what_all_runs_write_stays_ours(void **state)
{
	(void)state;
	for (int run = 0; run < RUNS; run++) {
		for (int page = 0; page < PAGES; page += 4)
			write_page(page);
		put_all_back();
		assert_int_equal(count_own(), PAGES / 4);
	}
}

static void what_one_run_wrote_is_given_back_after_some_others(void **state)
{
	(void)state;
	for (int page = 0; page < PAGES; page += 2)
		write_page(page);
	put_all_back();
	assert_int_equal(count_own(), PAGES / 2);
	for (int run = 0; run < RUNS; run++) {
		for (int page = 0; page < 20; page++)
			write_page(page);
		put_all_back();
	}
	assert_int_equal(count_own(), 20 + 1);
}

static void a_large_piece_is_given_back_at_once(void **state)
{
	(void)state;
	for (int page = 500; page < 1000; page++)
		write_page(page);
	write_page(3);
	put_all_back();
	assert_int_equal(count_own(), 1);
}

static void little_is_kept_for_ever(void **state)
{
	(void)state;
	for (int page = 0; page < 200; page += 2)
		write_page(page);
	for (int run = 0; run < RUNS; run++)
		put_all_back();
	assert_int_equal(count_own(), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_all_runs_write_stays_ours, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_one_run_wrote_is_given_back_after_some_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_large_piece_is_given_back_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(little_is_kept_for_ever, set_up, tear_down),
	};
	struct err e = { 0 };
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (proc_fd < 0 || dirty_open(proc_fd, &e))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
