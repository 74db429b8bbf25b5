#include "testing.h"

#include "vmm/call_fd.h"
#include "vmm/device.h"
#include "vmm/recipe.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As node holds them: an epoll set, a pipe with a byte in it, an empty one, an event, a device. */
enum { SET = 3, OUT, IN, EMPTY_OUT, EMPTY_IN, EVENT, DEVICE, COPY, END };

static struct guest guest = { .open_files = VMM_GUEST_FDS };
static struct buf written;
static struct recipes recipes;
static const struct epoll_watch watch = { SET, EVENT, EPOLLIN, 77 };

static void forget_all(void)
{
	syscall(SYS_close_range, RECIPES_FROM, VMM_GUEST_FDS - 1, 0);
	for (int fd = 0; fd < VMM_GUEST_FDS; fd++)
		fds_forget(fd);
}

static void make_pipe(int out, int flags)
{
	uint32_t object = fds_new_object();
	int ends[2];

	assert_int_equal(pipe2(ends, flags), 0);
	assert_int_equal(ends[0], out);
	fds_set_origin(ends[0], ORIGIN_PIPE_OUT, object, false);
	fds_set_origin(ends[1], ORIGIN_PIPE_IN, object, false);
}

static int set_up(void **state)
{
	struct err e = { 0 };

	(void)state;
	forget_all();
	assert_int_equal(call_epoll_create1(&guest, (uint64_t[6]){ EPOLL_CLOEXEC }), SET);
	make_pipe(OUT, 0);
	assert_int_equal(write(IN, "*", 1), 1);
	make_pipe(EMPTY_OUT, O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(call_eventfd2(&guest, (uint64_t[6]){ 5, EFD_NONBLOCK }), EVENT);
	assert_int_equal(device_open(&guest, FD_NULL, O_RDONLY | O_CLOEXEC), DEVICE);
	assert_int_equal(call_dup(&guest, (uint64_t[6]){ EVENT }), COPY);
	assert_int_equal(epoll_watch_again(&watch, 1), 0);

	written.len = 0;
	recipes = (struct recipes){ .watches = &watch, .watches_count = 1 };
	assert_int_equal(recipe_take(&written, &recipes.count, &e), 0);
	recipes.at = (const struct recipe *)(const void *)written.data;
	forget_all();
	return 0;
}

static void make(void)
{
	struct err e = { 0 };

	assert_int_equal(recipe_make(&recipes, &e), 0);
}

static bool has_flag(int fd, int flag)
{
	return (fcntl(fd, F_GETFL) & flag) != 0;
}

/* All that a program can find out about them. */
static void expect_as_written(void)
{
	struct epoll_event events[2];
	uint64_t count = 0;
	char data[64];
	uint32_t watches;

	assert_int_equal(recipes.count, END - SET);
	assert_int_equal(fcntl(END, F_GETFD), -1);
	assert_int_equal(fcntl(SET, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(OUT, F_GETFD), 0);
	assert_int_equal(fcntl(EMPTY_IN, F_GETFD), FD_CLOEXEC);
	assert_false(has_flag(OUT, O_NONBLOCK));
	assert_true(has_flag(EMPTY_OUT, O_NONBLOCK) && has_flag(EMPTY_IN, O_NONBLOCK));
	assert_int_equal(fds_kind(DEVICE), FD_NULL);

	assert_int_equal(epoll_wait(SET, events, 2, 0), 1);
	assert_int_equal(events[0].data.u64, 77);
	epoll_watches(&watches);
	assert_int_equal(watches, 1);

	assert_int_equal(read(OUT, data, sizeof(data)), 1);
	assert_int_equal(data[0], '*');
	assert_int_equal(read(EMPTY_OUT, data, sizeof(data)), -1);
	assert_int_equal(errno, EAGAIN);
	/* The copy is the same event. */
	assert_int_equal(read(COPY, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 5);
	assert_int_equal(read(EVENT, &count, sizeof(count)), -1);
}

static void descriptors_are_made_as_they_were(void **state)
{
	(void)state;
	make();
	expect_as_written();
	assert_int_equal(write(EMPTY_IN, "x", 1), 1);
}

static void nothing_that_a_run_did_to_them_stays(void **state)
{
	struct epoll_event more = { .events = EPOLLIN, .data.u64 = 1 };
	uint64_t count = 1000;
	char data[64];

	(void)state;
	make();
	assert_int_equal(read(OUT, data, sizeof(data)), 1);
	assert_int_equal(write(IN, "left", 4), 4);
	assert_int_equal(write(EMPTY_IN, "left", 4), 4);
	assert_int_equal(write(EVENT, &count, sizeof(count)), sizeof(count));
	assert_int_equal(epoll_ctl(SET, EPOLL_CTL_ADD, EMPTY_OUT, &more), 0);
	assert_int_equal(epoll_ctl(SET, EPOLL_CTL_DEL, EVENT, NULL), 0);
	assert_int_equal(fcntl(OUT, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(EMPTY_IN, F_SETFL, 0), 0);
	assert_int_equal(fcntl(SET, F_SETFD, 0), 0);
	assert_int_equal(dup2(OUT, DEVICE), DEVICE);
	assert_int_equal(fcntl(OUT, F_DUPFD, 100), 100);
	close(IN);
	forget_all();
	make();
	expect_as_written();
	assert_int_equal(fcntl(100, F_GETFD), -1);
}

/* The numbers that they want are taken by others meanwhile, or those below them are free. */
static void numbers_need_not_come_in_order(void **state)
{
	int kept = fcntl(0, F_DUPFD, VMM_OWN_FDS);

	(void)state;
	close(0);
	make();
	expect_as_written();
	assert_int_equal(fcntl(0, F_GETFD), -1);
	if (kept >= 0)
		dup2(kept, 0);
}

static void half_a_pipe_stays_half_a_pipe(void **state)
{
	struct err e = { 0 };
	char byte;

	(void)state;
	make_pipe(SET, 0);
	close(SET + 1);
	fds_forget(SET + 1);
	written.len = 0;
	recipes = (struct recipes){ 0 };
	assert_int_equal(recipe_take(&written, &recipes.count, &e), 0);
	recipes.at = (const struct recipe *)(const void *)written.data;
	forget_all();
	make();
	assert_int_equal(fcntl(SET + 1, F_GETFD), -1);
	assert_int_equal(read(SET, &byte, 1), 0);
}

static void what_cannot_be_made_again_is_refused(void **state)
{
	struct err e = { 0 };
	uint32_t count;

	(void)state;
	assert_int_equal(fds_new(&guest, open("/dev/null", O_RDONLY | O_CLOEXEC)), SET);
	assert_int_equal(recipe_take(&written, &count, &e), -1);
	assert_non_null(strstr(e.text, "descriptor 3"));

	forget_all();
	make_pipe(SET, 0);
	for (int i = 0; i <= RECIPE_DATA_MAX; i++)
		assert_int_equal(write(SET + 1, "x", 1), 1);
	assert_int_equal(recipe_take(&written, &count, &e), -1);
	assert_non_null(strstr(e.text, "much in the pipe"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(descriptors_are_made_as_they_were, set_up),
		cmocka_unit_test_setup(nothing_that_a_run_did_to_them_stays, set_up),
		cmocka_unit_test_setup(numbers_need_not_come_in_order, set_up),
		cmocka_unit_test_setup(half_a_pipe_stays_half_a_pipe, set_up),
		cmocka_unit_test_setup(what_cannot_be_made_again_is_refused, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
