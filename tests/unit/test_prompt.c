#include "testing.h"

#include "base/prompt.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sched_attr get(void)
{
	struct sched_attr attr = { .size = sizeof(attr) };

	assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
	return attr;
}

/* Kernels that know nothing of it tell 0 before and after. */
static void turns_are_short_for_one_thread_and_nothing_else_changes(void **state)
{
	struct sched_attr before = get();
	struct sched_attr after;
	int status;
	pid_t child;

	(void)state;
	prompt_ask();
	after = get();
	assert_int_equal(after.sched_policy, before.sched_policy);
	assert_int_equal(after.sched_nice, before.sched_nice);
	assert_true(after.sched_runtime == 100000 || after.sched_runtime == before.sched_runtime);
	child = fork();
	if (child == 0)
		_exit(get().sched_runtime == before.sched_runtime ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(turns_are_short_for_one_thread_and_nothing_else_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
