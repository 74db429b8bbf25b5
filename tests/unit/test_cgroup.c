/* Against directories that look like groups, so that both versions are tried on every machine.
 * What the kernel makes of it is seen by tests/cli and tests/escape. */
#include "testing.h"

#include "base/fd.h"
#include "base/own.h"
#include "base/procid.h"
#include "cell/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const controllers[CONTROLLER_COUNT] = { "memory", "pids", "cpuacct", "cpu" };

struct place {
	struct scratch *scratch;
	struct cgroup_tree tree;
	struct cgroup group;
};

static struct place place;

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* A tree with all controllers, and in it the directory that the group of cell 1 will have. The
 * kernel fills such a directory with its files at once; here kernel_file() does. */
static int make_version(void **state, int version)
{
	assert_int_equal(scratch_make(state), 0);
	place.scratch = *state;
	place.tree = (struct cgroup_tree){
		.version = version, .prefix = "hotcell-1-2-3", .tasks_each = 1
	};
	cgroup_forget(&place.group);
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		const char *name = version == 1 ? controllers[i] : "unified";

		if (version == 1 || i == 0)
			make_dir(place.scratch->fd, name);
		place.tree.dir_fd[i] = open_dir(place.scratch->fd, name);
		if (version == 1 || i == 0)
			make_dir(place.tree.dir_fd[i], "hotcell-1-2-3-1");
	}
	return 0;
}

static int make_version1(void **state)
{
	return make_version(state, 1);
}

static int make_version2(void **state)
{
	return make_version(state, 2);
}

static int clear_version(void **state)
{
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		own_close(&place.group.fd[i]);
	for (int i = 0; i < FIGURE_COUNT; i++)
		own_close(&place.group.figure_fd[i]);
	cgroup_tree_close(&place.tree);
	return scratch_clear(state);
}

#define TEST_VERSION1(name) cmocka_unit_test_setup_teardown(name, make_version1, clear_version)
#define TEST_VERSION2(name) cmocka_unit_test_setup_teardown(name, make_version2, clear_version)

static void kernel_file(enum controller which, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "hotcell-1-2-3-1/%s", name);
	write_file(place.tree.dir_fd[which], path, text);
}

static void make_group(void)
{
	struct err e = { 0 };

	if (cgroup_make(&place.tree, 1, true, &place.group, &e))
		fail_msg("%s", e.text);
}

static void expect_file(enum controller which, const char *name, const char *want)
{
	char text[64];

	assert_int_equal(fd_read_text(place.group.fd[which], name, text, sizeof(text)), 0);
	assert_string_equal(text, want);
}

static void usage_is_read_from_the_files_of_version_1(void **state)
{
	struct usage usage = { 0 };

	(void)state;
	kernel_file(CONTROLLER_CPUACCT, "cpuacct.usage", "1234567890\n");
	kernel_file(CONTROLLER_MEMORY, "memory.max_usage_in_bytes", "4096000\n");
	kernel_file(CONTROLLER_MEMORY, "memory.oom_control",
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	kernel_file(CONTROLLER_PIDS, "pids.peak", "6\n");
	make_group();
	cgroup_read_usage(&place.group, &usage);
	assert_int_equal(usage.cpu_us, 1234567);
	assert_int_equal(usage.peak_memory_bytes, 4096000);
	assert_int_equal(usage.oom_kills, 3);
	/* The keeper is not the caller's. */
	assert_int_equal(usage.peak_processes, 5);
}

static void usage_is_read_from_the_files_of_version_2(void **state)
{
	struct usage usage = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "cpu.stat",
		"usage_usec 987654\nuser_usec 900000\nsystem_usec 87654\n");
	kernel_file(CONTROLLER_MEMORY, "memory.peak", "8192000\n");
	kernel_file(CONTROLLER_MEMORY, "memory.events",
		"low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n");
	kernel_file(CONTROLLER_MEMORY, "pids.peak", "2\n");
	make_group();
	cgroup_read_usage(&place.group, &usage);
	assert_int_equal(usage.cpu_us, 987654);
	assert_int_equal(usage.peak_memory_bytes, 8192000);
	assert_int_equal(usage.oom_kills, 1);
	assert_int_equal(usage.peak_processes, 1);
}

static void a_kernel_without_a_peak_gives_what_is_used_now(void **state)
{
	struct usage usage = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "memory.current", "777\n");
	make_group();
	cgroup_read_usage(&place.group, &usage);
	assert_int_equal(usage.peak_memory_bytes, 777);
	assert_int_equal(usage.peak_processes, 0);
	assert_int_equal(usage.oom_kills, 0);
}

static void a_peak_is_set_back_for_another_run(void **state)
{
	struct usage usage = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "memory.max_usage_in_bytes", "7\n");
	make_group();
	cgroup_read_usage(&place.group, &usage);
	assert_int_equal(usage.peak_memory_bytes, 7);
	cgroup_forget_peak(&place.group);
	cgroup_read_usage(&place.group, &usage);
	assert_int_equal(usage.peak_memory_bytes, 0);
}

static void files_that_say_nothing_sensible_count_as_nothing(void **state)
{
	struct usage usage = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "cpu.stat", "usage_usecs 5\n usage_usec 6\nusage_usec\n");
	kernel_file(CONTROLLER_MEMORY, "memory.peak", "max\n");
	kernel_file(CONTROLLER_MEMORY, "memory.events", "");
	make_group();
	cgroup_read_usage(&place.group, &usage);
	assert_int_equal(usage.cpu_us, 0);
	assert_int_equal(usage.peak_memory_bytes, 0);
	assert_int_equal(usage.oom_kills, 0);
}

static void a_cell_without_a_group_has_no_usage_and_no_entrances(void **state)
{
	struct usage usage = { .cpu_us = 5 };
	int tasks[CONTROLLER_COUNT];
	struct cgroup none;
	int into = 99;

	(void)state;
	cgroup_forget(&none);
	cgroup_read_usage(&none, &usage);
	assert_int_equal(usage.cpu_us, 5);
	assert_int_equal(cgroup_entrances(&none, &into, tasks), 0);
	assert_int_equal(into, -1);
	cgroup_kill(&none);
	assert_true(cgroup_remove(&none));
}

static struct limits no_limits(void)
{
	return (struct limits){ { 0 } };
}

static void limits_are_written_for_version_1(void **state)
{
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "memory.limit_in_bytes", "");
	kernel_file(CONTROLLER_MEMORY, "memory.memsw.limit_in_bytes", "");
	kernel_file(CONTROLLER_PIDS, "pids.max", "");
	kernel_file(CONTROLLER_CPU, "cpu.cfs_period_us", "");
	kernel_file(CONTROLLER_CPU, "cpu.cfs_quota_us", "");
	limits.at[LIMIT_MEMORY_BYTES] = 64 << 20;
	limits.at[LIMIT_PROCESSES] = 10;
	limits.at[LIMIT_CPUS_MILLI] = 500;
	make_group();
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	expect_file(CONTROLLER_MEMORY, "memory.limit_in_bytes", "67108864");
	expect_file(CONTROLLER_MEMORY, "memory.memsw.limit_in_bytes", "67108864");
	/* One more, for the keeper. */
	expect_file(CONTROLLER_PIDS, "pids.max", "11");
	expect_file(CONTROLLER_CPU, "cpu.cfs_period_us", "50000");
	expect_file(CONTROLLER_CPU, "cpu.cfs_quota_us", "25000");
}

static void without_accounting_of_swap_nothing_is_to_be_swapped(void **state)
{
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "memory.limit_in_bytes", "");
	kernel_file(CONTROLLER_MEMORY, "memory.swappiness", "");
	limits.at[LIMIT_MEMORY_BYTES] = 64 << 20;
	make_group();
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	expect_file(CONTROLLER_MEMORY, "memory.limit_in_bytes", "67108864");
	expect_file(CONTROLLER_MEMORY, "memory.swappiness", "0");
}

static void limits_are_written_for_version_2(void **state)
{
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "memory.max", "");
	kernel_file(CONTROLLER_MEMORY, "memory.swap.max", "");
	kernel_file(CONTROLLER_MEMORY, "pids.max", "");
	kernel_file(CONTROLLER_MEMORY, "cpu.max", "");
	limits.at[LIMIT_MEMORY_BYTES] = 64 << 20;
	limits.at[LIMIT_PROCESSES] = 1;
	limits.at[LIMIT_CPUS_MILLI] = 2000;
	make_group();
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	expect_file(CONTROLLER_MEMORY, "memory.max", "67108864");
	expect_file(CONTROLLER_MEMORY, "memory.swap.max", "0");
	expect_file(CONTROLLER_MEMORY, "pids.max", "2");
	expect_file(CONTROLLER_MEMORY, "cpu.max", "100000 50000");
}

static void a_tiny_share_of_a_processor_is_the_least_that_the_kernel_takes(void **state)
{
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "cpu.max", "");
	limits.at[LIMIT_CPUS_MILLI] = 10;
	make_group();
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	expect_file(CONTROLLER_MEMORY, "cpu.max", "1000 50000");
}

static void a_limit_that_cannot_be_written_is_an_error_with_its_file(void **state)
{
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	make_group();
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	limits.at[LIMIT_PROCESSES] = 5;
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), -1);
	assert_non_null(strstr(e.text, "pids.max"));
}

/* On version 1 memory may never be more than memory and swap together: the kernel would refuse. */
static void memory_goes_up_and_down_in_the_order_that_the_kernel_takes(void **state)
{
	static const char alone[] = "memory.limit_in_bytes";
	static const char with_swap[] = "memory.memsw.limit_in_bytes";
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, alone, "");
	kernel_file(CONTROLLER_MEMORY, with_swap, "");
	make_group();
	limits.at[LIMIT_MEMORY_BYTES] = 200 << 20;
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	/* Each order is seen by which of the two is still writable when the other fails. */
	assert_int_equal(unlinkat(place.group.fd[CONTROLLER_MEMORY], alone, 0), 0);
	limits.at[LIMIT_MEMORY_BYTES] = 300 << 20;
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), -1);
	expect_file(CONTROLLER_MEMORY, with_swap, "314572800");
	limits.at[LIMIT_MEMORY_BYTES] = 100 << 20;
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), -1);
	expect_file(CONTROLLER_MEMORY, with_swap, "314572800");
}

static void only_what_differs_is_written_again(void **state)
{
	struct limits limits = no_limits();
	struct err e = { 0 };

	(void)state;
	kernel_file(CONTROLLER_MEMORY, "memory.max", "");
	kernel_file(CONTROLLER_MEMORY, "pids.max", "");
	make_group();
	limits.at[LIMIT_MEMORY_BYTES] = 64 << 20;
	limits.at[LIMIT_PROCESSES] = 5;
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	kernel_file(CONTROLLER_MEMORY, "memory.max", "untouched");
	limits.at[LIMIT_PROCESSES] = 6;
	assert_int_equal(cgroup_set_limits(&place.group, &limits, &e), 0);
	expect_file(CONTROLLER_MEMORY, "memory.max", "untouched");
	expect_file(CONTROLLER_MEMORY, "pids.max", "7");
}

static void a_tree_holds_what_its_controllers_can(void **state)
{
	const uint32_t all = LIMIT_BIT(LIMIT_MEMORY_BYTES) | LIMIT_BIT(LIMIT_PROCESSES) |
			     LIMIT_BIT(LIMIT_CPU_MS) | LIMIT_BIT(LIMIT_CPUS_MILLI);
	struct cgroup_tree tree = { .version = 1, .has_cpus = true, .dir_fd = { 3, 3, 3, 3 } };
	struct cgroup_tree none = { .dir_fd = { -1, -1, -1, -1 } };

	(void)state;
	assert_int_equal(cgroup_tree_holds(&tree), all);
	tree.dir_fd[CONTROLLER_MEMORY] = -1;
	assert_int_equal(cgroup_tree_holds(&tree), all & ~LIMIT_BIT(LIMIT_MEMORY_BYTES));
	tree.has_cpus = false;
	tree.dir_fd[CONTROLLER_PIDS] = -1;
	assert_int_equal(cgroup_tree_holds(&tree), LIMIT_BIT(LIMIT_CPU_MS));
	assert_int_equal(cgroup_tree_holds(&none), 0);
}

static void version_1_is_entered_by_its_tasks_files(void **state)
{
	int tasks[CONTROLLER_COUNT];
	int into = 99;

	(void)state;
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		kernel_file((enum controller)i, "tasks", "");
	make_group();
	assert_int_equal(cgroup_entrances(&place.group, &into, tasks), CONTROLLER_COUNT);
	assert_int_equal(into, -1);
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		assert_int_equal(write(tasks[i], "0", 1), 1);
		assert_true(fcntl(tasks[i], F_GETFD) & FD_CLOEXEC);
		close(tasks[i]);
	}
}

static void version_2_is_entered_when_the_child_is_born(void **state)
{
	int tasks[CONTROLLER_COUNT];
	int into = -1;

	(void)state;
	make_group();
	assert_int_equal(cgroup_entrances(&place.group, &into, tasks), 0);
	assert_int_equal(into, place.group.fd[0]);
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void killing_reaches_every_listed_process_and_not_the_caller(void **state)
{
	pid_t first = start_sleeper();
	pid_t second = start_sleeper();
	char text[128];
	int status;

	(void)state;
	/* No cgroup.kill here, as on older kernels: the list is what there is. */
	snprintf(text, sizeof(text), "%ld\n%ld\n%ld\n", (long)first, (long)getpid(), (long)second);
	kernel_file(CONTROLLER_MEMORY, "cgroup.procs", text);
	make_group();
	cgroup_kill(&place.group);
	assert_int_equal(waitpid(first, &status, 0), first);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(waitpid(second, &status, 0), second);
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void killing_by_the_kernel_is_preferred(void **state)
{
	(void)state;
	kernel_file(CONTROLLER_MEMORY, "cgroup.kill", "");
	make_group();
	cgroup_kill(&place.group);
	expect_file(CONTROLLER_MEMORY, "cgroup.kill", "1");
}

static bool is_there(enum controller which, const char *name)
{
	struct stat status;

	return fstatat(place.tree.dir_fd[which], name, &status, 0) == 0;
}

static void a_removed_group_leaves_no_directory_and_no_descriptor(void **state)
{
	unsigned before = count_open_fds();
	struct cgroup group;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(cgroup_make(&place.tree, 2, true, &group, &e), 0);
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		assert_true(is_there((enum controller)i, "hotcell-1-2-3-2"));
	assert_true(cgroup_remove(&group));
	for (int i = 0; i < CONTROLLER_COUNT; i++)
		assert_false(is_there((enum controller)i, "hotcell-1-2-3-2"));
	assert_int_equal(count_open_fds(), before);
}

static void the_cpu_controller_of_version_1_is_only_made_on_request(void **state)
{
	struct cgroup group;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(cgroup_make(&place.tree, 2, false, &group, &e), 0);
	assert_int_equal(group.fd[CONTROLLER_CPU], -1);
	assert_false(is_there(CONTROLLER_CPU, group.name));
	assert_true(is_there(CONTROLLER_MEMORY, group.name));
	assert_true(cgroup_remove(&group));
}

static void sweeping_removes_the_groups_of_the_dead_and_of_nobody_else(void **state)
{
	char living[128];
	char dead[128];
	char id[PROCID_SIZE];
	unsigned long long space;

	(void)state;
	assert_int_equal(procid_self(id, sizeof(id)), 0);
	assert_int_equal(sscanf(id, "%llu-", &space), 1);
	snprintf(living, sizeof(living), "hotcell-%s-7", id);
	snprintf(dead, sizeof(dead), "hotcell-%llu-%ld-1-7", space, (long)getpid());
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		make_dir(place.tree.dir_fd[i], living);
		make_dir(place.tree.dir_fd[i], dead);
		make_dir(place.tree.dir_fd[i], "somebody-elses");
		make_dir(place.tree.dir_fd[i], "hotcell-main");
	}
	cgroup_tree_sweep(&place.tree);
	for (int i = 0; i < CONTROLLER_COUNT; i++) {
		assert_true(is_there((enum controller)i, living));
		assert_false(is_there((enum controller)i, dead));
		assert_true(is_there((enum controller)i, "somebody-elses"));
		assert_true(is_there((enum controller)i, "hotcell-main"));
		/* Of another pid namespace: nobody here can tell. */
		assert_true(is_there((enum controller)i, "hotcell-1-2-3-1"));
	}
}

/* The real one, as far as this user may have it. */
static void opening_the_real_tree_never_fails_and_leaves_nothing_open(void **state)
{
	unsigned before = count_open_fds();
	struct cgroup_tree tree;

	(void)state;
	cgroup_tree_open(&tree);
	if (tree.version == 0)
		assert_true(strlen(tree.why_not[CONTROLLER_MEMORY]) > 0);
	else
		assert_true(cgroup_tree_holds(&tree) != 0);
	cgroup_tree_close(&tree);
	assert_int_equal(tree.version, 0);
	assert_int_equal(count_open_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_VERSION1(usage_is_read_from_the_files_of_version_1),
		TEST_VERSION2(usage_is_read_from_the_files_of_version_2),
		TEST_VERSION1(a_peak_is_set_back_for_another_run),
		TEST_VERSION2(a_kernel_without_a_peak_gives_what_is_used_now),
		TEST_VERSION2(files_that_say_nothing_sensible_count_as_nothing),
		TEST(a_cell_without_a_group_has_no_usage_and_no_entrances),
		TEST_VERSION1(limits_are_written_for_version_1),
		TEST_VERSION1(without_accounting_of_swap_nothing_is_to_be_swapped),
		TEST_VERSION2(limits_are_written_for_version_2),
		TEST_VERSION2(a_tiny_share_of_a_processor_is_the_least_that_the_kernel_takes),
		TEST_VERSION2(a_limit_that_cannot_be_written_is_an_error_with_its_file),
		TEST_VERSION1(memory_goes_up_and_down_in_the_order_that_the_kernel_takes),
		TEST_VERSION2(only_what_differs_is_written_again),
		TEST(a_tree_holds_what_its_controllers_can),
		TEST_VERSION1(version_1_is_entered_by_its_tasks_files),
		TEST_VERSION2(version_2_is_entered_when_the_child_is_born),
		TEST_VERSION1(killing_reaches_every_listed_process_and_not_the_caller),
		TEST_VERSION2(killing_by_the_kernel_is_preferred),
		TEST_VERSION1(a_removed_group_leaves_no_directory_and_no_descriptor),
		TEST_VERSION1(the_cpu_controller_of_version_1_is_only_made_on_request),
		TEST_VERSION1(sweeping_removes_the_groups_of_the_dead_and_of_nobody_else),
		TEST(opening_the_real_tree_never_fails_and_leaves_nothing_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
