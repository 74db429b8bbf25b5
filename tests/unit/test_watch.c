#include "testing.h"

#include "cell/watch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MiB (1024ULL * 1024)

static int ready[2];

static void tell_ready(void)
{
	if (write(ready[1], "x", 1) != 1)
		_exit(1);
}

static void wait_ready(unsigned count)
{
	char c;

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(read(ready[0], &c, 1), 1);
}

/* A child that does `what`, says so, and stays until it is killed; it dies with us. */
static pid_t start(void (*what)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		what();
		tell_ready();
		for (;;)
			pause();
	}
	return pid;
}

static int pipe_make(void **state)
{
	(void)state;
	return pipe(ready);
}

static int pipe_clear(void **state)
{
	(void)state;
	close(ready[0]);
	close(ready[1]);
	return 0;
}

#define TEST_WITH_PIPE(name) cmocka_unit_test_setup_teardown(name, pipe_make, pipe_clear)

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static struct watch_sum look(pid_t keeper)
{
	struct watch_sum sum;

	watch_descendants(keeper, false, &sum);
	return sum;
}

static void do_nothing(void)
{
}

static void have_a_child(void)
{
	/* A name that looks like the fields behind it. */
	prctl(PR_SET_NAME, ") R 1 1 1 (");
	start(do_nothing);
}

static void have_three_children(void)
{
	start(do_nothing);
	start(have_a_child);
	start(do_nothing);
}

static void every_descendant_is_counted_and_the_keeper_is_not(void **state)
{
	pid_t keeper = start(have_three_children);
	pid_t bystander = start(do_nothing);

	(void)state;
	wait_ready(6);
	assert_int_equal(look(keeper).processes, 4);
	assert_int_equal(look(bystander).processes, 0);
	end(keeper);
	end(bystander);
}

static void a_keeper_that_is_gone_uses_nothing(void **state)
{
	pid_t keeper = start(do_nothing);
	struct watch_sum sum;

	(void)state;
	wait_ready(1);
	assert_true(look(keeper).memory_bytes > 0);
	end(keeper);
	sum = look(keeper);
	assert_int_equal(sum.memory_bytes, 0);
	assert_int_equal(sum.cpu_us, 0);
	assert_int_equal(sum.processes, 0);
}

static void fill_memory(void)
{
	char *memory = malloc(64 * MiB);

	if (!memory)
		_exit(1);
	memset(memory, 'm', 64 * MiB);
	__asm__ volatile("" : : "r"(memory) : "memory"); /* or the compiler leaves it out */
}

static void fill_memory_in_a_child(void)
{
	start(fill_memory);
}

static void memory_of_descendants_counts(void **state)
{
	pid_t keeper = start(fill_memory_in_a_child);
	uint64_t bytes;

	(void)state;
	wait_ready(2);
	bytes = look(keeper).memory_bytes;
	assert_true(bytes >= 64 * MiB);
	assert_true(bytes < 256 * MiB);
	end(keeper);
}

static void share_memory(void)
{
	char *memory =
		mmap(NULL, 64 * MiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	memset(memory, 's', 64 * MiB);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (size_t at = 0; at < 64 * MiB; at += 4096)
				__asm__ volatile("" : : "r"(((volatile char *)memory)[at]));
			tell_ready();
			for (;;)
				pause();
		}
	}
}

static void memory_that_several_share_counts_once(void **state)
{
	pid_t keeper = start(share_memory);
	uint64_t bytes;

	(void)state;
	wait_ready(4);
	bytes = look(keeper).memory_bytes;
	assert_true(bytes >= 64 * MiB);
	assert_true(bytes < 160 * MiB);
	end(keeper);
}

static void fill_memfd(void)
{
	int fd = memfd_create("hidden", 0);
	char *piece = calloc(1, MiB);

	/* Written, never mapped: it is in no process's share. */
	for (int i = 0; piece && i < 64; i++)
		if (fd < 0 || write(fd, piece, MiB) != (ssize_t)MiB)
			_exit(1);
	free(piece);
	if (fork() == 0) { /* the same file in two processes */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		tell_ready();
		for (;;)
			pause();
	}
}

static void files_that_exist_in_memory_only_count_once(void **state)
{
	pid_t keeper = start(fill_memfd);
	uint64_t bytes;

	(void)state;
	wait_ready(2);
	bytes = look(keeper).memory_bytes;
	assert_true(bytes >= 64 * MiB);
	assert_true(bytes < 120 * MiB);
	end(keeper);
}

static void burn(void)
{
	while (clock() < CLOCKS_PER_SEC / 4)
		;
}

static void burn_in_a_child_that_ends(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		burn();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void processor_time_counts_also_of_children_that_were_reaped(void **state)
{
	pid_t burning = start(burn);
	pid_t reaping = start(burn_in_a_child_that_ends);
	pid_t idle = start(do_nothing);

	(void)state;
	wait_ready(3);
	assert_true(look(burning).cpu_us >= 200000);
	assert_true(look(reaping).cpu_us >= 200000);
	assert_true(look(idle).cpu_us < 200000);
	end(burning);
	end(reaping);
	end(idle);
}

static void looking_leaves_no_descriptor_open(void **state)
{
	unsigned before = count_open_fds();

	(void)state;
	for (int i = 0; i < 3; i++)
		look(getpid());
	assert_int_equal(count_open_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_WITH_PIPE(every_descendant_is_counted_and_the_keeper_is_not),
		TEST_WITH_PIPE(a_keeper_that_is_gone_uses_nothing),
		TEST_WITH_PIPE(memory_of_descendants_counts),
		TEST_WITH_PIPE(memory_that_several_share_counts_once),
		TEST_WITH_PIPE(files_that_exist_in_memory_only_count_once),
		TEST_WITH_PIPE(processor_time_counts_also_of_children_that_were_reaped),
		TEST(looking_leaves_no_descriptor_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
