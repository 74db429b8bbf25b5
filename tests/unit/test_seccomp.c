/* The filter is run here in a small interpreter of its own, so that what the table says can be
 * compared with what the program answers for any call; and once in the kernel, in a child. */
#include "testing.h"

#include "base/own.h"
#include "cell/wall/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define X32_BIT 0x40000000
#define DENIED  (SECCOMP_RET_ERRNO | EPERM)
#define ABSENT  (SECCOMP_RET_ERRNO | ENOSYS)
#define ALLOWED SECCOMP_RET_ALLOW
#define KILLED  SECCOMP_RET_KILL_PROCESS
#define IGNORED (SECCOMP_RET_ERRNO | 0)

static struct sock_fprog program;

static int compile(void **state)
{
	struct err e = { 0 };

	(void)state;
	if (seccomp_compile(&(struct seccomp_options){ 0 }, &program, &e))
		fail_msg("%s", e.text);
	return 0;
}

static int forget(void **state)
{
	(void)state;
	free(program.filter);
	return 0;
}

/* One step of classic BPF, as far as the kernel lets a seccomp filter use it. True at a RET. */
static bool step(const struct seccomp_data *data, unsigned *at, uint32_t *accumulator)
{
	const struct sock_filter *i = &program.filter[(*at)++];
	bool jumps;

	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		assert_true(i->k % 4 == 0 && i->k + 4 <= sizeof(*data));
		memcpy(accumulator, (const char *)data + i->k, 4);
		return false;
	case BPF_ALU | BPF_AND | BPF_K:
		*accumulator &= i->k;
		return false;
	case BPF_JMP | BPF_JA:
		*at += i->k;
		return false;
	case BPF_JMP | BPF_JEQ | BPF_K:
		jumps = *accumulator == i->k;
		break;
	case BPF_JMP | BPF_JGE | BPF_K:
		jumps = *accumulator >= i->k;
		break;
	case BPF_JMP | BPF_JSET | BPF_K:
		jumps = (*accumulator & i->k) != 0;
		break;
	case BPF_RET | BPF_K:
		*accumulator = i->k;
		return true;
	default:
		fail_msg("instruction %u is of an unknown kind 0x%x", *at - 1, i->code);
		return true;
	}
	*at += jumps ? i->jt : i->jf;
	return false;
}

static uint32_t answer_of(const struct seccomp_data *data)
{
	uint32_t accumulator = 0;
	unsigned at = 0;

	do
		assert_true(at < program.len);
	while (!step(data, &at, &accumulator));
	return accumulator;
}

static uint32_t answer(int number, unsigned argument, uint64_t value)
{
	struct seccomp_data data = { .nr = number, .arch = seccomp_arch_native() };

	data.args[argument] = value;
	return answer_of(&data);
}

static uint32_t answer_by_name(const char *name, unsigned argument, uint64_t value)
{
	int number = seccomp_syscall_resolve_name(name);

	if (number < 0)
		fail_msg("%s is not a call of this machine", name);
	return answer(number, argument, value);
}

static uint32_t prlimit_answer(int pid, int resource, uint64_t new_limit)
{
	struct seccomp_data data = {
		.nr = SYS_prlimit64,
		.arch = seccomp_arch_native(),
		.args = { (uint64_t)pid, (uint64_t)resource, new_limit },
	};

	return answer_of(&data);
}

static uint32_t code_of(enum seccomp_action action)
{
	switch (action) {
	case CALL_ALLOWED:
		return ALLOWED;
	case CALL_DENIED:
		return DENIED;
	case CALL_ABSENT:
		return ABSENT;
	case CALL_IGNORED:
		return IGNORED;
	}
	return KILLED;
}

/* As a condition of a row looks at it: one half of an argument. */
static void set_half(struct seccomp_data *data, unsigned argument, uint32_t value)
{
	uint64_t *whole = (uint64_t *)&data->args[argument % SECCOMP_UPPER];

	*whole = argument < SECCOMP_UPPER ? (*whole & 0xffffffff00000000ULL) | value :
					    (uint32_t)*whole | (uint64_t)value << 32;
}

static void every_row_gives_what_it_says(void **state)
{
	(void)state;
	for (unsigned i = 0; i < seccomp_table_count; i++) {
		const struct seccomp_row *row = &seccomp_table[i];
		/* Bits that the row does not look at, and those beyond 32, make no difference. */
		const uint64_t others[] = { 0, (uint32_t)~row->mask, 0xabcdef0000000000ULL };
		bool is_read = strcmp(row->call, "prlimit64") == 0 && row->argument == 2;

		if (row->vm_only)
			continue; /* this is a container's filter */
		for (size_t k = 0; k < COUNT(others) && seccomp_numbers[i] >= 0; k++) {
			struct seccomp_data data = {
				.nr = seccomp_numbers[i],
				.arch = seccomp_arch_native(),
			};

			/* A new limit, so that the rows behind the one for reading are asked too. */
			if (strcmp(row->call, "prlimit64") == 0)
				data.args[2] = is_read ? 0 : 0x7ffc00000000;
			data.args[row->argument] = row->value | (row->mask ? others[k] : 0);
			if (row->and_mask)
				set_half(&data, row->and_argument, row->and_value);
			if (answer_of(&data) != code_of(row->action))
				fail_msg("row %u, %s (%s), answers 0x%x to 0x%llx", i, row->call,
					row->why, answer_of(&data),
					(unsigned long long)data.args[row->argument]);
		}
	}
}

/* Whether all that has `argument` as the condition says, also has it as `wider` says. */
struct condition {
	unsigned argument;
	uint32_t mask;
	uint32_t value;
};

static bool includes(const struct condition *wider, const struct condition *condition)
{
	return wider->mask == 0 ||
	       (wider->argument == condition->argument && (wider->mask & ~condition->mask) == 0 &&
		       (condition->value & wider->mask) == wider->value);
}

static bool takes_all_of(const struct seccomp_row *first, const struct seccomp_row *second)
{
	const struct condition wider[] = {
		{ first->argument, first->mask, first->value },
		{ first->and_argument, first->and_mask, first->and_value },
	};
	const struct condition narrower[] = {
		{ second->argument, second->mask, second->value },
		{ second->and_argument, second->and_mask, second->and_value },
	};

	for (size_t i = 0; i < COUNT(wider); i++)
		if (!includes(&wider[i], &narrower[0]) && !includes(&wider[i], &narrower[1]))
			return false;
	return strcmp(first->call, second->call) == 0;
}

static void no_row_stands_behind_one_that_takes_all_it_would(void **state)
{
	(void)state;
	for (unsigned i = 0; i < seccomp_table_count; i++)
		for (unsigned k = 0; k < i; k++)
			if (takes_all_of(&seccomp_table[k], &seccomp_table[i]))
				fail_msg("%s: row %u is never reached because of row %u",
					seccomp_table[i].call, i, k);
}

/* A typo would silently make a call absent. Names that this libseccomp is too old for are here. */
static void every_name_in_the_table_is_the_name_of_a_call(void **state)
{
	static const char *const newer[] = { "fchmodat2", "cachestat", "set_mempolicy_home_node",
		"futex_wake", "futex_wait", "futex_requeue", "map_shadow_stack", "mseal",
		"statmount", "listmount" };

	(void)state;
	for (unsigned i = 0; i < seccomp_table_count; i++) {
		int number = seccomp_syscall_resolve_name(seccomp_table[i].call);
		bool is_newer = false;

		for (size_t k = 0; k < COUNT(newer); k++)
			if (strcmp(seccomp_table[i].call, newer[k]) == 0)
				is_newer = true;
		if (!is_newer && number == __NR_SCMP_ERROR)
			fail_msg("no call is named '%s'", seccomp_table[i].call);
		assert_int_equal(seccomp_numbers[i], number);
		assert_true(strlen(seccomp_table[i].why) > 0);
	}
}

static bool is_in_table(int number)
{
	for (unsigned i = 0; i < seccomp_table_count; i++)
		if (seccomp_numbers[i] == number)
			return true;
	return false;
}

static void whatever_is_not_in_the_table_is_absent(void **state)
{
	static const int far[] = { 9999, 100000, 0x3fffffff };

	(void)state;
	for (int number = 0; number < 1000; number++)
		if (!is_in_table(number) && answer(number, 0, 0) != ABSENT)
			fail_msg("call %d is not in the table and answers 0x%x", number,
				answer(number, 0, 0));
	for (size_t i = 0; i < COUNT(far); i++)
		assert_int_equal(answer(far[i], 0, 0), ABSENT);
}

static void foreign_abis_end_the_process(void **state)
{
	static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_AARCH64,
		AUDIT_ARCH_X86_64, AUDIT_ARCH_RISCV64, 0, 0xffffffff };
	struct seccomp_data data = { .nr = SYS_getpid };

	(void)state;
	for (size_t i = 0; i < COUNT(foreign); i++) {
		data.arch = foreign[i];
		if (foreign[i] != seccomp_arch_native())
			assert_int_equal(answer_of(&data), KILLED);
	}
	if (seccomp_arch_native() != AUDIT_ARCH_X86_64)
		return;
	assert_int_equal(answer(X32_BIT, 0, 0), KILLED);
	assert_int_equal(answer(X32_BIT | SYS_getpid, 0, 0), KILLED);
	assert_int_equal(answer(X32_BIT | 0x3fffffff, 0, 0), KILLED);
	assert_int_equal(answer(-1, 0, 0), KILLED);
}

static void what_programs_need_every_day_is_allowed(void **state)
{
	static const char *const calls[] = { "read", "write", "openat", "mmap", "execve", "wait4",
		"futex", "getrandom", "epoll_wait", "rt_sigaction", "exit_group", "prlimit64",
		"sched_setaffinity", "setpriority" };

	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++)
		assert_int_equal(answer_by_name(calls[i], 0, 0), ALLOWED);
	assert_int_equal(answer_by_name("socket", 0, AF_UNIX), ALLOWED);
	assert_int_equal(answer_by_name("socket", 0, AF_INET), ALLOWED);
	assert_int_equal(answer_by_name("socket", 0, AF_INET6), ALLOWED);
	/* fork() and pthread_create() of glibc. */
	assert_int_equal(answer_by_name("clone", 0, SIGCHLD | CLONE_CHILD_SETTID), ALLOWED);
	assert_int_equal(answer_by_name("clone", 0,
				 CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
					 CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID),
		ALLOWED);
	assert_int_equal(answer_by_name("ioctl", 1, 0x5401), ALLOWED); /* TCGETS */
	assert_int_equal(answer_by_name("mknodat", 2, S_IFIFO | 0600), ALLOWED);
	assert_int_equal(answer_by_name("personality", 0, 0xffffffff), ALLOWED);
}

static void no_flag_of_clone_makes_a_namespace(void **state)
{
	static const uint32_t flags[] = { CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET,
		CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP };

	(void)state;
	for (size_t i = 0; i < COUNT(flags); i++) {
		assert_int_equal(answer_by_name("clone", 0, flags[i] | SIGCHLD), DENIED);
		assert_int_equal(answer_by_name("clone", 0, flags[i] | CLONE_VM), DENIED);
	}
	assert_int_equal(answer_by_name("clone3", 0, 0), ABSENT);
	assert_int_equal(answer_by_name("unshare", 0, 0), DENIED);
	assert_int_equal(answer_by_name("setns", 0, 0), DENIED);
}

static uint32_t answer_to_socket(uint64_t family, uint64_t protocol)
{
	struct seccomp_data data = {
		.nr = SYS_socket,
		.arch = seccomp_arch_native(),
		.args = { family, SOCK_STREAM, protocol },
	};

	return answer_of(&data);
}

static void only_everyday_sockets_are_made(void **state)
{
	(void)state;
	for (unsigned family = 0; family < 64; family++) {
		bool is_internet = family == AF_INET || family == AF_INET6;

		for (unsigned protocol = 0; protocol < 300; protocol++) {
			bool usual =
				protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
			bool fine = family == AF_UNIX || (is_internet && usual);

			assert_int_equal(
				answer_to_socket(family, protocol), fine ? ALLOWED : DENIED);
		}
		assert_int_equal(answer_by_name("socketpair", 0, family),
			family == AF_UNIX ? ALLOWED : DENIED);
	}
	assert_int_equal(answer_to_socket(0xffffffff, 0), DENIED);
	assert_int_equal(answer_to_socket(AF_NETLINK | 0x100000000ULL, 0), DENIED);
	assert_int_equal(answer_to_socket(AF_INET, IPPROTO_SCTP), DENIED);
}

static uint32_t answer_to_pair(unsigned type)
{
	struct seccomp_data data = {
		.nr = SYS_socketpair,
		.arch = seccomp_arch_native(),
		.args = { AF_UNIX, type },
	};

	return answer_of(&data);
}

static uint32_t answer_to_userfaultfd(unsigned flags)
{
	return answer_of(&(struct seccomp_data){
		.nr = SYS_userfaultfd,
		.arch = seccomp_arch_native(),
		.args = { flags },
	});
}

static void only_a_vmm_may_have_its_faults_watched(void **state)
{
	struct sock_fprog usual = program;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(answer_to_userfaultfd(O_CLOEXEC | UFFD_USER_MODE_ONLY), DENIED);
	if (seccomp_compile(&(struct seccomp_options){ .is_vm = true }, &program, &e))
		fail_msg("%s", e.text);
	assert_int_equal(answer_to_userfaultfd(O_CLOEXEC | UFFD_USER_MODE_ONLY), ALLOWED);
	assert_int_equal(answer_to_userfaultfd(O_CLOEXEC), DENIED);
	assert_int_equal(answer_to_userfaultfd(0), DENIED);
	free(program.filter);
	program = usual;
}

/* By the table alone a program could reach whoever listens on a socket in a directory of the host. */
static void beside_mounts_no_unix_socket_can_be_connected_to_a_path(void **state)
{
	struct sock_fprog usual = program;
	struct err e = { 0 };

	(void)state;
	if (seccomp_compile(&(struct seccomp_options){ .has_mounts = true }, &program, &e))
		fail_msg("%s", e.text);
	assert_int_equal(answer_to_socket(AF_UNIX, 0), DENIED);
	assert_int_equal(answer_to_socket(AF_INET, 0), ALLOWED);
	for (unsigned type = 0; type < 16; type++)
		for (unsigned flags = 0; flags < 2; flags++)
			assert_int_equal(
				answer_to_pair(type | (flags ? SOCK_CLOEXEC | SOCK_NONBLOCK : 0)),
				type == SOCK_STREAM || type == SOCK_SEQPACKET ? ALLOWED : DENIED);
	free(program.filter);
	program = usual;
	assert_int_equal(answer_to_pair(SOCK_DGRAM), ALLOWED);
}

/* The keeper is process 1. */
static void the_keeper_cannot_be_slowed_down(void **state)
{
	static const char *const by_pid[] = { "sched_setaffinity", "sched_setparam",
		"sched_setscheduler", "sched_setattr" };

	(void)state;
	for (size_t i = 0; i < COUNT(by_pid); i++) {
		assert_int_equal(answer_by_name(by_pid[i], 0, 1), DENIED);
		assert_int_equal(answer_by_name(by_pid[i], 0, 2), ALLOWED);
	}
	assert_int_equal(answer_by_name("setpriority", 1, 1), DENIED);
	assert_int_equal(answer_by_name("setpriority", 0, 2), DENIED);
	assert_int_equal(answer_by_name("ioprio_set", 1, 1), DENIED);
	assert_int_equal(prlimit_answer(1, RLIMIT_NOFILE, 0x7ffc12345678), DENIED);
	assert_int_equal(prlimit_answer(0, RLIMIT_NOFILE, 0x7ffc12345678), ALLOWED);
}

static void the_core_limit_is_read_but_not_set(void **state)
{
	(void)state;
	assert_int_equal(prlimit_answer(0, RLIMIT_CORE, 0), ALLOWED);
	assert_int_equal(prlimit_answer(0, RLIMIT_CORE, 0x7ffc12345678), DENIED);
	/* Pointers that are NULL in one half only. */
	assert_int_equal(prlimit_answer(0, RLIMIT_CORE, 0x7ffc00000000), DENIED);
	assert_int_equal(prlimit_answer(0, RLIMIT_CORE, 0x12345678), DENIED);
}

static void what_reaches_beyond_the_cell_is_denied_or_absent(void **state)
{
	static const char *const denied[] = { "mount", "umount2", "pivot_root", "chroot", "ptrace",
		"process_vm_writev", "process_vm_readv", "bpf", "perf_event_open", "userfaultfd",
		"keyctl", "add_key", "request_key", "kexec_load", "init_module", "finit_module",
		"swapon", "reboot", "settimeofday", "clock_settime", "open_by_handle_at",
		"pidfd_getfd", "kcmp", "syslog", "sethostname" };
	static const char *const absent[] = { "io_uring_setup", "io_uring_enter",
		"io_uring_register", "clone3" };

	(void)state;
	for (size_t i = 0; i < COUNT(denied); i++)
		assert_int_equal(answer_by_name(denied[i], 0, 0), DENIED);
	for (size_t i = 0; i < COUNT(absent); i++)
		assert_int_equal(answer_by_name(absent[i], 0, 0), ABSENT);
	assert_int_equal(answer_by_name("mknodat", 2, S_IFBLK | 0600), DENIED);
	assert_int_equal(answer_by_name("mknodat", 2, S_IFCHR | 0600), DENIED);
	assert_int_equal(answer_by_name("ioctl", 1, 0x5412), DENIED); /* TIOCSTI */
	assert_int_equal(answer_by_name("ioctl", 1, 0xffffffff00005412ULL), DENIED);
	assert_int_equal(answer_by_name("personality", 0, PER_LINUX32), DENIED);
	assert_int_equal(answer_by_name("personality", 0, READ_IMPLIES_EXEC), DENIED);
}

static bool fails_with(long result, int wanted)
{
	return result == -1 && errno == wanted;
}

/* The exit code says which claim failed. */
static int under_the_filter(void)
{
	struct err e;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || seccomp_install(&program, &e))
		return 1;
	if (syscall(SYS_getpid) <= 0)
		return 2;
	if (!fails_with(syscall(SYS_mount, "x", "/x", "tmpfs", 0, 0), EPERM))
		return 3;
	if (!fails_with(syscall(9999), ENOSYS))
		return 4;
	if (!fails_with(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0), EPERM))
		return 5;
	if (!fails_with(syscall(SYS_clone3, NULL, 0), ENOSYS))
		return 6;
	if (!fails_with(syscall(SYS_unshare, CLONE_NEWUSER), EPERM))
		return 7;
	return 0;
}

static int status_of_child(int (*claims)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		syscall(SYS_exit_group, claims());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void the_kernel_takes_the_filter_and_answers_the_same(void **state)
{
	int status = status_of_child(under_the_filter);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#ifdef __x86_64__
static int x32_under_the_filter(void)
{
	struct err e;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || seccomp_install(&program, &e))
		return 1;
	syscall(X32_BIT | SYS_getpid);
	return 2;
}

static void a_call_of_the_x32_abi_ends_the_process_in_the_kernel(void **state)
{
	int status = status_of_child(x32_under_the_filter);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}
#endif

static void actions_have_the_names_that_programs_see(void **state)
{
	(void)state;
	assert_string_equal(seccomp_action_name(CALL_ALLOWED), "allow");
	assert_string_equal(seccomp_action_name(CALL_DENIED), "EPERM");
	assert_string_equal(seccomp_action_name(CALL_ABSENT), "ENOSYS");
	assert_string_equal(seccomp_action_name(CALL_IGNORED), "0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_row_gives_what_it_says),
		TEST(no_row_stands_behind_one_that_takes_all_it_would),
		TEST(every_name_in_the_table_is_the_name_of_a_call),
		TEST(whatever_is_not_in_the_table_is_absent),
		TEST(foreign_abis_end_the_process),
		TEST(what_programs_need_every_day_is_allowed),
		TEST(no_flag_of_clone_makes_a_namespace),
		TEST(only_everyday_sockets_are_made),
		TEST(only_a_vmm_may_have_its_faults_watched),
		TEST(beside_mounts_no_unix_socket_can_be_connected_to_a_path),
		TEST(the_core_limit_is_read_but_not_set),
		TEST(the_keeper_cannot_be_slowed_down),
		TEST(what_reaches_beyond_the_cell_is_denied_or_absent),
		TEST(the_kernel_takes_the_filter_and_answers_the_same),
#ifdef __x86_64__
		TEST(a_call_of_the_x32_abi_ends_the_process_in_the_kernel),
#endif
		TEST(actions_have_the_names_that_programs_see),
	};

	return cmocka_run_group_tests(tests, compile, forget);
}
