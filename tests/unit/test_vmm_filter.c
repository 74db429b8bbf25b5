/* The filter is run here in a small interpreter of its own. */
#include "testing.h"

#include "base/own.h"
#include "vmm/call_socket.h"
#include "vmm/filter.h"
#include "wire/vmm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define ALLOWED SECCOMP_RET_ALLOW
#define ABSENT  (SECCOMP_RET_ERRNO | ENOSYS)

static struct sock_filter program[FILTER_SIZE_MAX];
static size_t length;

static int compile(void **state)
{
	(void)state;
	length = filter_compile(program, COUNT(program));
	return length ? 0 : -1;
}

static uint32_t run(const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t at = 0; at < length; at++) {
		const struct sock_filter *f = &program[at];

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(f->k % 4 == 0 && f->k + 4 <= sizeof(*data));
			memcpy(&a, (const char *)data + f->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += a >= f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JA:
			at += f->k;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			fail_msg("instruction %#x", f->code);
		}
	}
	fail_msg("the end is reached");
	return 0;
}

static uint32_t answer(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t e)
{
	const struct seccomp_data data = {
		.nr = (int)number, .arch = AUDIT_ARCH_X86_64, .args = { a, b, c, 0, e }
	};

	return run(&data);
}

static void what_is_in_the_table_passes(void **state)
{
	(void)state;
	for (size_t i = 0; i < filter_rules_count; i++) {
		const struct filter_rule *r = &filter_rules[i];
		struct seccomp_data data = { .nr = r->number, .arch = AUDIT_ARCH_X86_64 };

		for (int k = 0; k < FILTER_CHECKS_MAX; k++)
			if (r->checks[k].mask)
				data.args[r->checks[k].argument] = r->checks[k].value;
		assert_int_equal(run(&data), ALLOWED);
	}
}

static void what_is_not_there_does_not(void **state)
{
	static const int absent[] = { SYS_execve, SYS_ptrace, SYS_mount, SYS_unshare, SYS_setns,
		SYS_bpf, SYS_clone3, SYS_process_vm_readv, SYS_process_vm_writev,
		SYS_io_uring_setup, SYS_keyctl, SYS_open_by_handle_at, SYS_userfaultfd,
		SYS_perf_event_open, SYS_pidfd_getfd, SYS_seccomp, SYS_setuid, SYS_chroot,
		SYS_pivot_root, SYS_shmget };

	(void)state;
	for (size_t i = 0; i < COUNT(absent); i++)
		assert_int_equal(answer(absent[i], 0, 0, 0, 0), ABSENT);
	/* The same calls by another name. */
	assert_int_equal(answer(0x40000000 | SYS_read, 0, 0, 0, 0), ABSENT);
}

static void another_abi_ends_the_process(void **state)
{
	const struct seccomp_data data = { .nr = SYS_read, .arch = AUDIT_ARCH_I386 };

	(void)state;
	assert_int_equal(run(&data), SECCOMP_RET_KILL_PROCESS);
}

static void only_the_vmm_itself_is_executed(void **state)
{
	(void)state;
	assert_int_equal(answer(SYS_execveat, VMM_SELF_FD, 0, 0, AT_EMPTY_PATH), ALLOWED);
	assert_int_equal(answer(SYS_execveat, VMM_SELF_FD, 0, 0, 0), ABSENT);
	assert_int_equal(answer(SYS_execveat, 3, 0, 0, AT_EMPTY_PATH), ABSENT);
	assert_int_equal(answer(SYS_execveat, (uint64_t)AT_FDCWD, 0, 0, AT_EMPTY_PATH), ABSENT);
}

static void children_have_no_namespaces_of_their_own(void **state)
{
	(void)state;
	assert_int_equal(answer(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0), ALLOWED);
	for (int bit = 0; bit < 32; bit++) {
		uint64_t flags = (CLONE_VM | CLONE_VFORK | SIGCHLD) ^ 1UL << bit;

		assert_int_equal(answer(SYS_clone, flags, 0, 0, 0), ABSENT);
	}
}

static void a_process_can_be_waited_for_but_no_thread(void **state)
{
	(void)state;
	assert_int_equal(answer(SYS_pidfd_open, 5, 0, 0, 0), ALLOWED);
	assert_int_equal(answer(SYS_pidfd_open, 5, O_NONBLOCK, 0, 0), ALLOWED);
	assert_int_equal(answer(SYS_pidfd_open, 5, O_EXCL, 0, 0), ABSENT); /* PIDFD_THREAD */
	assert_int_equal(answer(SYS_pidfd_send_signal, 5, SIGTERM, 0, 0), ALLOWED);
	assert_int_equal(answer(SYS_rt_sigqueueinfo, 5, SIGTERM, 0, 0), ALLOWED);
}

static void nothing_that_is_executed_is_mapped(void **state)
{
	(void)state;
	for (uint64_t p = 0; p < 8; p++) {
		uint32_t wanted = p & PROT_EXEC ? ABSENT : ALLOWED;

		assert_int_equal(answer(SYS_mmap, 0, 0, p, 0), wanted);
		assert_int_equal(answer(SYS_mprotect, 0, 0, p, 0), wanted);
	}
}

static void drivers_are_asked_for_little(void **state)
{
	unsigned allowed = 0;

	(void)state;
	assert_int_equal(answer(SYS_ioctl, 1005, KVM_RUN, 0, 0), ALLOWED);
	assert_int_equal(answer(SYS_ioctl, 1005, KVM_CREATE_DEVICE, 0, 0), ABSENT);
	assert_int_equal(answer(SYS_ioctl, 1005, KVM_CREATE_IRQCHIP, 0, 0), ABSENT);
	assert_int_equal(answer(SYS_ioctl, 0, 0x5412 /* TIOCSTI */, 0, 0), ABSENT);
	for (size_t i = 0; i < filter_rules_count; i++)
		allowed += filter_rules[i].number == SYS_ioctl;
	assert_in_range(allowed, 10, 20);
}

static void sockets_are_of_few_kinds_and_options(void **state)
{
	(void)state;
	assert_int_equal(answer(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0), ALLOWED);
	assert_int_equal(answer(SYS_socket, AF_INET, SOCK_RAW, 0, 0), ABSENT);
	assert_int_equal(answer(SYS_socket, AF_NETLINK, SOCK_DGRAM, 0, 0), ABSENT);
	assert_int_equal(answer(SYS_socket, AF_PACKET, SOCK_RAW, 0, 0), ABSENT);
	assert_int_equal(answer(SYS_setsockopt, 3, SOL_SOCKET, SO_REUSEADDR, 0), ALLOWED);
	assert_int_equal(answer(SYS_setsockopt, 3, SOL_SOCKET, SO_ATTACH_FILTER, 0), ABSENT);
	assert_int_equal(answer(SYS_setsockopt, 3, SOL_SOCKET, SO_PEERCRED, 0), ABSENT);
	assert_int_equal(answer(SYS_getsockopt, 3, SOL_SOCKET, SO_PEERCRED, 0), ALLOWED);
}

static bool meets(const struct filter_rule *r, const struct seccomp_data *data)
{
	if (r->number != data->nr)
		return false;
	for (int k = 0; k < FILTER_CHECKS_MAX; k++) {
		const struct filter_check *c = &r->checks[k];

		if (c->mask && ((uint32_t)data->args[c->argument] & c->mask) != c->value)
			return false;
	}
	return true;
}

static bool is_an_option(const struct seccomp_data *data)
{
	for (unsigned i = 0; i < socket_options_count; i++)
		if ((uint32_t)socket_options[i].level == (uint32_t)data->args[1] &&
			(uint32_t)socket_options[i].name == (uint32_t)data->args[2] &&
			(data->nr == SYS_getsockopt ||
				(data->nr == SYS_setsockopt && socket_options[i].may_set)))
			return true;
	return false;
}

static uint32_t wanted(const struct seccomp_data *data)
{
	bool is_allowed = is_an_option(data);

	for (size_t i = 0; i < filter_rules_count; i++)
		is_allowed = is_allowed || meets(&filter_rules[i], data);
	return is_allowed ? ALLOWED : ABSENT;
}

/* Every value that is in the table, with every call, and what is beside it. */
static void every_call_is_answered_as_the_table_says(void **state)
{
	(void)state;
	for (int number = 0; number < 600; number++)
		for (size_t i = 0; i < filter_rules_count; i++)
			for (int beside = -1; beside <= 1; beside++) {
				const struct filter_check *c = filter_rules[i].checks;
				struct seccomp_data data = { .nr = number,
					.arch = AUDIT_ARCH_X86_64 };

				data.args[c[1].argument] = c[1].value;
				data.args[c[0].argument] =
					(uint64_t)(c[0].value + (unsigned)beside);
				assert_int_equal(run(&data), wanted(&data));
				data.args[c[0].argument] = c[0].value;
				data.args[c[1].argument] =
					(uint64_t)(c[1].value + (unsigned)beside);
				assert_int_equal(run(&data), wanted(&data));
			}
}

static void every_socket_option_is_answered_as_the_table_says(void **state)
{
	(void)state;
	for (unsigned level = 0; level < 300; level++)
		for (unsigned name = 0; name < 300; name++)
			for (int set = 0; set < 2; set++) {
				const struct seccomp_data data = {
					.nr = set ? SYS_setsockopt : SYS_getsockopt,
					.arch = AUDIT_ARCH_X86_64,
					.args = { 3, level, name },
				};

				assert_int_equal(run(&data), wanted(&data));
			}
}

/* Installing it takes the kernel a microsecond for three of them. */
static void it_is_short(void **state)
{
	(void)state;
	assert_in_range(length, 1, 600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_in_the_table_passes),
		TEST(what_is_not_there_does_not),
		TEST(another_abi_ends_the_process),
		TEST(only_the_vmm_itself_is_executed),
		TEST(children_have_no_namespaces_of_their_own),
		TEST(a_process_can_be_waited_for_but_no_thread),
		TEST(nothing_that_is_executed_is_mapped),
		TEST(drivers_are_asked_for_little),
		TEST(sockets_are_of_few_kinds_and_options),
		TEST(every_call_is_answered_as_the_table_says),
		TEST(every_socket_option_is_answered_as_the_table_says),
		TEST(it_is_short),
	};

	return cmocka_run_group_tests(tests, compile, NULL);
}
