#include "testing.h"

#include "base/procid.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Forks; the child waits to be killed. Its id as it tells it itself. */
static pid_t start_child(char *ret_id, size_t size)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char id[PROCID_SIZE] = "";

		/* A name that looks like the fields behind it. */
		prctl(PR_SET_NAME, ") S 1 2 3 (");
		if (procid_self(id, sizeof(id)) || write(ends[1], id, sizeof(id)) != sizeof(id))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], ret_id, size), size);
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void an_id_has_namespace_pid_and_start_time(void **state)
{
	char id[PROCID_SIZE];
	unsigned long long space;
	unsigned long long started;
	long pid;
	int used = 0;

	(void)state;
	assert_int_equal(procid_self(id, sizeof(id)), 0);
	assert_int_equal(sscanf(id, "%llu-%ld-%llu%n", &space, &pid, &started, &used), 3);
	assert_int_equal(used, strlen(id));
	assert_int_equal(pid, getpid());
	assert_true(space > 0);
	assert_true(started > 0);
}

static void a_living_process_is_not_dead(void **state)
{
	char id[PROCID_SIZE];
	char longer[PROCID_SIZE + 16];

	(void)state;
	assert_int_equal(procid_self(id, sizeof(id)), 0);
	assert_false(procid_is_dead(id));
	snprintf(longer, sizeof(longer), "%s.workspace", id);
	assert_false(procid_is_dead(longer));
}

static void a_process_that_ended_is_dead(void **state)
{
	char id[PROCID_SIZE];
	pid_t pid = start_child(id, sizeof(id));

	(void)state;
	assert_false(procid_is_dead(id));
	end_child(pid);
	assert_true(procid_is_dead(id));
}

static void a_process_that_nobody_reaped_is_dead(void **state)
{
	char id[PROCID_SIZE];
	pid_t pid = start_child(id, sizeof(id));
	siginfo_t ended;

	(void)state;
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
	assert_true(procid_is_dead(id));
	end_child(pid);
}

static void another_process_with_the_same_pid_does_not_count(void **state)
{
	char id[PROCID_SIZE];
	unsigned long long space;
	unsigned long long started;
	long pid;

	(void)state;
	assert_int_equal(procid_self(id, sizeof(id)), 0);
	assert_int_equal(sscanf(id, "%llu-%ld-%llu", &space, &pid, &started), 3);
	snprintf(id, sizeof(id), "%llu-%ld-%llu", space, pid, started - 1);
	assert_true(procid_is_dead(id));
}

static void nobody_can_tell_about_another_pid_namespace(void **state)
{
	(void)state;
	assert_false(procid_is_dead("1-999999999-1"));
}

static void what_is_no_id_is_not_known_to_be_dead(void **state)
{
	static const char *const texts[] = { "", "main", "1", "1-2", "1-2-", "--", "-1--1-x",
		"a-b-c" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(procid_is_dead(texts[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_id_has_namespace_pid_and_start_time),
		TEST(a_living_process_is_not_dead),
		TEST(a_process_that_ended_is_dead),
		TEST(a_process_that_nobody_reaped_is_dead),
		TEST(another_process_with_the_same_pid_does_not_count),
		TEST(nobody_can_tell_about_another_pid_namespace),
		TEST(what_is_no_id_is_not_known_to_be_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
